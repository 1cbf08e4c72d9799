"""Checks of how a method behaves: what it costs, which oracles it refuses, difficult points, and where it ends."""

import math
import typing
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from bome._typing import Leaves
from bome.core.trees import Pair, clone, dot, sub
from bome.errors import NonFiniteError, ProblemError, UnsupportedError
from bome.methods.base import Info
from bome.oracles import Needs
from bome.problem import Problem
from bome.projections import box
from bome.testing.beds import (
    BED_SETTINGS,
    ORACLES,
    STEPS,
    Case,
    Make,
    advance,
    batches_for,
    bed_problem,
    bed_stepper,
    cases,
    difference,
    diverged,
    everything,
    first_bed,
    new_stepper,
    oracles_for,
    require,
    same,
    start_point,
    variables,
)
from bome.testing.hypergradients import hold_schedule

# --- what it costs ----------------------------------------------------------------------------------------------------


def check_cost_is_the_same_in_every_period(make: Make) -> None:
    """The evaluations of a step depend on the settings alone, on every problem and oracle; and are as declared."""
    elsewhere: dict[tuple[str, int], Counter[str]] = {}
    for case in cases(make):
        stepper = case.stepper()
        method = stepper.method
        advance(stepper, method.period)  # the first may also set up
        costs = []
        for _ in range(2):
            before = stepper.counts.copy()
            advance(stepper, method.period)
            costs.append(stepper.counts - before)
        if diverged(stepper, 3 * method.period):
            continue
        require(costs[0] == costs[1], f"one period costs {dict(costs[0])}, the next {dict(costs[1])} {case}")
        key = (repr(type(method)), getattr(method.inner_map, "steps", 0))
        other = elsewhere.setdefault(key, costs[0])
        require(costs[0] == other, f"{dict(costs[0])} evaluations here, {dict(other)} elsewhere {case}")
        if method.cost is not None:
            declared = Counter({kind: n for kind, n in method.cost.items() if n})
            require(costs[0] == declared, f"{dict(costs[0])} evaluations, it declares {dict(declared)} {case}")


# --- oracles, and what they cannot give -------------------------------------------------------------------------------


def check_oracles_agree(make: Make) -> None:
    """All oracles that it can use lead to the same point, to 1e-9 in float64."""
    ends: dict[str, tuple[Case, Leaves]] = {}
    for case in cases(make):
        stepper = case.stepper()
        advance(stepper)
        first, end = ends.setdefault(case.toy, (case, everything(stepper)))
        error = difference(everything(stepper), end)
        fine = error <= 1e-9 or diverged(stepper, STEPS)
        require(fine, f"it ends {error:.1e} away from where the {first.oracle} oracle leads {case}")


def check_a_poor_oracle_is_refused(make: Make) -> None:
    """An oracle that cannot give what it requires is refused at once, by an error that names both."""
    method = make(BED_SETTINGS)
    for name, kind in ORACLES.items():
        if name not in oracles_for(method):
            try:
                bed_stepper(make, name)
            except UnsupportedError as error:
                named = method.name in str(error) and kind.__name__ in str(error)
                require(named, f"the message does not name method and oracle: {error}")
            else:
                raise AssertionError(f"{kind.__name__} is not refused although it cannot give {method.requires}")


def check_fused_attention(make: Make) -> None:
    """A model with fused attention, which has no second derivatives, is refused before the first step, or steps."""
    _check_model(make, _Attention())


def check_compiled_module(make: Make) -> None:
    """A compiled module, which has no second derivatives, is refused before the first step, or steps."""
    torch.compiler.reset()  # modules of earlier checks would count against the limit of recompilations
    net: Any = torch.compile(nn.Linear(4, 4), backend="aot_eager")
    _check_model(make, net)


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        q = self.project(x)[None, None]
        return scaled_dot_product_attention(q, q, q)[0, 0]


