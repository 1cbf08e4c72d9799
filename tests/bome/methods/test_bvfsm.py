"""BVFSM: both forms against autograd and a transcription, and where the authors' runs end."""

import math
from itertools import islice

import pytest
import torch
from torch import Tensor

from bome import AutogradOracle, Batches, GradientDescent, Stepper
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.methods.bvfsm import BVFSM, Schedule
from bome.tasks import Task, lls, minimax, quadratic, quadratic_instance
from tests.support.released import X4, released_coreset, run_out, stepper_of
from tests.support.transcribed import Coreset, Quadratic, bvfsm

PUBLISHED = BVFSM.variants["published"]
END = {"code": (1.951, -0.178), "paper": (2.8168, -0.4425)}
"""θ after 5000 steps from (0, 3), f with the factor 0.1: methods.md 2.6, which has −0.442 for −0.4425."""


def _published(task: Task) -> Stepper:
    """The authors' run of a task."""
    s = task.settings
    values = {**PUBLISHED, **task.published["bvfsm"]}
    return run_out(task, BVFSM(GradientDescent(s.inner_lr, s.inner_steps), steps=s.steps, **values))


def _barrier(s: Tensor, sigma: float) -> Tensor:
    """σ p(s/σ) with p(t) = −log t for t ≥ 1, continued by −2t + t²/2 + 3/2: value, slope and curvature agree at 1."""
    t = s / sigma
    return sigma * torch.where(t >= 1, -t.clamp(min=1).log(), -2 * t + t.square() / 2 + 1.5)


@pytest.mark.parametrize("weight", ["barrier", "published"])
@pytest.mark.parametrize("k", [0, 7, 500])
def test_the_three_directions_are_gradients_of_what_they_minimise(weight: str, k: int) -> None:
    """T = 1, steps of size 1 in z and θ, so that differences are directions; autograd on the objectives.

    The default, up to the division by m = max(ρ, 1): z minimises g + c_z R‖z‖², θ and v minimise
    f + P(g̃ − g) + c_z R‖θ‖² with z held. The published form: f + ρ(g(v, θ) − g(v, z)) + c_z R‖θ‖² with ρ frozen at
    c_ln R / (1e-4 + g̃).
    """
    instance, problem = quadratic_instance(seed=2), quadratic(seed=2).problem
    c_z, c_ln, r = 0.3, 0.7, 1 / math.log(1.1 * (k + 1))
    method = BVFSM(GradientDescent(1.0, 1), c_z=c_z, c_ln=c_ln, weight=weight)  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(k)
    sides = set()
    for _ in range(20):
        v, theta, z = (torch.randn(n, generator=generator, dtype=torch.float64) for n in (3, 4, 4))
        state: State = {"z": (z,), "k": (torch.tensor(float(k), dtype=torch.float64),)}
        step = method.step(AutogradOracle(problem), Pair((v,), (theta,)), state, Batches(), Metric((1.0,), (1.0,)))

        x = z.clone().requires_grad_()
        (d_z,) = torch.autograd.grad(instance.inner(v, x) + c_z * r * x.square().sum(), x)
        z_new = z - d_z
        torch.testing.assert_close(step.state["z"][0], z_new, rtol=1e-12, atol=1e-12)
        top = instance.inner(v, z_new) + c_z * r * z_new.square().sum()
        frozen = c_ln * r / (1e-4 + top)

        def objective(v: Tensor, theta: Tensor, z: Tensor = z_new, rho: Tensor = frozen) -> Tensor:
            base = instance.outer(v, theta) + c_z * r * theta.square().sum()
            gap = instance.inner(v, theta) - instance.inner(v, z)
            if weight == "published":
                return base + rho * gap
            return base + _barrier(c_z * r * z.square().sum() - gap, c_ln * r)

        def damping(theta: Tensor, v: Tensor = v, top: Tensor = top) -> float:
            t = float(top - instance.inner(v, theta)) / (c_ln * r)
            return 1.0 if weight == "published" else max(1.0, 1 / t if t >= 1 else 2 - t)

        x = theta.clone().requires_grad_()
        (d_theta,) = torch.autograd.grad(objective(v, x), x)
        theta_new = theta - d_theta / damping(theta)
        assert step.new_theta is not None
        torch.testing.assert_close(step.new_theta[0], theta_new, rtol=1e-11, atol=1e-11)
        x = v.clone().requires_grad_()
        (d_v,) = torch.autograd.grad(objective(x, theta_new), x)
        torch.testing.assert_close(step.direction.v[0], d_v / damping(theta_new), rtol=1e-10, atol=1e-10)
        assert step.info.lam is not None
        sides.add(bool(step.info.lam > 1))
    assert True in sides or weight == "published" or k < 500


