"""The default oracle: `torch.autograd.grad` on detached leaves."""

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from bome._typing import Leaves
from bome.constraints import Level, Sizes
from bome.core.ranks import synchronises
from bome.core.trees import Pair
from bome.errors import ProblemError, UnsupportedError
from bome.inner import DifferentiableMap
from bome.oracles.base import Covectors, Eval, Needs, Oracle, Which, Wrt
from bome.oracles.linear import Linear
from bome.problem import Batches, Problem
from bome.variable import Role


class AutogradOracle(Oracle):
    """Eager evaluation; parameters of modules are lent to them for the time of a call. No graph outlives it."""

    provides = Needs.FIRST_ORDER | Needs.HVP | Needs.UNROLL

    def __init__(self, problem: Problem) -> None:
        if any(synchronises(module) for module in problem.modules):
            raise UnsupportedError(
                "AutogradOracle would silently use the gradients of one rank for a DDP or FSDP2 module: "
                "use BackwardOracle (oracle='auto' picks it)"
            )
        super().__init__(problem)

    def _evaluate(self, which: Which, v: Leaves, theta: Leaves, batch: Any, wrt: Wrt) -> tuple[Tensor, Pair]:
        v = tuple(x.detach().requires_grad_(wrt != "theta") for x in v)
        theta = tuple(x.detach().requires_grad_(wrt != "v") for x in theta)
        wanted = Pair(v if wrt != "theta" else (), theta if wrt != "v" else ())
        leaves, n = wanted.v + wanted.theta, len(wanted.v)
        with torch.enable_grad():
            value, grads = self.problem.within(
                which, v, theta, batch, self._borrowed_buffers(which), lambda x: (x, self._gradients(which, x, leaves))
            )
        return value.detach(), Pair(
            self._filled(which, "v", v, grads[:n]) if wrt != "theta" else (),
            self._filled(which, "theta", theta, grads[n:]) if wrt != "v" else (),
        )

    def _gradients(self, which: Which, value: Tensor, leaves: Leaves) -> tuple[Tensor | None, ...]:
        """∂value/∂leaves, None where the value does not depend on a leaf."""
        if not value.requires_grad or not leaves:
            return (None,) * len(leaves)
        if self._checkpoints(which, value):
            raise UnsupportedError(
                "reentrant activation checkpointing allows a whole backward() only: use oracle='backward' with a "
                "first-order method, or checkpoint(..., use_reentrant=False)"
            )
        return torch.autograd.grad(value, leaves, allow_unused=True)

    def _constrained(
        self, level: Level, v: Leaves, theta: Leaves, batches: Batches, covectors: Covectors, wrt: Wrt
    ) -> tuple[Leaves, tuple[Pair, ...]]:
        v = tuple(x.detach().requires_grad_(wrt != "theta") for x in v)
        theta = tuple(x.detach().requires_grad_(wrt != "v") for x in theta)
        wanted = Pair(v if wrt != "theta" else (), theta if wrt != "v" else ())
        with torch.enable_grad():
            return self.problem.constrained(
                level, v, theta, batches, self.problem.buffers, lambda parts: pulls(parts, wanted, covectors)
            )

    def gradient_map(self, v: Leaves, theta: Leaves, batch: Any) -> Linear:
        """The map (v, θ) ↦ g_θ(v, θ): its value, H z and B z. One evaluation of g."""
        v, theta, gradient = self._differentiable(v, theta, batch)
        return Linear(gradient, v, theta, self.counts)

    def inner_map(self, v: Leaves, s: Leaves, inner: DifferentiableMap, batch: Any) -> Linear:
        """One step of the inner map on its whole state s = (θ, buffers): the new state, and products with its Jacobian.

        One evaluation of g.
        """
        n = len(self.problem.theta.leaves)
        s = tuple(x.detach().requires_grad_() for x in s)
        v, theta, gradient = self._differentiable(v, s[:n], batch)
        with torch.enable_grad():
            moved = self._projected(inner.step_state(theta + s[n:], gradient))
        return Linear(moved, v, theta + s[n:], self.counts)

    def unroll(self, v: Leaves, theta: Leaves, inner: DifferentiableMap, batches: Batches) -> tuple[Eval, Leaves]:
        """f at the end θ_T(v) of T inner steps, differentiated through all of them; and θ_T.

        T evaluations of g, one of f, and T products of each kind inside the back-propagation.
        """
        v = tuple(x.detach().requires_grad_() for x in v)
        with torch.enable_grad():
            s = inner.join(theta, inner.start(theta))
            n = len(theta)
            for t in range(inner.steps):
                self.counts.update(("g", "hvp", "xvp"))
                theta_t = tuple(x if x.requires_grad else x.detach().requires_grad_() for x in s[:n])
                batch = batches.inner[min(t, len(batches.inner) - 1)]
                value = self.problem.loss("g", v, theta_t, batch, self._borrowed_buffers("g"))
                gradient = gradients(value, theta_t, create_graph=True)
                s = self._projected(inner.step_state(theta_t + s[n:], gradient))
            self.counts.update(("f",))
            value = self.problem.loss("f", v, s[:n], batches.outer[0], self._borrowed_buffers("f"))
            total = gradients(value, v)
        return Eval(value.detach(), Pair(total, ())), tuple(x.detach() for x in s[:n])

    def _projected(self, s: Leaves) -> Leaves:
        """The state with its θ part projected."""
        n = len(self.problem.theta.leaves)
        return self.problem.project_theta(s[:n]) + s[n:]

    def _differentiable(self, v: Leaves, theta: Leaves, batch: Any) -> tuple[Leaves, Leaves, Leaves]:
        """Leaves of (v, θ), and g_θ there with its graph."""
        self.counts.update(("g",))
        v = tuple(x.detach().requires_grad_() for x in v)
        theta = tuple(x.detach().requires_grad_() for x in theta)
        with torch.enable_grad():
            value = self.problem.loss("g", v, theta, batch, self._borrowed_buffers("g"))
            return v, theta, gradients(value, theta, create_graph=True)


