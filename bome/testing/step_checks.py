"""Checks of one step of a method: what it returns, that it writes to nothing, and that it can be repeated."""

import gc
import math
import tempfile
import weakref
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from bome._typing import Leaves, State
from bome.core.trees import Pair, clone
from bome.methods.base import Info, Step
from bome.problem import Batches
from bome.stepper import Stepper
from bome.storage import checkpoint
from bome.testing.beds import (
    BED_SETTINGS,
    STEPS,
    Make,
    advance,
    batches_for,
    bed_stepper,
    cases,
    difference,
    diverged,
    everything,
    oracles_for,
    raw_step,
    require,
    same,
    tensors,
    variables,
)

# --- what a step returns ----------------------------------------------------------------------------------------------


def check_direction_has_the_form_of_the_variables(make: Make) -> None:
    """A tensor without graph for each tensor of v; for θ a direction, or a new θ and an empty direction, or neither."""
    for case in cases(make):
        stepper = case.stepper()
        point, step = stepper.problem.point, raw_step(stepper)
        require(isinstance(step, Step) and isinstance(step.direction, Pair), f"it returns no Step of a Pair {case}")
        _like(step.direction.v, point.v, f"the direction of v {case}")
        if step.new_theta is None:
            _like(step.direction.theta, point.theta, f"the direction of θ {case}")
        else:
            require(step.direction.theta == (), f"it returns both a new θ and a direction for θ {case}")
            _like(step.new_theta, point.theta, f"the new θ {case}")
        if not stepper.method.moves_theta:
            other = raw_step(stepper, rate=2.0)
            fine = step.new_theta is not None and same(step.new_theta, other.new_theta or ())
            require(fine, f"θ moves by its optimiser or its step size, though moves_theta is False {case}")


def _like(leaves: Leaves, pattern: Leaves, what: str) -> None:
    require(isinstance(leaves, tuple) and len(leaves) == len(pattern), f"{what} is not a tuple of {len(pattern)}")
    for x, y in zip(leaves, pattern, strict=True):
        require(x.shape == y.shape, f"{what} has shape {tuple(x.shape)} instead of {tuple(y.shape)}")
        require(x.dtype == y.dtype, f"{what} has dtype {x.dtype} instead of {y.dtype}")
        require(not x.requires_grad, f"{what} carries a graph")


def check_info_is_scalars_without_graph(make: Make) -> None:
    """What a step measured are 0-d tensors without graph, f among them; f, g, q and λ are finite."""
    for case in cases(make):
        stepper = case.stepper()
        for info in advance(stepper):
            require(isinstance(info, Info), f"info is no Info {case}")
            require(
                (info.tail is not None) == stepper.method.tunable, f"tunable does not say whether it has a tail {case}"
            )
            for name, value in info._asdict().items():
                if value is None:
                    require(name != "f", f"f is missing {case}")
                    continue
                require(isinstance(value, Tensor) and value.dim() == 0, f"{name} is no 0-d tensor {case}")
                require(not value.requires_grad, f"{name} carries a graph {case}")
                if name in ("f", "g", "q", "lam"):
                    require(math.isfinite(float(value)), f"{name} is {float(value)} {case}")


def check_state_keeps_its_form(make: Make) -> None:
    """State is a dict of tuples of tensors without graph; its names, shapes and dtypes repeat with the period.

    Before the first step a group may be empty.
    """
    for case in cases(make):
        stepper = case.stepper()
        forms = [_form(stepper.state, str(case))]
        for _ in range(2 * stepper.method.period + 1):
            if not advance(stepper, 1):
                break
            forms.append(_form(stepper.state, str(case)))
            require(forms[-1].keys() == forms[0].keys(), f"the names of the state change from step to step {case}")
        for name, first in forms[0].items():
            then = forms[min(stepper.method.period, len(forms) - 1)][name]
            require(not first or first == then, f"state {name!r} changes its form {case}")
        for now, later in zip(forms[1:], forms[1 + stepper.method.period :], strict=False):
            require(
                now == later, f"the form of the state does not repeat with the period {stepper.method.period} {case}"
            )


