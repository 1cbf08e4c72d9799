"""A step compiled as a whole: the same steps, compiled once, and what it refuses."""

from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.optim import SGD

from bome import Batches, Problem, Stepper
from bome.errors import UnsupportedError
from bome.methods.compiled import Compiled
from tests.support.routes import path_of, toy_and_batches
from tests.support.samples import bome, cleaning, toy

# Torch's own compiler, when it is first loaded.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.*deprecated:DeprecationWarning")


@pytest.mark.parametrize(
    "make", [toy_and_batches, pytest.param(cleaning, marks=pytest.mark.slow)], ids=["toy", "network"]
)
def test_compiled_steps_agree_with_eager_ones_over_twenty_steps(make: Callable[[], tuple[Problem, Batches]]) -> None:
    for x, y in zip(path_of("compiled step", make, bome(3)), path_of("autograd", make, bome(3)), strict=True):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)


def test_a_compiled_step_is_compiled_once_although_step_sizes_change() -> None:
    """20 steps with 20 step sizes; the compiler would give up after 8 versions and run eagerly from then on."""
    with torch._dynamo.config.patch(error_on_recompile=True):
        path_of("compiled step", toy_and_batches, bome(3))


def test_a_compiled_step_refuses_what_it_would_get_wrong() -> None:
    """Random numbers, running statistics and other oracles; nothing has been changed then."""
    noisy, batches = cleaning(nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)).double())
    before = noisy.point.theta[0].clone()
    stepper = Stepper(noisy, Compiled(bome(2)), SGD(noisy.v.leaves, 0.1), oracle="func")
    with pytest.raises(UnsupportedError, match="without random numbers"):
        stepper.step_on(batches)
    assert torch.equal(noisy.point.theta[0], before)
    assert not stepper.counts
    normed, _ = cleaning(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).double())
    with pytest.raises(UnsupportedError, match=r"running statistics \(theta.1.running_mean\)"):
        Stepper(normed, Compiled(bome(2)), SGD(normed.v.leaves, 0.1), oracle="func")
    plain, _ = cleaning()
    with pytest.raises(UnsupportedError, match="Compiled needs oracle='func', got AutogradOracle"):
        Stepper(plain, Compiled(bome(2)), SGD(plain.v.leaves, 0.1), oracle="autograd")


def test_a_compiled_method_stands_for_the_method_it_wraps() -> None:
    method = bome(7, 0.3)
    compiled = Compiled(method)
    assert compiled.name == "bome"
    assert compiled.inner_map is method.inner
    assert compiled.requires == method.requires
    assert (compiled.inner_batches, compiled.outer_batches) == (1, 1)
    problem = toy()
    assert Stepper(problem, compiled, SGD(problem.v.leaves, 0.1), oracle="func").metric.theta == (0.3,)