def test_the_weight_is_the_log_barriers_where_there_is_slack_and_continues_it_elsewhere() -> None:
    """σ = ½: slack 2 gives σ/s = ¼; slack σ gives 1 either way; slack 0 gives 2; slack −1 gives 4. It never jumps."""
    method, sigma = BVFSM(GradientDescent(0.1)), torch.tensor(0.5).double()
    for slack, expected in ((2.0, 0.25), (0.5, 1.0), (0.0, 2.0), (-1.0, 4.0)):
        rho = method.rho(torch.tensor(-3.0).double(), torch.tensor(-3.0 - slack).double(), sigma)
        assert float(rho) == expected
    around = [method.rho(torch.tensor(0.5 + e).double(), torch.tensor(0.0).double(), sigma) for e in (-1e-9, 1e-9)]
    torch.testing.assert_close(around[0], around[1], rtol=1e-8, atol=0)


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        ("log", {0: 10.492, 1: 1.2683, 4999: 0.11611}),
        ("linear", {0: 1 / 1.1, 9: 1 / 11}),
        ("power1", {0: 1 / 1.1, 1: 1 / 1.21}),
        ("power2", {0: 1.0, 9: 10**-1.1}),
        ("constant", {0: 0.18523, 150: 0.18523}),
    ],
)
def test_the_coefficients_decay_as_scheduled(schedule: Schedule, values: dict[int, float]) -> None:
    """The constant is 1/ln(1.1 · 201) = 0.18523, whatever k is."""
    method = BVFSM(GradientDescent(0.1), schedule=schedule, steps=200)
    for k, expected in values.items():
        assert float(method.factor(torch.tensor(float(k)).double())) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("steps", [1, 4])
def test_a_step_costs_2t_plus_2_evaluations_of_g_and_t_plus_1_of_f(steps: int) -> None:
    task = quadratic()
    stepper = stepper_of(task, BVFSM(GradientDescent(0.1, steps)))
    for _ in range(3):
        stepper.step()
    assert stepper.counts == {"g": 3 * (2 * steps + 2), "f": 3 * (steps + 1)}


@pytest.mark.parametrize("total", [None, 5000])
def test_fifty_steps_on_the_quadratic_follow_the_transcription(total: int | None) -> None:
    instance, task = quadratic_instance(seed=1), quadratic(start="b", seed=1)
    p = Quadratic(*(x.numpy() for x in (instance.A, instance.H, instance.a, instance.b)))
    values = {} if total is None else {"weight": "published", "schedule": "constant", "steps": total}
    method = BVFSM(GradientDescent(0.05, 3), c_z=0.1, c_ln=0.1, **values)  # type: ignore[arg-type]
    problem = task.problem
    start = [x[0].numpy().copy() for x in problem.point]
    stepper = Stepper(
        problem, method, torch.optim.SGD(problem.v.leaves, lr=0.05), torch.optim.SGD(problem.theta.leaves, lr=0.05)
    )
    path = bvfsm(p, start[0], start[1], xi=0.05, steps=3, c_z=0.1, c_ln=0.1, total=total)
    for v, theta, z in islice(path, 51):
        for ours, reference in ((problem.point.v, v), (problem.point.theta, theta), (stepper.state["z"], z)):
            torch.testing.assert_close(ours[0], torch.from_numpy(reference), rtol=1e-11, atol=1e-11)
        stepper.step()