def _check_model(make: Make, net: nn.Module) -> None:
    method = make(BED_SETTINGS)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 4, generator=generator)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.randn(p.shape, generator=generator))

    def outer(v: Tensor, net: Any, batch: Any) -> Tensor:
        miss: Tensor = (net(x) - 1).square().mean() + v.square().sum()
        return miss

    def inner(v: Tensor, net: Any, batch: Any) -> Tensor:
        miss: Tensor = (net(x) - v).square().mean()
        return miss

    problem = Problem(outer, inner, torch.zeros(4), net)
    if method.refusal(problem) is not None:
        problem = Problem(lambda v, net, batch: -inner(v, net, batch), inner, torch.zeros(4), net)
    if method.refusal(problem) is not None:
        return
    stepper = new_stepper(problem, method, BED_SETTINGS)
    before = everything(stepper)
    try:
        stepper.step_on(batches_for(method))
    except UnsupportedError as error:
        require(bool(method.requires & (Needs.HVP | Needs.UNROLL)), f"refused although it is first-order: {error}")
        require(method.name in str(error) and "\n" not in str(error), f"no clear message in one line: {error}")
        require(same(everything(stepper), before), "the refused step changed something")
    else:
        first_order = not method.requires & (Needs.HVP | Needs.UNROLL)
        require(first_order, f"it requires {method.requires}, which the model cannot give, but is not refused")
        require(all(bool(x.isfinite().all()) for x in variables(stepper)), "the step is not finite")


# --- difficult points -------------------------------------------------------------------------------------------------


def check_nan_is_reported_and_undone(make: Make) -> None:
    """NaN in a loss raises NonFiniteError, and variables, state and gradients are as they were before the step."""
    for oracle in oracles_for(make(BED_SETTINGS)):
        for which in ("inner", "outer"):
            stepper = bed_stepper(make, oracle)
            advance(stepper, 2)
            before, state = everything(stepper), stepper.state
            bad = {which: torch.tensor(math.nan, dtype=torch.float64)}
            try:
                stepper.step_on(batches_for(stepper.method, **bad))
            except NonFiniteError:
                require(same(everything(stepper), before), f"NaN in the {which} loss leaves something changed")
                require(stepper.state is state and stepper.k == 2, f"NaN in the {which} loss is counted as a step")
                leaves = stepper.problem.v.leaves + stepper.problem.theta.leaves
                require(all(x.grad is None for x in leaves), "NaN leaves something in .grad")
            else:
                never = which == "outer" and not stepper.counts["f"]
                require(never, f"NaN in the {which} loss is not noticed (oracle {oracle})")


def check_outer_loss_without_gradient(make: Make) -> None:
    """Where f is flat (for min-max problems: at the saddle point) the step is finite."""
    bed = first_bed(make)
    v, theta = start_point(torch.float64)
    if bed.penalised is not None:
        flat = replace(bed, outer=lambda v, theta, s: 0 * (v.sum() + theta.sum()))
    else:
        flat, v, theta = bed, bed.solution.v[0].clone(), bed.solution.theta[0].clone()
    _check_finite(make, bed_problem(flat, v, theta), "where f is flat")


def check_inner_solution_as_start(make: Make) -> None:
    """At θ = θ*(v), where g_θ = 0 and all of q̂ vanishes, the step is finite."""
    bed, (v, _) = first_bed(make), start_point(torch.float64)
    _check_finite(make, bed_problem(bed, v, bed.inner_solution(v)), "at θ*(v)")


def _check_finite(make: Make, problem: Problem, where: str) -> None:
    for oracle in oracles_for(make(BED_SETTINGS)):
        stepper = new_stepper(problem, make(BED_SETTINGS), BED_SETTINGS, oracle)
        advance(stepper)
        require(not diverged(stepper, STEPS), f"{where} its steps are not finite with the {oracle} oracle")


def check_projections_hold(make: Make) -> None:
    """With boxes for v and θ all iterates stay inside, and a start outside is as good as its nearest point inside."""
    bed, sets = first_bed(make), {"project_v": box(-0.31, 0.31), "project_theta": box(-0.4, 0.4)}
    for oracle in oracles_for(make(BED_SETTINGS)):
        v, theta = start_point(torch.float64)
        ends = []
        for start in ((v, theta.clone()), (v.clamp(-0.31, 0.31), theta.clamp(-0.4, 0.4))):
            stepper = new_stepper(bed_problem(bed, *start, **sets), make(BED_SETTINGS), BED_SETTINGS, oracle)
            advance(stepper, 1)
            ends.append(everything(stepper))
        require(same(*ends), f"a start outside of its box leads elsewhere than its nearest point (oracle {oracle})")
        problem = stepper.problem
        for _ in range(STEPS):
            advance(stepper, 1)
            inside = bool((problem.point.v[0].abs() <= 0.31).all() and (problem.point.theta[0].abs() <= 0.4).all())
            require(inside, f"an iterate lies outside its box (oracle {oracle})")


