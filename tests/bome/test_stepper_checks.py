"""Which optimisers fit which variables, and where NaN and infinity are found."""

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.optim import LBFGS, SGD, Adagrad, Adam, Optimizer, SparseAdam

from bome import BOME, GradientDescent, Problem, RowSGD, Stepper, TorchOptim
from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.methods import ITD, Info, Step
from bome.runs.names import METHODS
from bome.stepper_checks import (
    check_rowwise,
    default_optimiser,
    first_not_finite,
    groups_of,
    is_finite,
    surely_finite,
)
from bome.variable import Variable

NAN, INF = float("nan"), float("inf")


def two() -> Variable:
    return Variable("theta", {"a": torch.zeros(2), "b": torch.zeros(3)})


def test_theta_moves_by_plain_sgd_with_the_step_size_of_the_inner_map() -> None:
    theta = two()
    optimiser = default_optimiser(theta, BOME(GradientDescent(0.3)))
    assert isinstance(optimiser, SGD)
    assert [group["lr"] for group in optimiser.param_groups] == [0.3]
    assert [id(x) for x in optimiser.param_groups[0]["params"]] == [id(x) for x in theta.leaves]
    with pytest.raises(ProblemError, match="bome has no step size for theta: pass inner_opt"):
        default_optimiser(theta, BOME(TorchOptim(lambda p: SGD(p, 0.1), 2)))


def test_each_leaf_knows_the_parameter_group_it_is_in() -> None:
    theta = two()
    a, b = theta.leaves
    assert groups_of(theta, SGD([a, b], 0.1), "inner_opt") == [0, 0]
    assert groups_of(theta, SGD([{"params": [b]}, {"params": [a]}], 0.1), "inner_opt") == [1, 0]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda a, b, c: None, "inner_opt must be an optimiser such as torch.optim.SGD, got NoneType"),
        (lambda a, b, c: LBFGS([a, b]), "inner_opt cannot be LBFGS"),
        (lambda a, b, c: SGD([a], 0.1), r"theta\['b'\] is not among the parameters of inner_opt"),
        (lambda a, b, c: SGD([a, b, c], 0.1), r"inner_opt holds tensors of shapes \[\(4,\)\] that are not in theta"),
    ],
)
def test_an_optimiser_of_other_tensors_is_refused(make: Callable[..., Optimizer], message: str) -> None:
    theta = two()
    stranger = torch.zeros(4, requires_grad=True)
    with pytest.raises(ProblemError, match=message):
        groups_of(theta, make(*theta.leaves, stranger), "inner_opt")


@pytest.mark.parametrize(
    "make", [lambda p: SGD(p, 0.1), lambda p: Adagrad(p), lambda p: SparseAdam(p), lambda p: RowSGD(p, 0.1, 0.9)]
)
def test_optimisers_that_move_the_rows_of_the_batch_only_are_welcome(make: Callable[..., Optimizer]) -> None:
    check_rowwise(make([torch.zeros(3)]))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda p: SGD(p, 0.1, momentum=0.9), "SGD with momentum"),
        (lambda p: SGD(p, 0.1, weight_decay=1), "SGD with weight_decay"),
        (lambda p: Adam(p), "Adam"),
    ],
)
def test_optimisers_that_move_other_rows_are_refused(make: Callable[..., Optimizer], name: str) -> None:
    with pytest.raises(ProblemError, match=f"^{name} moves all rows of a PerSample.*: use SGD or"):
        check_rowwise(make([torch.zeros(3)]))


def step(v: Tensor, f: float = 1.0, size: float | None = None, new_theta: tuple[Tensor, ...] | None = None) -> Step:
    square = None if size is None else torch.tensor(size, dtype=torch.float64)
    return Step(Pair((v,), ()), {}, Info(torch.tensor(f)), new_theta, square)


def test_nan_and_infinity_are_found_wherever_they_are() -> None:
    ones, large = torch.ones(2), torch.full((2,), 3e38)
    assert is_finite(step(ones))
    assert is_finite(step(large))  # its sum is infinite, its entries are not
    for bad in (NAN, INF, -INF):
        assert not is_finite(step(torch.tensor([1.0, bad])))
        assert not is_finite(step(ones, f=bad))
        assert not is_finite(step(ones, new_theta=(torch.tensor([bad]),)))


def test_a_short_direction_with_finite_losses_is_finite_without_a_look_at_its_entries() -> None:
    ones = torch.ones(2)
    assert surely_finite(step(ones, size=2.0))
    assert not surely_finite(step(ones))  # nobody has measured it
    assert not surely_finite(step(ones, size=2.0, new_theta=(ones,)))
    assert not surely_finite(step(ones, size=1e80))  # longer than an entry can be
    assert not surely_finite(step(ones, size=NAN))
    assert not surely_finite(step(ones, f=INF, size=2.0))


def test_the_first_tensor_that_is_not_finite_is_named() -> None:
    theta = two()
    good, bad = torch.zeros(2), torch.tensor([0.0, NAN, 0.0])
    assert first_not_finite(theta, (good, torch.zeros(3))) is None
    assert first_not_finite(theta, (good, bad)) == "theta['b']"


def _told(name: str, put_back: Callable[[int, Tensor], object], steps: int = 6) -> list[str]:
    """What a loop is told that does something to θ before each step."""
    v, theta = torch.zeros(2), torch.zeros(3)
    problem = Problem(lambda v, t, b: (t - 1).square().sum(), lambda v, t, b: (t - v.sum()).square().sum(), v, theta)
    method = METHODS[name](GradientDescent(0.1, 3))  # type: ignore[call-arg]
    stepper = Stepper(problem, method, SGD([v], 0.1), SGD([theta], 0.1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(steps):
            with torch.no_grad():
                put_back(k, theta)
            stepper.step()
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("name", ["bome", "bome-z", "pbgd", "f2sa", "itd", "reverse"])
def test_tasks_that_begin_anew_are_noticed_where_the_method_trains_theta_from_step_to_step(name: str) -> None:
    """Few-shot learning puts the head back to its start for each task."""
    told = _told(name, lambda k, theta: theta.zero_())
    if METHODS[name].moves_theta:
        assert len(told) == 1
        assert f"but {name} trains θ from step to step: for tasks that begin anew use itd" in told[0]
    else:
        assert told == []


@pytest.mark.parametrize(
    "put_back",
    [
        lambda k, theta: None,
        lambda k, theta: theta.add_(0.01),  # somebody trains θ further between the steps
        lambda k, theta: theta.zero_() if k % 3 == 0 else None,  # now and then
    ],
)
def test_other_loops_are_told_nothing(put_back: Callable[[int, Tensor], object]) -> None:
    assert _told("bome", put_back, 9) == []


def test_with_itd_each_task_begins_where_theta_was_put() -> None:
    """The step of v is that of an unrolled descent from 0: θ^(2) = .36 (v₁ + v₂), and dF/dv = .72 Σ(θ − 1)."""
    v, theta = torch.tensor([0.5, 0.25], dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    problem = Problem(lambda v, t, b: (t - 1).square().sum(), lambda v, t, b: (t - v.sum()).square().sum(), v, theta)
    stepper = Stepper(problem, ITD(GradientDescent(0.1, 2)), SGD([v], 0.1), SGD([theta], 0.1))
    for _ in range(4):
        before = v.clone()
        theta.zero_()
        stepper.step()
        slope = 0.36 * 2 * 3 * (0.36 * before.sum() - 1)
        torch.testing.assert_close(v, before - 0.1 * slope)
