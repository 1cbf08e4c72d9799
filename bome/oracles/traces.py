"""What an evaluation leaves behind besides its result, random numbers and running statistics, and how to undo it."""

from collections.abc import Callable

import torch
from torch import Tensor

from bome.problem import Problem


def snapshot(problem: Problem) -> Callable[[], None]:
    """Remember running statistics and random generators; the function returned puts them back."""
    buffers, random = {name: buffer.clone() for name, buffer in problem.buffers.items()}, generators()

    def restore() -> None:
        replay(random)
        with torch.no_grad():
            for name, buffer in problem.buffers.items():
                buffer.copy_(buffers[name])

    return restore


def generators() -> tuple[Tensor, ...]:
    """The states of torch's random generators."""
    if torch.compiler.is_compiling():
        return ()
    states = [torch.get_rng_state()]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states.append(torch.cuda.get_rng_state())
    return tuple(states)


def moved(before: tuple[Tensor, ...]) -> bool:
    """Whether the generators stand elsewhere now."""
    if torch.compiler.is_compiling():
        return False
    return any(not torch.equal(a, b) for a, b in zip(before, generators(), strict=True))


def replay(states: tuple[Tensor, ...] | None) -> None:
    """Set the generators back to earlier states, if there are any."""
    if states:
        torch.set_rng_state(states[0])
        for state in states[1:]:
            torch.cuda.set_rng_state(state)