def _form(state: State, case: str) -> dict[str, list[tuple[torch.Size, torch.dtype]]]:
    require(
        isinstance(state, dict) and all(isinstance(name, str) for name in state), f"the state is no dict by name {case}"
    )
    for name, group in state.items():
        fine = isinstance(group, tuple) and all(isinstance(x, Tensor) for x in group)
        require(fine, f"state {name!r} is no tuple of tensors {case}")
        require(not any(x.requires_grad for x in group), f"state {name!r} carries a graph {case}")
    return {name: [(x.shape, x.dtype) for x in group] for name, group in state.items()}


def check_state_has_memory_of_its_own(make: Make) -> None:
    """State shares no memory with the variables, which optimisers write to, nor with the direction in their `.grad`."""
    for case in cases(make):
        stepper = case.stepper()
        live = {x.untyped_storage().data_ptr(): "a variable" for x in variables(stepper)}
        advance(stepper, 1)
        step = raw_step(stepper)
        live |= {x.untyped_storage().data_ptr(): "the direction" for x in step.direction.v + step.direction.theta}
        for state in (stepper.method.init(stepper.oracle, stepper.problem.point), step.state):
            for name, group in state.items():
                for x in group:
                    other = live.get(x.untyped_storage().data_ptr())
                    require(other is None, f"state {name!r} shares memory with {other} {case}")


# --- that a step is pure ----------------------------------------------------------------------------------------------


def check_two_runs_are_equal(make: Make) -> None:
    """Two runs from the same start are equal bit for bit."""
    for case in cases(make):
        one, other = case.stepper(), case.stepper()
        advance(one), advance(other)
        require(same(everything(one), everything(other)), f"two runs differ {case}")


def check_a_step_can_be_repeated(make: Make) -> None:
    """`step` depends on its arguments alone: called twice it returns the same."""
    for case in cases(make):
        stepper = case.stepper()
        advance(stepper, 1)
        a, b = raw_step(stepper), raw_step(stepper)
        require(same(a.direction.v, b.direction.v), f"the second call gives another direction of v {case}")
        require(same(a.direction.theta, b.direction.theta), f"the second call gives another direction of θ {case}")
        require(same(tensors(a.state), tensors(b.state)), f"the second call gives another state {case}")
        require(same(a.new_theta or (), b.new_theta or ()), f"the second call gives another new θ {case}")


def check_arguments_are_left_alone(make: Make) -> None:
    """A step leaves point, state and batches as they were, values and objects."""
    for case in cases(make):
        stepper = case.stepper()
        advance(stepper, 1)
        _untouched(stepper, str(case))
    for oracle in oracles_for(make(BED_SETTINGS)):
        stepper = bed_stepper(make, oracle)
        advance(stepper, 1)
        _untouched(stepper, f"with data and the {oracle} oracle")


def _untouched(stepper: Stepper, case: str) -> None:
    method = stepper.method
    batches = Batches(
        inner=tuple(torch.full((), 0.01 * i, dtype=torch.float64) for i in range(method.inner_batches)),
        outer=tuple(torch.full((), 0.02 * i, dtype=torch.float64) for i in range(method.outer_batches)),
    )
    groups = {**stepper.state, "the variables": variables(stepper), "the batches": (*batches.inner, *batches.outer)}
    before = {name: clone(group) for name, group in groups.items()}
    state, same_state = stepper.state, dict(stepper.state)
    raw_step(stepper, batches)
    for name, group in groups.items():
        require(same(group, before[name]), f"a step writes to {name} {case}")
    require(state.keys() == same_state.keys(), f"a step adds to the state it is given {case}")
    require(all(state[name] is same_state[name] for name in state), f"a step replaces groups of its state {case}")


def check_live_tensors_stay_clean(make: Make) -> None:
    """After a step the live tensors have no `.grad`, and `requires_grad` is as it was."""
    for case in cases(make):
        stepper = case.stepper()
        leaves = stepper.problem.v.leaves + stepper.problem.theta.leaves
        before = [x.requires_grad for x in leaves]
        advance(stepper)
        require(all(x.grad is None for x in leaves), f"a step leaves something in .grad {case}")
        require([x.requires_grad for x in leaves] == before, f"a step changes requires_grad {case}")