def gradients(value: Tensor, leaves: Leaves, create_graph: bool = False, retain_graph: bool | None = None) -> Leaves:
    """∂value/∂leaves, zeros where the value does not depend on a leaf."""
    if not value.requires_grad:
        return tuple(torch.zeros_like(x) for x in leaves)
    return torch.autograd.grad(
        value, leaves, retain_graph=retain_graph, create_graph=create_graph, allow_unused=True, materialize_grads=True
    )


def pulls(parts: Leaves, wanted: Pair, covectors: Covectors) -> tuple[Leaves, tuple[Pair, ...]]:
    """The parts of a vector c, detached, and wᵀ∂c/∂wanted for each covector w."""
    values = torch.cat(parts)
    leaves, n = wanted.v + wanted.theta, len(wanted.v)
    found = []
    for w in covectors(values.detach()):
        grads = gradients((values * w).sum(), leaves, retain_graph=True)
        found.append(Pair(grads[:n], grads[n:]))
    return tuple(x.detach() for x in parts), tuple(found)


def check_constraints(problem: Problem, batches: Batches) -> None:
    """Refuse constraints that are not finite at the start, or that no gradient flows through; it leaves no trace."""
    if not problem.constraints:
        return
    v = tuple(x.requires_grad_() for x in problem.point.v)
    theta = tuple(x.requires_grad_() for x in problem.point.theta)
    buffers = {name: buffer.clone() for name, buffer in problem.buffers.items()}
    with torch.random.fork_rng(), torch.enable_grad():
        parts = problem.constrained("both", v, theta, batches, buffers, lambda parts: parts)
    for name, part in zip(Sizes._fields, parts, strict=True):
        if part.numel() and not part.requires_grad:
            raise ProblemError(f"no gradient flows from {name} to v or theta: are they used, and not detached?")
        if not torch.isfinite(part).all():
            number = int((~torch.isfinite(part)).nonzero()[0])
            raise ProblemError(f"entry {number} of {name} is NaN or infinite at the start: start from another point")


def connections(problem: Problem, batches: Batches) -> set[tuple[Which, Role]]:
    """Through which losses a gradient flows to which variable: one evaluation of each, which leaves no trace."""
    found: set[tuple[Which, Role]] = set()
    point = problem.point
    rows, batches = problem.localise(batches)
    v = tuple((x if rows is None else x[rows]).requires_grad_() for x in point.v)
    theta = tuple(x.requires_grad_() for x in point.theta)
    pairs: tuple[tuple[Which, Any], ...] = (("f", batches.outer[0]), ("g", batches.inner[0]))
    with torch.random.fork_rng(), torch.enable_grad():
        for which, batch in pairs:
            buffers = {name: buffer.clone() for name, buffer in problem.buffers.items()}
            value = problem.loss(which, v, theta, batch, buffers)
            if value.requires_grad:
                grads = torch.autograd.grad(value, v + theta, allow_unused=True)
                if any(g is not None for g in grads[: len(v)]):
                    found.add((which, "v"))
                if any(g is not None for g in grads[len(v) :]):
                    found.add((which, "theta"))
    return found


def second_order_failure(problem: Problem, batches: Batches) -> str | None:
    """Why the inner loss cannot be differentiated twice, or None: found by one product, which leaves no trace."""
    rows, batches = problem.localise(batches)
    v = tuple((x if rows is None else x[rows]).requires_grad_() for x in problem.point.v)
    theta = tuple(x.requires_grad_() for x in problem.point.theta)
    buffers = {name: buffer.clone() for name, buffer in problem.buffers.items()}
    with torch.random.fork_rng(), torch.enable_grad():
        value = problem.loss("g", v, theta, batches.inner[0], buffers)
        again: list[nn.Module] = []
        watch = register_module_forward_pre_hook(lambda module, _: again.append(module))
        try:
            gradient = gradients(value, theta, create_graph=True)
            Linear(gradient, v, theta, Counter()).pull(gradient)
        except (RuntimeError, NotImplementedError) as error:
            return str(error).splitlines()[0].split(". ")[0]
        finally:
            watch.remove()
    if again:
        return "activation checkpointing computes activations again, with other parameters than those of the look-ahead"
    return None
