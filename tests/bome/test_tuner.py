"""The tuner: its rules one by one, and that they lead to good answers from bad settings."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam

from bome import BOME, Batches, GradientDescent, Problem, Stepper
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair, dot
from bome.errors import ProblemError
from bome.loop import Record, Result, run
from bome.methods import AIDCG, ITD
from bome.methods.base import Info, Method, Step
from bome.oracles import Oracle
from bome.projections import box
from bome.runs.perform import perform
from bome.runs.plan import plan
from bome.stopping import MaxSteps
from bome.tasks import quadratic_instance
from bome.tuner import Scale, Seen, Tuner, TunerRules, steps_after
from tests.support.samples import bome, toy

RULES = TunerRules()
QUICK = TunerRules(max_steps=20)


def _seen(agreement: float, part_v: float = 1.0, part_theta: float = 1.0, moved: float = 1.0) -> Seen:
    return Seen(0.0, agreement, part_v, part_theta, moved, rounding=1e-13)


class TestScale:
    def test_the_balance_of_the_two_parts_is_restored_when_steps_turn_back(self) -> None:
        """The factor is √(part of θ / part of v): 1/2 for 1/4, 3/2 for 9/4."""
        assert Scale(8.0).after(_seen(-1.0, part_v=4.0), RULES).value == 4.0
        assert Scale(8.0).after(_seen(-1.0, part_v=2.0), RULES).value == pytest.approx(8 / math.sqrt(2))
        assert Scale(8.0).after(_seen(-1.0, part_theta=2.25), RULES).value == 12.0
        assert Scale(8.0).after(_seen(-1.0), RULES).value == 8.0

    def test_a_decision_changes_the_scale_by_a_quarter_to_twice_at_first(self) -> None:
        assert Scale().after(_seen(-1.0, part_v=1e6), RULES).value == 0.25
        assert Scale().after(_seen(-1.0, part_theta=1e6), RULES).value == 2.0

    def test_growing_and_shrinking_in_turn_makes_changes_smaller(self) -> None:
        """Up by 2, down by 2² (first reversal), up by 2^(1/2) (second), down by (2^(1/3))² (third)."""
        up, down = _seen(-1.0, part_theta=1e6), _seen(-1.0, part_v=1e6)
        scale, values = Scale(), []
        for seen in (up, down, up, down):
            scale = scale.after(seen, RULES)
            values.append(scale.value)
        assert values == pytest.approx([2, 1 / 2, 2**-0.5, 2 ** (-0.5 - 2 / 3)])
        assert scale.reversals == 3

    def test_standing_still_is_no_reversal(self) -> None:
        scale = Scale(trend=1).after(_seen(-1.0), RULES).after(_seen(-1.0, part_theta=4.0), RULES)
        assert (scale.reversals, scale.trend) == (0, 1)

    def test_it_grows_while_v_keeps_moving_smoothly(self) -> None:
        assert Scale(moved=1.0).after(_seen(1.0, moved=1.0), RULES).value == 2.0
        assert Scale(moved=1.0).after(_seen(1.0, moved=0.5), RULES).value == 2.0

    def test_it_stays_while_v_settles(self) -> None:
        assert Scale(moved=1.0).after(_seen(1.0, moved=0.49), RULES) == Scale(moved=0.49)

    def test_it_stays_while_v_moves_within_rounding(self) -> None:
        assert Scale().after(_seen(0.0, 0.0, 0.0, moved=0.0), RULES).value == 1.0
        assert Scale().after(_seen(1.0, moved=1e-14), RULES).value == 1.0

    def test_it_stays_where_v_has_no_part_at_all(self) -> None:
        assert Scale().after(_seen(-1.0, part_v=0.0, moved=0.0), RULES).value == 1.0

    def test_it_is_bounded(self) -> None:
        rules = TunerRules(widest=100.0)
        assert Scale(99.0).after(_seen(1.0), rules).value == 100.0
        assert Scale(0.011).after(_seen(-1.0, part_v=1e6), rules).value == 0.01


class TestSteps:
    def test_one_step_has_no_second_half(self) -> None:
        assert steps_after(1, 0.0, RULES) == 2
        assert steps_after(1, math.nan, RULES) == 2

    def test_they_double_while_the_second_half_brings_much(self) -> None:
        """p = 0.9^10 = 0.35 has the tail p / (1 + p) = 0.26; after 100 steps p would be 3e-5."""
        assert steps_after(10, 0.26, RULES) == 20
        assert steps_after(80, 0.011, RULES) == 100

    def test_they_stay_where_the_second_half_brings_little(self) -> None:
        assert steps_after(10, 0.009, RULES) == 10

    def test_they_halve_where_half_will_do(self) -> None:
        """p^(1/2) is the p of half the steps, so the tail of half the steps is about the root of the tail."""
        assert steps_after(50, 0.9e-4, RULES) == 25
        assert steps_after(50, 1.1e-4, RULES) == 50
        assert steps_after(3, 0.0, RULES) == 3

    def test_they_do_not_grow_where_a_long_look_ahead_is_not_enough_either(self) -> None:
        """At tail 0.45 p = 0.82 after 10 steps, hence 0.13 > 0.1 after 100; at tail 0.44 0.79, hence 0.09."""
        assert steps_after(10, 0.45, RULES) == 10
        assert steps_after(10, 0.44, RULES) == 20
        assert steps_after(10, 0.5, RULES) == 10
        assert steps_after(10, 0.9, RULES) == 10

    def test_they_always_grow_where_they_are_few(self) -> None:
        assert steps_after(8, 0.5, RULES) == 16

    def test_more_steps_than_the_largest_number_are_left_to_the_user(self) -> None:
        assert steps_after(200, 0.2, RULES) == 200

    def test_an_inner_loss_that_never_falls_says_nothing(self) -> None:
        assert steps_after(10, math.nan, RULES) == 10


def _stepper(problem: Problem, outer_lr: float = 0.1) -> Stepper:
    return Stepper(problem, bome(), SGD(problem.v.leaves, outer_lr), SGD(problem.theta.leaves, 0.1))


class TestMeasurements:
    def test_a_long_step_of_v_is_shortened_to_the_limit(self) -> None:
        """‖v_0‖² = 0.09 + 0.04 + 0.01 = 0.14, so that the longest step is 0.1 (1 + √0.14)."""
        problem = toy()
        before = problem.point.v[0].clone()
        stepper = _stepper(problem, outer_lr=1e6)
        stepper.v_limit = 0.1
        stepper.step()
        move = problem.point.v[0] - before
        assert float(move.norm()) == pytest.approx(0.1 * (1 + math.sqrt(0.14)), rel=1e-12)

    def test_a_short_step_of_v_is_left_as_it_is(self) -> None:
        free, bounded = _stepper(toy()), _stepper(toy())
        bounded.v_limit = 10.0
        for stepper in (free, bounded):
            stepper.step()
        assert torch.equal(free.problem.point.v[0], bounded.problem.point.v[0])

    def test_the_limit_counts_the_scale(self) -> None:
        """Ten times the step size by `v_scale` is the same as by the optimiser."""
        moved = []
        for lr, scale in ((1e6, 1.0), (1e5, 10.0)):
            stepper = _stepper(toy(), lr)
            stepper.v_limit, stepper.v_scale = 0.1, scale
            stepper.step()
            moved.append(stepper.problem.point.v[0].clone())
        torch.testing.assert_close(moved[0], moved[1], rtol=1e-12, atol=0)

    def test_the_window_sums_what_the_directions_say(self) -> None:
        """Three steps with ξ_v = 0.2, ξ_θ = 0.1: sums over the two pairs of successive directions."""
        problem = toy()
        start = problem.point.v[0].clone()
        stepper, tuner = _stepper(problem, 0.2), Tuner(TunerRules(window=4))
        tuner.attach(stepper)
        directions, tails = [], []
        for _ in range(3):
            info = stepper.step()
            tuner.after(stepper, info)
            assert stepper.direction is not None
            assert info.tail is not None
            directions.append(stepper.direction)
            tails.append(float(info.tail))
        agreement = part_v = part_theta = 0.0
        for now, last in zip(directions[1:], directions[:-1], strict=True):
            agreement += 0.2 * float(dot(now.v, last.v)) + 0.1 * float(dot(now.theta, last.theta))
            part_v += 0.2 * float((now.v[0] - last.v[0]).square().sum())
            part_theta += 0.1 * float((now.theta[0] - last.theta[0]).square().sum())
        seen = tuner._window(problem.point.v)
        moved = float((problem.point.v[0] - start).norm())
        assert seen[:5] == pytest.approx((sum(tails) / 3, agreement, part_v, part_theta, moved), rel=1e-12)

    def test_without_a_tuner_no_direction_is_kept(self) -> None:
        stepper = _stepper(toy())
        stepper.step()
        assert stepper.direction is None


@dataclass(frozen=True)
class Plain(Method):
    """Follows ∇f, without a look-ahead."""

    name: ClassVar[str] = "plain"

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        f = oracle.outer(*point, batches.outer[0])
        return Step(f.grad, state, Info(f.value))


class TestRefusals:
    def test_methods_without_an_inner_map(self) -> None:
        problem = toy()
        stepper = Stepper(problem, Plain(), SGD(problem.v.leaves, 0.1), SGD(problem.theta.leaves, 0.1))
        with pytest.raises(ProblemError, match="no inner map"):
            Tuner().attach(stepper)

    def test_optimisers_with_step_sizes_of_their_own(self) -> None:
        problem = toy()
        stepper = Stepper(problem, bome(), Adam(problem.v.leaves), SGD(problem.theta.leaves, 0.1))
        with pytest.raises(ProblemError, match="make outer_opt a"):
            Tuner().attach(stepper)

    @pytest.mark.parametrize("method", [AIDCG(GradientDescent(0.1)), ITD(GradientDescent(0.1))])
    def test_methods_that_do_not_measure_the_gap_before_any_step(self, method: Method) -> None:
        problem = toy()
        before = [x.clone() for x in (*problem.point.v, *problem.point.theta)]
        with pytest.raises(
            ProblemError, match=f"{method.name} does not measure q̂ as a tuner needs it: take bome, or no"
        ):
            run(problem, method, outer_opt=SGD(problem.v.leaves, 0.1), tuner=Tuner(), stop=MaxSteps(1))
        assert all(map(torch.equal, before, (*problem.point.v, *problem.point.theta)))

    def test_a_step_that_did_not_measure_the_gap(self) -> None:
        problem = toy()
        stepper, tuner = _stepper(problem), Tuner()
        tuner.attach(stepper)
        with pytest.raises(ProblemError, match="did not measure"):
            tuner.after(stepper, stepper.step()._replace(tail=None))


def _solved(task: str, method: str, seed: int = 0, rules: TunerRules = RULES, **values: Any) -> tuple[float, Result]:
    """The distance from the optimum and the result."""
    made = plan(task, method, values, seed)
    if made.tuner is not None:
        made = replace(made, tuner=Tuner(rules))
    result = perform(made, log_every=10**6)
    assert made.task.optimum is not None
    return made.task.optimum.distance(made.task.problem.point), result


class TestGoals:
    @pytest.mark.parametrize("outer_lr", [5e-5, 5.0])
    def test_coreset(self, outer_lr: float) -> None:
        """After 500 steps the default settings are 0.185 away; untuned, these step sizes are 1.97 and 0.9 away."""
        tuned, result = _solved("coreset", "bome:auto", rules=QUICK, steps=500, outer_lr=outer_lr)
        assert tuned < 0.185
        assert 0.02 < outer_lr * result.tuned["outer_scale"] < 0.1

    @pytest.mark.parametrize("outer_lr", [5e-4, 50.0])
    @pytest.mark.parametrize("inner_steps", [1, 10])
    def test_lls(self, outer_lr: float, inner_steps: int) -> None:
        tuned, _ = _solved("lls", "bome:auto", rules=QUICK, steps=200, outer_lr=outer_lr, inner_steps=inner_steps)
        assert tuned < 1e-6

    @pytest.mark.parametrize("outer_lr", [5e-4, 0.05, 5.0])
    def test_minimax(self, outer_lr: float) -> None:
        """The default settings end at v = 0.0492."""
        tuned, _ = _solved("minimax", "bome:auto", outer_lr=outer_lr)
        assert tuned < 0.0492

    @pytest.mark.parametrize(
        ("seed", "outer_lr", "steps"), [(0, 20.0, 200), (1, 20.0, 200), (2, 20.0, 200), (2, 2e-4, 400)]
    )
    def test_quadratic_gets_nearer_than_the_usual_number_of_inner_steps_allows(
        self, seed: int, outer_lr: float, steps: int
    ) -> None:
        """With the default T = 10 and α = 0.2 the run settles at `fixed_point(10, 0.2)`."""
        instance = quadratic_instance(seed=seed)
        pairs = zip(instance.fixed_point(10, 0.2), instance.solution(), strict=True)
        default = math.sqrt(sum(float((x - y).square().sum()) for x, y in pairs))
        tuned, result = _solved("quadratic", "bome:auto", seed, QUICK, steps=steps, outer_lr=outer_lr)
        assert tuned < 0.85 * default
        assert result.tuned["inner_steps"] == 20

    @pytest.mark.parametrize("outer_lr", [5e-4, 0.5])
    def test_sine_needs_fewer_inner_steps(self, outer_lr: float) -> None:
        tuned, result = _solved("sine", "bome:auto", steps=150, outer_lr=outer_lr)
        assert tuned < 1e-3
        assert result.tuned["inner_steps"] == 25

    @pytest.mark.parametrize("outer_lr", [10.0, 1e5])
    def test_hyper_cleaning(self, outer_lr: float) -> None:
        """Nearly as accurate as with outer_lr = 100, the best of 1, 10, 100, 1000 and 10000 (0.983 correct)."""
        assert _cleaned(outer_lr, Tuner(QUICK)) > 0.97


def _cleaned(outer_lr: float, tuner: Tuner | None, steps: int = 80) -> float:
    """Test accuracy of softmax regression on blobs with half of the training labels drawn anew, weighed by v."""
    generator = torch.Generator().manual_seed(0)
    centres = 0.6 * torch.randn(10, 64, generator=generator)

    def draw(count: int) -> tuple[Tensor, Tensor]:
        labels = torch.randint(10, (count,), generator=generator)
        return centres[labels] + torch.randn(count, 64, generator=generator), labels

    (x, y), (x_val, y_val), (x_test, y_test) = draw(1000), draw(200), draw(1000)
    y[:500] = torch.randint(10, (500,), generator=generator)

    def outer(v: Tensor, w: Tensor, batch: Any) -> Tensor:
        return cross_entropy(x_val @ w, y_val)

    def inner(v: Tensor, w: Tensor, batch: Any) -> Tensor:
        return (v * cross_entropy(x @ w, y, reduction="none")).mean() + 0.001 * w.square().sum()

    problem = Problem(outer, inner, torch.full((1000,), 0.5), torch.zeros(64, 10), project_v=box(0.0, 1.0))
    run(
        problem,
        BOME(GradientDescent(0.1, 10)),
        outer_opt=SGD(problem.v.leaves, outer_lr),
        stop=MaxSteps(steps),
        tuner=tuner,
        log_every=10**6,
    )
    return float(((x_test @ problem.point.theta[0]).argmax(1) == y_test).double().mean())


def _continued(folder: Path, stop: int, resume: bool) -> Result:
    made = plan("coreset", "bome:auto", {"steps": stop, "inner_steps": 2, "outer_lr": 5.0})
    return perform(made, log_every=10, record=Record(folder, save_every=10**6, resume=resume))


class TestResume:
    @pytest.mark.parametrize("stop", [1, 9, 10, 11, 20, 27])
    def test_a_resumed_run_is_bitwise_the_same(self, tmp_path: Path, stop: int) -> None:
        whole = _continued(tmp_path / "whole", 45, resume=False)
        _continued(tmp_path / "parts", stop, resume=False)
        parts = _continued(tmp_path / "parts", 45, resume=True)
        assert torch.equal(whole.v, parts.v)
        assert torch.equal(whole.theta, parts.theta)
        assert whole.tuned == parts.tuned
        assert _flat(whole.state["tuner"]) == _flat(parts.state["tuner"])

    def test_what_was_picked_is_in_the_result(self) -> None:
        made = plan("coreset", "bome:auto", {"steps": 25, "inner_steps": 1})
        result = perform(made)
        assert made.tuner is not None
        assert result.tuned == made.tuner.picked()
        assert result.tuned["inner_steps"] == 4  # doubled after 10 and 20 steps
        assert set(result.tuned) == {"inner_steps", "outer_scale"}


def _flat(value: Any) -> Any:
    """Tensors as lists, so that states compare by ==."""
    convert: Callable[[Any], Any] = _flat
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {key: convert(item) for key, item in value.items()}
    return [convert(item) for item in value] if isinstance(value, (list, tuple)) else value
