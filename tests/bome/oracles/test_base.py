"""What every oracle does: the same numbers by three ways, in every form of variable, and no trace left."""

import gc
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD

from bome import AutogradOracle, BackwardOracle, Batches, FuncOracle, PerSample, Problem, Stepper
from bome.core import trees
from bome.oracles import Oracle
from tests.support.samples import (
    NAMES,
    ORACLES,
    Calls,
    Ledger,
    Name,
    bome,
    cleaning,
    direction,
    everything,
    mlp,
    same,
    seeded,
    toy,
)

X = torch.randn(6, 3, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


class Form(NamedTuple):
    """A problem with its variables in one form, and the plain function of flat tensors it stands for."""

    make: Callable[[], Problem]
    batches: Batches


class Tied(nn.Module):
    """Two layers that share a weight, a frozen bias, an unused parameter, and a constant buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.second = nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.second.bias.requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(2))
        self.register_buffer("shift", torch.full((3,), 0.1))
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        shift: Tensor = self.get_buffer("shift")
        return self.second(torch.tanh(self.first(x))) + shift  # type: ignore[no-any-return]


def _tied() -> Tied:
    with seeded(1):
        return Tied()


def _line() -> nn.Linear:
    with seeded(2):
        return nn.Linear(3, 1).double()


def _inner(v: Tensor, theta: Tensor) -> Tensor:
    return (X @ theta - v).square().mean() + 0.1 * (v * theta).sum().tanh()


def _outer(v: Tensor, theta: Tensor) -> Tensor:
    return (X @ theta).tanh().sum() * v.square().sum() + theta.square().sum()


def _vector(seed: int, n: int = 3) -> Tensor:
    return torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def _tensor() -> Problem:
    return Problem(
        lambda v, t, b: _outer(v[:1], t), lambda v, t, b: _inner(v[:1], t) + v.cos().sum(), _vector(0), _vector(1)
    )


def _list() -> Problem:
    def theta(t: Any) -> Tensor:
        return torch.cat([t[0], t[1].reshape(1)])

    return Problem(
        lambda v, t, b: _outer(v[0], theta(t)) + v[1].sum(),
        lambda v, t, b: _inner(v[0], theta(t)) + (v[1] * t[0]).sum(),
        [_vector(0, 1), _vector(3, 2)],
        (_vector(1, 2), _vector(4, 1)[0]),
    )


def _dict() -> Problem:
    return Problem(
        lambda v, t, b: _outer(v["a"], t["w"]["x"]),
        lambda v, t, b: _inner(v["a"], t["w"]["x"]) + t["w"]["list"][0].sum() * v["a"].sum(),
        {"a": _vector(0, 1)},
        {"w": {"x": _vector(1), "list": [_vector(5, 2)]}},
    )


def _module_theta() -> Problem:
    return Problem(
        lambda v, net, b: net(b).square().sum() + v.sum(),
        lambda v, net, b: (net(b).sum(1) - v).square().mean(),
        _vector(0, 6),
        _tied(),
    )


def _module_both() -> Problem:
    return Problem(
        lambda line, net, b: line(net(b)).tanh().sum(),
        lambda line, net, b: (line(b) * net(b)).square().mean(),
        _line(),
        _tied(),
    )


def _module_v() -> Problem:
    return Problem(
        lambda line, t, b: (b @ t).square().mean(),
        lambda line, t, b: ((b @ t) - line(b)[:, 0]).square().mean(),
        _line(),
        _vector(1),
    )


ROWS = torch.tensor([4, 0, 4, 2, 5, 0])


def _per_sample() -> Problem:
    table = PerSample(6, dtype=torch.float64)
    table.values.copy_(_vector(7, 6))
    return Problem(
        lambda w, t, b: (b[0] @ t).square().sum(),
        lambda w, t, b: (w.sigmoid() * (b[0] @ t).square()).mean(),
        table,
        _vector(1),
    )


PLAIN = Batches(inner=(X,), outer=(X,))
FORMS = {
    "tensor": Form(_tensor, PLAIN),
    "list": Form(_list, PLAIN),
    "nested": Form(_dict, PLAIN),
    "module theta": Form(_module_theta, PLAIN),
    "module both": Form(_module_both, PLAIN),
    "module v": Form(_module_v, PLAIN),
    "per sample": Form(_per_sample, Batches(inner=((X, ROWS),), outer=((X, ROWS),))),
}


def _by_hand(problem: Problem, which: str, batch: Any) -> tuple[Tensor, list[Tensor]]:
    """Value and gradient by autograd on the live variables themselves, as a user would write it."""
    leaves = [*problem.v.leaves, *problem.theta.leaves]
    flags = [x.requires_grad for x in leaves]
    for x in leaves:
        x.requires_grad_()
    v = problem.v.value.values[ROWS] if isinstance(problem.v.value, PerSample) else problem.v.value
    loss = problem.outer if which == "f" else problem.inner
    value = loss(v, problem.theta.value, batch)
    grads = torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)
    for x, flag in zip(leaves, flags, strict=True):
        x.requires_grad_(flag)
    return value.detach(), [g.detach() for g in grads]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("wrt", ["both", "v", "theta"])
def test_values_and_gradients_are_those_of_autograd(form: str, kind: type[Oracle], wrt: Any) -> None:
    problem, batches = FORMS[form].make(), FORMS[form].batches
    oracle = kind(problem)
    point = problem.point
    rows, local = problem.localise(batches)
    v = point.v if rows is None else tuple(x[rows] for x in point.v)
    for which, evaluate, batch in (("g", oracle.inner, local.inner[0]), ("f", oracle.outer, local.outer[0])):
        found = evaluate(v, point.theta, batch, wrt=wrt)
        value, grads = _by_hand(problem, which, batches.inner[0])
        torch.testing.assert_close(found.value, value, rtol=1e-14, atol=1e-14)
        n = len(point.v)
        wanted = (grads[:n] if rows is None else [g[rows] for g in grads[:n]]) if wrt != "theta" else []
        assert len(found.grad.v) == len(wanted)
        for x, y in zip(found.grad.v, wanted, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-13, atol=1e-13)
        wanted = grads[n:] if wrt != "v" else []
        assert len(found.grad.theta) == len(wanted)
        for x, y in zip(found.grad.theta, wanted, strict=True):
            torch.testing.assert_close(x, y, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NAMES)
def test_twenty_steps_in_every_form_agree_with_the_default_oracle(form: str, name: Name) -> None:
    ends = []
    for each in ("autograd", name):
        problem = FORMS[form].make()
        stepper = Stepper(problem, bome(3, 0.05), SGD(problem.v.leaves, 0.02), SGD(problem.theta.leaves, 0.02), each)
        for _ in range(20):
            stepper.step_on(FORMS[form].batches)
        ends.append([*problem.point.v, *problem.point.theta])
        assert stepper.counts == {"g": 80, "f": 20}
    for x, y in zip(*ends, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("steps", [1, 2, 10])
@pytest.mark.parametrize("name", NAMES)
def test_a_step_of_bome_costs_one_evaluation_of_f_and_steps_plus_one_of_g(steps: int, name: Name) -> None:
    """By the oracle's counts and by the calls of the losses, from the very first step.

    `FuncOracle` cannot see whether a gradient flows, so that its first step is preceded by one call of each to look.
    """
    problem, batches = cleaning()
    calls_f, calls_g = Calls(problem.outer), Calls(problem.inner)
    problem.outer, problem.inner = calls_f, calls_g
    stepper = Stepper(problem, bome(steps), SGD(problem.v.leaves, 0.1), oracle=name)
    for k in range(1, 4):
        stepper.step_on(batches)
        assert stepper.counts == {"g": k * (steps + 1), "f": k}
        extra = 1 if name == "func" else 0
        assert (calls_g.count, calls_f.count) == (k * (steps + 1) + extra, k + extra)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ORACLES)
def test_a_direction_leaves_variables_gradients_and_flags_as_they_were(form: str, kind: type[Oracle]) -> None:
    problem, batches = FORMS[form].make(), FORMS[form].batches
    live = [*problem.v.leaves, *problem.theta.leaves]
    for x in live:
        x.grad = torch.full_like(x, 7.0)
    flags, grads, before = [x.requires_grad for x in live], [x.grad for x in live], everything(problem)
    rows, local = problem.localise(batches)
    point = problem.point if rows is None else problem.point._replace(v=tuple(x[rows] for x in problem.point.v))
    oracle = kind(problem)
    g = oracle.inner(*point, local.inner[0])
    oracle.look_ahead(*point, g, bome().inner, local.inner)
    oracle.outer(*point, local.outer[0])
    assert same(everything(problem), before)
    assert [x.requires_grad for x in live] == flags
    assert all(x.grad is grad and (grad == 7).all() for x, grad in zip(live, grads, strict=True) if grad is not None)


@pytest.mark.parametrize("kind", ORACLES)
def test_no_graph_outlives_an_evaluation(kind: type[Oracle]) -> None:
    """What a step returns has no history, and a tensor of the forward pass is gone without a garbage collection."""
    problem, batches = cleaning()
    graph: list[weakref.ref[Tensor]] = []

    def kept(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def watched(v: Any, theta: Any, batch: Any) -> Tensor:
            hidden: Tensor = theta[0](batch[0])
            graph.append(weakref.ref(hidden))
            return loss(v, theta, batch) + 0 * hidden.sum()

        return watched

    problem.outer, problem.inner = kept(problem.outer), kept(problem.inner)
    gc.disable()
    try:
        step = direction(kind(problem), bome(3), batches)
        assert len(graph) == 5
        assert all(reference() is None for reference in graph)
    finally:
        gc.enable()
    tensors = [*step.direction.v, *step.direction.theta, *(x for x in step.info if x is not None)]
    assert all(x.grad_fn is None and not x.requires_grad for x in tensors)


class Stop(Exception):  # noqa: N818
    """Raised by a loss of a user."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fatal", range(12))