def check_random_numbers_are_left_alone(make: Make) -> None:
    """A step on a problem without randomness draws no random numbers."""
    for case in cases(make):
        stepper = case.stepper()
        before = torch.get_rng_state()
        advance(stepper)
        require(torch.equal(before, torch.get_rng_state()), f"a step draws random numbers {case}")


def check_gradient_mode_does_not_matter(make: Make) -> None:
    """A step gives the same under `torch.no_grad()`."""
    for case in cases(make):
        one, other = case.stepper(), case.stepper()
        advance(one)
        with torch.no_grad():
            advance(other)
        require(same(everything(one), everything(other)), f"torch.no_grad() changes the result {case}")


def check_graphs_are_freed(make: Make) -> None:
    """When a step returns, no graph of it is left; and the number of live tensors does not grow over steps."""
    stepper = bed_stepper(make, "autograd")
    period = stepper.method.period
    advance(stepper, 1 + period)
    saved: weakref.WeakSet[_Saved] = weakref.WeakSet()

    def pack(x: Tensor) -> _Saved:
        holder = _Saved(x)
        saved.add(holder)
        return holder

    with saved_tensors_hooks(pack, lambda holder: holder.tensor):
        stepper.step_on(batches_for(stepper.method))
    require(not saved, f"{len(saved)} tensors of the graph of a step are still held after it")
    gc.freeze()  # leaves out of sight what is there already
    try:
        advance(stepper, period)
        before = _live_tensors()
        advance(stepper, 2 * period)
        grown = _live_tensors() - before
    finally:
        gc.unfreeze()
    require(grown <= 0, f"{grown} more tensors are alive after {2 * period} steps")


class _Saved:
    """A tensor held by a graph."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def _live_tensors() -> int:
    gc.collect()
    return sum(issubclass(type(x), Tensor) for x in gc.get_objects())


# --- that it can be stopped, resumed, and run in every precision ------------------------------------------------------


def check_resuming_changes_nothing(make: Make) -> None:
    """A run that is saved to a checkpoint, loaded and continued equals one that was not interrupted, bit for bit."""
    runs = {str(case): case.stepper() for case in cases(make)}
    for stepper in runs.values():
        advance(stepper)
    saved = {name: {"variables": variables(run), "state": run.state, "k": run.k} for name, run in runs.items()}
    with tempfile.TemporaryDirectory() as folder:
        loaded = checkpoint.load(checkpoint.save(Path(folder), STEPS, saved)).state
    for case in cases(make):
        first, second, held = runs[str(case)], case.stepper(), loaded[str(case)]
        require(_form(held["state"], "") == _form(first.state, ""), f"a checkpoint changes the form of state {case}")
        for live, value in zip(variables(second), held["variables"], strict=True):
            live.copy_(value)
        second.state, second.k = held["state"], held["k"]
        advance(first), advance(second)
        require(same(everything(second), everything(first)), f"a resumed run ends elsewhere {case}")


def check_precisions(make: Make) -> None:
    """Float32 and float64 keep their dtypes and agree; numbers that count or weigh may be float64 in both."""
    for case in cases(make):
        single, double = case.stepper(torch.float32), case.stepper(torch.float64)
        advance(single), advance(double)
        for stepper, dtype in ((single, torch.float32), (double, torch.float64)):
            step = raw_step(stepper)
            for leaves in (variables(stepper), step.direction.v, step.direction.theta, step.new_theta or ()):
                require(all(x.dtype == dtype for x in leaves), f"{dtype} is not kept {case}")
            for name, group in step.state.items():
                fine = all(x.dtype == dtype or x.dim() == 0 for x in group)
                require(fine, f"state {name!r} is not {dtype} {case}")
        error = difference(variables(single), variables(double))
        require(
            error <= 1e-3 or diverged(double, STEPS),
            f"float32 differs from float64 by {error:.1e} after {STEPS} steps {case}",
        )
