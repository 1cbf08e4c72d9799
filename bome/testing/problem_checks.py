"""The battery of checks for authors of problems."""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.core.trees import clone, dot
from bome.oracles import AutogradOracle, BackwardOracle, Oracle
from bome.oracles.autograd import connections, second_order_failure
from bome.problem import Batches, Problem
from bome.testing.beds import difference, require, same

ProblemCheck: TypeAlias = Callable[[Problem, Batches], None]


def check_problem(problem: Problem, batches: Batches | None = None) -> None:
    """Run all checks of `PROBLEM_CHECKS` on a problem; it is left as it was.

    Args:
        problem: the two losses and their variables. Gradients are compared with finite differences in float64 only.
        batches: one inner and one outer batch, where the losses need data.

    Raises:
        AssertionError: a check failed; the message names it.
    """
    batch = Batches() if batches is None else batches
    for check in PROBLEM_CHECKS:
        try:
            check(problem, batch)
        except AssertionError as error:
            raise AssertionError(f"the problem fails {check.__name__}: {error}") from None


def check_losses_are_finite(problem: Problem, batches: Batches) -> None:
    """Both losses and their gradients are finite at the start."""
    for which, evaluation in _evaluations(problem, batches).items():
        fine = bool(evaluation[0].isfinite()) and all(bool(x.isfinite().all()) for x in evaluation[1])
        require(fine, f"the {which} loss or its gradient is not finite at the start")


def check_losses_are_functions(problem: Problem, batches: Batches) -> None:
    """Evaluated twice with the same random numbers, the losses give the same."""
    one, other = _evaluations(problem, batches), _evaluations(problem, batches)
    for which in one:
        require(same((one[which][0],), (other[which][0],)), f"two evaluations of the {which} loss differ")
        require(same(one[which][1], other[which][1]), f"two gradients of the {which} loss differ")


def check_losses_write_to_nothing(problem: Problem, batches: Batches) -> None:
    """The losses leave variables and batches as they are."""
    tensors = [x for x in _leaves_of((batches.inner, batches.outer)) if isinstance(x, Tensor)]
    tensors = [x.values() if x.layout is torch.sparse_csr else x for x in tensors]
    held = (*problem.point.v, *problem.point.theta, *tensors)
    before = clone(held)
    _evaluations(problem, batches)
    require(same(held, before), "a loss writes to a variable or a batch")


def check_variables_matter(problem: Problem, batches: Batches) -> None:
    """Gradients flow from g to θ, from f to v or θ, and to v from f or g, if not from constraints."""
    links = connections(problem, batches)
    require(("g", "theta") in links, "no gradient flows from g to theta: the inner problem does not ask for it")
    require(links & {("f", "v"), ("f", "theta")} != set(), "no gradient flows from f to v or theta")
    reached = bool(problem.constraints) or links & {("f", "v"), ("g", "v")} != set()
    require(reached, "no gradient flows from f or g to v: the levels are not coupled")


def check_gradients_are_derivatives(problem: Problem, batches: Batches) -> None:
    """In float64: along a random direction, the gradients agree with finite differences of the losses, to 1e-5."""
    point = problem.point
    if any(x.dtype != torch.float64 for x in point.v + point.theta):
        return
    oracle, generator = _quiet(problem), torch.Generator().manual_seed(0)
    rows, local = problem.localise(batches)
    v = tuple(x if rows is None else x[rows] for x in point.v)
    way = [torch.randn(x.shape, generator=generator, dtype=x.dtype) for x in v + point.theta]
    for which, evaluate, batch in (("f", oracle.outer, local.outer[0]), ("g", oracle.inner, local.inner[0])):
        with torch.random.fork_rng():
            seed = torch.get_rng_state()

            def along(t: float, evaluate: Any = evaluate, batch: Any = batch, seed: Tensor = seed) -> Any:
                torch.set_rng_state(seed)  # the same dropout masks
                moved = [x + t * w for x, w in zip(v + point.theta, way, strict=True)]
                return evaluate(tuple(moved[: len(v)]), tuple(moved[len(v) :]), batch)

            h = 1e-5
            numeric = float(along(h).value - along(-h).value) / (2 * h)
            grad = along(0.0).grad
        exact = float(dot(grad.v + grad.theta, tuple(way)))
        size = max(abs(exact), abs(numeric), 1e-3 * math.sqrt(float(dot(grad.v + grad.theta, grad.v + grad.theta))))
        require(
            abs(numeric - exact) <= 1e-5 * max(size, 1e-3),
            f"the derivative of {which} along a line is {numeric:.6g}, its gradient says {exact:.6g}",
        )


def check_oracles_give_the_same(problem: Problem, batches: Batches) -> None:
    """`BackwardOracle` finds the gradients that `AutogradOracle` finds."""
    one = _evaluations(problem, batches)
    other = _evaluations(problem, batches, BackwardOracle)
    tolerance = 1e-9 if all(x.dtype == torch.float64 for x in problem.point.theta) else 1e-3
    for which in one:
        error = difference(other[which][1], one[which][1])
        require(error <= tolerance, f"the oracles differ by {error:.1e} in the gradient of the {which} loss")


PROBLEM_CHECKS: tuple[ProblemCheck, ...] = (
    check_losses_are_finite,
    check_losses_are_functions,
    check_losses_write_to_nothing,
    check_variables_matter,
    check_gradients_are_derivatives,
    check_oracles_give_the_same,
)
"""All checks of a problem."""


def second_order_possible(problem: Problem, batches: Batches | None = None) -> bool:
    """Whether the inner loss can be differentiated twice, so that second-order methods can solve the problem."""
    return second_order_failure(problem, Batches() if batches is None else batches) is None


def _quiet(problem: Problem, kind: type[Oracle] = AutogradOracle) -> Oracle:
    """An oracle that leaves running statistics as they are."""
    oracle = kind(problem)
    oracle._settled = True
    return oracle


def _evaluations(
    problem: Problem, batches: Batches, kind: type[Oracle] = AutogradOracle
) -> dict[str, tuple[Tensor, Leaves]]:
    """Value and gradient of both losses at the start; random generators are put back."""
    oracle = _quiet(problem, kind)
    rows, local = problem.localise(batches)
    v, theta = tuple(x if rows is None else x[rows] for x in problem.point.v), problem.point.theta
    with torch.random.fork_rng():
        f, g = oracle.outer(v, theta, local.outer[0]), oracle.inner(v, theta, local.inner[0])
    return {"outer": (f.value, f.grad.v + f.grad.theta), "inner": (g.value, g.grad.v + g.grad.theta)}


def _leaves_of(tree: Any) -> Iterator[Any]:
    if isinstance(tree, Mapping):
        tree = tuple(tree.values())
    if isinstance(tree, (tuple, list)):
        for item in tree:
            yield from _leaves_of(item)
    else:
        yield tree