def check_wrong_number_of_batches_is_refused(make: Make) -> None:
    """A step with one batch too many is refused."""
    stepper = bed_stepper(make)
    batches = batches_for(stepper.method)
    for more in (replace(batches, inner=(*batches.inner, None)), replace(batches, outer=(*batches.outer, None))):
        try:
            stepper.step_on(more)
        except ProblemError:
            continue
        raise AssertionError("a step accepts more batches than the method declares")


# --- the form of the variables ----------------------------------------------------------------------------------------


def check_form_of_variables_does_not_matter(make: Make) -> None:
    """Tensors in a list, a dict or a module give the same as one tensor of all entries."""
    bed, (v, theta) = first_bed(make), start_point(torch.float64)
    forms: dict[str, Callable[[], tuple[Any, Any]]] = {
        "lists": lambda: (list(torch.split(v.clone(), [1, 2])), list(torch.split(theta.clone(), [3, 1]))),
        "dicts": lambda: ({"a": v[:2].clone(), "b": v[2:].clone()}, {"w": theta[:2].clone(), "z": theta[2:].clone()}),
        "modules": lambda: (_module(v[:1], v[1:]), _module(theta[:2].reshape(2, 1), theta[2:])),
    }
    for oracle in oracles_for(make(BED_SETTINGS)):
        whole = bed_stepper(make, oracle)
        advance(whole)
        for name, form in forms.items():
            stepper = new_stepper(bed_problem(bed, *form()), make(BED_SETTINGS), BED_SETTINGS, oracle)
            advance(stepper)
            for role, parts, one in (
                ("v", stepper.problem.point.v, whole.problem.point.v),
                ("θ", stepper.problem.point.theta, whole.problem.point.theta),
            ):
                error = difference(parts, one)
                require(error <= 1e-9, f"with {name} {role} differs by {error:.1e} (oracle {oracle})")


def _module(*tensors: Tensor) -> nn.ParameterList:
    return nn.ParameterList(nn.Parameter(x.clone()) for x in tensors)


# --- where it goes ----------------------------------------------------------------------------------------------------

CONVERGENCE_STEPS = 200
NEAR = 0.05
"""A run has converged if this share of the initial distance is left."""


def check_settles_where_it_says(make: Make) -> None:
    """With decreasing steps it ends where it promises: at the solution, or at the minimum of f + λ(g − g*).

    The test bed has curvatures near 2, α = ½, so that T = 3 inner steps are as good as exact; ξ_v = 0.1 and
    ξ_θ = 0.1 fall like 1/k from step 50 on, so that a schedule of its own is
    held constant. A method that settles "elsewhere" must stay finite.
    """
    settings = replace(BED_SETTINGS, inner_steps=3, steps=CONVERGENCE_STEPS)
    bed, method = first_bed(make), hold_schedule(make(settings))
    stepper = new_stepper(bed_problem(bed, *start_point(torch.float64)), method, settings)
    start, info = stepper.problem.point, Info(torch.zeros(()))
    start = Pair(clone(start.v), clone(start.theta))
    for k in range(CONVERGENCE_STEPS if method.settles != "elsewhere" else 20):
        for optimiser, rate in ((stepper.outer_opt, settings.outer_lr), (stepper.inner_opt, settings.theta_lr)):
            optimiser.param_groups[0]["lr"] = rate * min(1.0, 50 / (k + 1))
        info = stepper.step_on(batches_for(method))
    if method.settles == "elsewhere":
        return
    goal = bed.solution
    if method.settles == "penalty" and bed.penalised is not None:
        require(info.lam is not None, "it settles at a penalised minimum but does not report λ")
        goal = bed.penalised(float(typing.cast(Tensor, info.lam)))
    left = _distance(stepper.problem.point, goal) / _distance(start, goal)
    require(left <= NEAR, f"{left:.1%} of the way to {method.settles} is left after {CONVERGENCE_STEPS} steps")


def _distance(a: Pair, b: Pair) -> float:
    d = sub(a.v, b.v) + sub(a.theta, b.theta)
    return math.sqrt(float(dot(d, d)))