@pytest.mark.parametrize("x4", ["code", "paper"])
def test_coreset_ends_where_the_authors_run_does(x4: str) -> None:
    """The transcription's 5000 steps end at the reference point, and each hundredth of them is a step of the method.

    With x4 of the code the mean Xᵀσ(v) ends at (1.7035, 0.3633), where the solution is (1.8, 0.4).
    """
    problem = released_coreset(x4).problem
    method = BVFSM(GradientDescent(0.05, 10), steps=5000, **PUBLISHED)
    start = [x[0].numpy().copy() for x in problem.point]
    toy = Coreset(X4[x4])
    path = list(islice(bvfsm(toy, *start, xi=0.05, steps=10, c_z=0.1, c_ln=0.1, total=5000), 5001))
    assert tuple(path[-1][1]) == pytest.approx(END[x4], abs=5e-4)
    if x4 == "code":
        assert tuple(toy.mean(path[-1][0])) == pytest.approx((1.7035, 0.3633), abs=5e-5)
    oracle, metric = AutogradOracle(problem), Metric((0.05,), (0.05,))
    for k in range(0, 5000, 100):
        v, theta, z = (torch.from_numpy(x) for x in path[k])
        state: State = {"z": (z,), "k": (torch.tensor(float(k)).double(),)}
        step = method.step(oracle, Pair((v,), (theta,)), state, Batches(), metric)
        assert step.new_theta is not None
        moved = (v - 0.05 * step.direction.v[0], step.new_theta[0], step.state["z"][0])
        for ours, reference in zip(moved, path[k + 1], strict=True):
            torch.testing.assert_close(ours, torch.from_numpy(reference), rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("x4", ["code", "paper"])
def test_five_thousand_coreset_steps_of_the_stepper_end_there_too(x4: str) -> None:
    stepper = _published(released_coreset(x4))
    assert tuple(stepper.problem.point.theta[0].tolist()) == pytest.approx(END[x4], abs=5e-4)


def test_the_published_form_runs_to_the_wrong_corner_of_minimax() -> None:
    """g̃ < 0 makes the weight negative, so that θ and v run apart: (θ, v) = (−10, 10)."""
    point = _published(minimax()).problem.point
    assert (float(point.theta[0]), float(point.v[0])) == (-10, 10)


def test_the_published_form_ends_far_from_the_solution_of_lls() -> None:
    point = _published(lls()).problem.point
    assert point.theta[0].tolist() == pytest.approx((0.980, -0.228), abs=5e-4)
    assert float(point.v[0]) == pytest.approx(-0.234, abs=5e-4)


def test_the_default_form_solves_lls_and_minimax() -> None:
    """LLS: (1, (1, 1)), with a bias that falls like R (0.057 after 2000 steps with c_z = 0.1). Minimax: v = 0."""
    task = lls()
    stepper = stepper_of(task, BVFSM(GradientDescent(0.5, 1), c_z=0.01))
    for _ in range(500):
        stepper.step()
    assert task.optimum is not None
    assert task.optimum.distance(task.problem.point) < 0.01
    task = minimax()
    stepper = stepper_of(task, BVFSM(GradientDescent(0.05, 10)))
    for _ in range(300):
        stepper.step()
    assert abs(float(task.problem.point.v[0])) < 0.2


def test_far_starts_and_fast_schedules_do_not_make_the_default_form_diverge() -> None:
    """Start "b" of the quadratic is far from feasible: the gap is many times σ, which m takes out of the steps.

    Without m steps of 0.2 overflow in the first three; with it all schedules come within 0.5 from a distance of 3.4.
    """
    for schedule in ("log", "linear", "power2"):
        task = quadratic(start="b")
        method = BVFSM(GradientDescent(0.2, 10), schedule=schedule)
        stepper = stepper_of(task, method)
        assert task.optimum is not None
        assert task.optimum.distance(task.problem.point) > 3.4
        for _ in range(60):
            info = stepper.step()
        assert task.optimum.distance(task.problem.point) < 0.5
        assert info.lam is not None
        assert info.lam > 1


def test_unfit_settings_are_refused() -> None:
    inner = GradientDescent(0.1)
    for values, word in (
        ({"c_z": 0.0}, "c_z"),
        ({"c_ln": -1.0}, "c_ln"),
        ({"schedule": "slow"}, "schedule"),
        ({"weight": "heavy"}, "weight"),
        ({"schedule": "constant"}, "give steps"),
    ):
        with pytest.raises(ProblemError, match=word):
            BVFSM(inner, **values)
    with pytest.raises(ProblemError, match="differentiable"):
        BVFSM(0.1)  # type: ignore[arg-type]