def test_an_exception_at_any_call_of_a_loss_leaves_everything_as_it_was(name: Name, fatal: int) -> None:
    """Calls of g and f are numbered together; with dropout and BatchNorm, momentum and T = 3 there are 5 in a step.

    The exception is an ordinary one at even numbers and Ctrl-C at odd ones. The run then goes on as if it had not been.
    """
    ends = []
    for wanted in (None, fatal):
        net = _noisy()
        problem, batches = cleaning(net)
        number = [0]

        def interfere(_: int, value: Tensor, wanted: int | None = wanted, number: list[int] = number) -> Tensor:
            number[0] += 1
            if wanted is not None and number[0] - 1 == wanted:
                raise (Stop if wanted % 2 == 0 else KeyboardInterrupt)("user")
            return value

        problem.outer, problem.inner = Calls(problem.outer, interfere), Calls(problem.inner, interfere)
        opts = SGD(problem.v.leaves, 0.1, momentum=0.9), SGD(problem.theta.leaves, 0.1, momentum=0.9)
        stepper = Stepper(problem, bome(3), *opts, oracle=name)
        failures = 0
        with seeded(0):
            while stepper.k < 3:
                before = everything(problem, *opts)
                try:
                    stepper.step_on(batches)
                except (Stop, KeyboardInterrupt):
                    failures += 1
                    assert same(everything(problem, *opts), before)
            ends.append(everything(problem, *opts))
        assert failures == (wanted is not None)
    assert same(*ends)


def _noisy() -> nn.Sequential:
    with seeded(3):
        return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.4), nn.Linear(6, 3)).double()


@pytest.mark.parametrize("kind", ORACLES)
@pytest.mark.parametrize("steps", [1, 10])
def test_all_evaluations_of_g_in_a_step_see_the_same_dropout_mask(kind: type[Oracle], steps: int) -> None:
    """Masks are told apart by the number of dropped entries of a large input; f draws a mask of its own."""
    masks: dict[str, list[int]] = {"f": [], "g": []}

    def loss(name: str) -> Callable[..., Tensor]:
        def masked(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
            keep = torch.nn.functional.dropout(torch.ones(10_000), 0.5)
            masks[name].append(int((keep > 0).sum()) + 100_000 * int((keep[:16] > 0).long() @ (2 ** torch.arange(16))))
            return (keep[:3].double() * (v - theta)).square().sum()

        return masked

    problem = Problem(loss("f"), loss("g"), _vector(0), _vector(1))
    with seeded(0):
        direction(kind(problem), bome(steps), Batches())
    assert len(masks["g"]) == steps + 1
    assert len(set(masks["g"])) == 1
    assert len(set(masks["f"] + masks["g"])) == 2


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps", [1, 10])
def test_after_a_step_the_generator_stands_where_one_evaluation_of_each_loss_leaves_it(name: Name, steps: int) -> None:
    problem, batches = cleaning(_noisy())
    stepper = Stepper(problem, bome(steps), SGD(problem.v.leaves, 0.1), oracle=name)
    for seed in range(3):
        with seeded(seed):
            stepper.step_on(batches)
            after = torch.get_rng_state()
        with seeded(seed), torch.no_grad():
            nn.Sequential(nn.Dropout(0.4))(torch.ones(16, 6, dtype=torch.float64))  # g: 16 samples, 6 hidden units
            nn.Sequential(nn.Dropout(0.4))(torch.ones(8, 6, dtype=torch.float64))  # f: 8 samples
            assert torch.equal(torch.get_rng_state(), after)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("steps", [1, 10])
def test_running_statistics_change_once_by_the_evaluation_of_g_at_the_current_point(name: Name, steps: int) -> None:
    """BatchNorm moves its mean by 0.1 towards that of the batch, and counts the batch: once, whatever T."""
    net = _noisy()
    problem, batches = cleaning(net)
    stepper = Stepper(problem, bome(steps), SGD(problem.v.leaves, 0.1), oracle=name)
    for k in range(3):
        hidden = net[0](batches.inner[0][0]).detach()
        expected = 0.9 * net[1].get_buffer("running_mean") + 0.1 * hidden.mean(0)
        stepper.step_on(batches)
        torch.testing.assert_close(net[1].get_buffer("running_mean"), expected, rtol=1e-12, atol=1e-12)
        assert int(net[1].get_buffer("num_batches_tracked")) == k + 1


class Replacing(nn.Module):
    """Counts its calls in a buffer that it replaces rather than writes to."""

    def __init__(self) -> None:
        super().__init__()
        self.net = mlp()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.get_buffer("calls") + 1
        return self.net(x)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", NAMES)
def test_a_buffer_that_a_module_replaces_changes_once_too(name: Name) -> None:
    net = Replacing()
    problem, batches = cleaning(net)
    stepper = Stepper(problem, bome(4), SGD(problem.v.leaves, 0.1), oracle=name)
    for k in range(1, 4):
        stepper.step_on(batches)
        assert float(net.get_buffer("calls")) == k


def _peak(kind: type[Oracle] | None, steps: int, size: int = 200) -> float:
    """Peak memory in copies of θ: of a step of BOME, or of plain training where no oracle is given.

    θ is one matrix of size², against which v, the batch and the activations are small.
    """
    net = nn.Linear(size, size, bias=False)
    x = torch.randn(2, size)
    problem = Problem(
        lambda v, net, b: net(b).square().mean(),
        lambda v, net, b: v * (net(b) - 1).square().mean(),
        torch.ones(()),
        net,
    )
    optimiser = SGD(net.parameters(), 0.01)
    with Ledger() as ledger:
        if kind is None:
            for _ in range(2):
                optimiser.zero_grad()
                problem.outer(None, net, x).backward()  # type: ignore[no-untyped-call]
                optimiser.step()
        else:
            stepper = Stepper(problem, bome(steps), SGD(problem.v.leaves, 0.1), optimiser, kind(problem))
            for _ in range(2):
                stepper.step(inner=x, outer=x)
    return float(ledger.peak) / (4 * size * size)


@pytest.mark.parametrize(("kind", "extra"), [(AutogradOracle, 2), (BackwardOracle, 2), (FuncOracle, 3)])
def test_memory_over_plain_training_is_a_few_copies_of_theta_whatever_the_number_of_steps(
    kind: type[Oracle], extra: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """θ_k or the working copy, and the first gradient of g; flat in T. A tenth of a copy is for all that is small.

    θ stands for a large model here, so it must have many blocks.
    """
    monkeypatch.setattr(trees, "BLOCK", 400)
    plain = _peak(None, 0)
    peaks = [_peak(kind, steps) for steps in (2, 10, 30)]
    assert max(peaks) - plain <= extra + 0.1
    assert max(peaks) - min(peaks) <= 0.1


@pytest.mark.parametrize("kind", ORACLES)
def test_a_parameter_that_no_loss_uses_is_treated_as_one_of_gradient_zero(kind: type[Oracle]) -> None:
    problem = _module_theta()
    step = direction(kind(problem), bome(), PLAIN)
    place = problem.theta.names.index("theta['unused']")
    assert torch.equal(step.direction.theta[place], torch.zeros(2, dtype=torch.float64))


def test_counts_of_several_oracles_are_their_own() -> None:
    problem = toy()
    one, two = AutogradOracle(problem), AutogradOracle(problem)
    direction(one, bome(), Batches())
    assert not two.counts
