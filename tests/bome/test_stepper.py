"""One outer step on live variables: what the optimisers are given, what a failed step leaves, what rows are touched."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adagrad, Adam, Optimizer, SparseAdam
from torch.optim.lr_scheduler import LambdaLR

from bome import (
    BOME,
    AutogradOracle,
    Batches,
    GradientDescent,
    PerSample,
    Problem,
    Stepper,
    ball,
    box,
    nonnegative,
    simplex,
)
from bome._typing import Projection
from bome.core.barrier import Metric
from bome.data.streams import Minibatches
from bome.errors import NonFiniteError, ProblemError
from bome.methods import F2SA, Method, Probe, StocBiO
from bome.projections import Rules
from tests.support.samples import (
    NAMES,
    Calls,
    Name,
    blobs,
    bome,
    cleaning,
    everything,
    mlp,
    plain_loss,
    same,
    seeded,
    toy,
)

F64 = torch.float64


def _by_hand(problem: Problem, method: BOME, batches: Batches = Batches()) -> list[Tensor]:  # noqa: B008
    """δ at the current point, v first, from the losses and autograd alone."""
    assert isinstance(method.inner, GradientDescent)
    v, theta = ([x.detach().clone().requires_grad_() for x in leaves] for leaves in problem.point)

    def grad(loss: Callable[..., Tensor], theta: list[Tensor], batch: Any) -> tuple[Tensor, list[Tensor]]:
        value = problem.loss("f" if loss is problem.outer else "g", tuple(v), tuple(theta), batch, {})
        leaves = [*v, *theta]
        return value.detach(), list(torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True))

    n = len(v)
    value, dg = grad(problem.inner, theta, batches.inner[0])
    ahead = theta
    for t in range(method.inner.steps):
        step = grad(problem.inner, ahead, batches.inner[min(t, len(batches.inner) - 1)])[1][n:]
        ahead = [(x - method.inner.lr * s).detach().requires_grad_() for x, s in zip(ahead, step, strict=True)]
    value_end, dg_end = grad(problem.inner, ahead, batches.inner[0])
    _, df = grad(problem.outer, theta, batches.outer[0])
    dq = [a - b for a, b in zip(dg[:n], dg_end[:n], strict=True)] + dg[n:]
    qq = sum(float(x.square().sum()) for x in dq)
    fq = sum(float((x * y).sum()) for x, y in zip(df, dq, strict=True))
    phi = method.eta * (qq if method.phi == "norm" else max(float(value - value_end), 0.0))
    lam = max((phi - fq) / qq, 0.0)
    return [x + lam * y for x, y in zip(df, dq, strict=True)]


OPTIMISERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: SGD(p, 0.05),
    "momentum": lambda p: SGD(p, 0.05, momentum=0.9, weight_decay=1e-3),
    "adam": lambda p: Adam(p, 0.02),
    "groups": lambda p: SGD([{"params": [x], "lr": 0.01 * (i + 1)} for i, x in enumerate(p)], momentum=0.5),
}


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("phi", ["norm", "gap"])
def test_the_optimisers_are_given_the_direction_and_do_the_rest(name: str, phi: Any) -> None:
    """Ten steps with schedulers, against δ by hand given to the same optimisers on copies."""
    (problem, batches), (copy, _) = cleaning(), cleaning()
    method = bome(3, phi=phi)
    opts = [OPTIMISERS[name](leaves) for leaves in (problem.v.leaves, problem.theta.leaves)]
    others = [OPTIMISERS[name](leaves) for leaves in (copy.v.leaves, copy.theta.leaves)]
    schedulers = [LambdaLR(opt, lambda k: 0.9**k) for opt in (*opts, *others)]
    stepper = Stepper(problem, method, opts[0], opts[1])
    for _ in range(10):
        stepper.step_on(batches)
        for leaf, delta in zip((*copy.v.leaves, *copy.theta.leaves), _by_hand(copy, method, batches), strict=True):
            leaf.grad = delta
        for opt in others:
            opt.step()
        for scheduler in schedulers:
            scheduler.step()
        for x, y in zip((*problem.point.v, *problem.point.theta), (*copy.point.v, *copy.point.theta), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)
    assert stepper.k == 10
    assert all(x.grad is None for x in (*problem.v.leaves, *problem.theta.leaves))


def test_by_default_theta_moves_by_gradient_descent_with_the_inner_step_size() -> None:
    problem = toy()
    expected = problem.point.theta[0] - 0.07 * _by_hand(problem, bome(3, 0.07))[1]
    Stepper(problem, bome(3, 0.07), SGD(problem.v.leaves, 0.1)).step()
    torch.testing.assert_close(problem.point.theta[0], expected, rtol=1e-14, atol=1e-14)


def test_the_metric_is_the_current_step_size_of_each_leaf() -> None:
    problem, _ = cleaning()
    inner_opt = OPTIMISERS["groups"](problem.theta.leaves)
    stepper = Stepper(problem, bome(), SGD(problem.v.leaves, 0.5), inner_opt)
    assert stepper.metric == Metric((0.5,), (0.01, 0.02, 0.03, 0.04))
    stepper.v_scale = 3.0
    inner_opt.param_groups[1]["lr"] = 7.0
    assert stepper.metric == Metric((1.5,), (0.01, 7.0, 0.03, 0.04))


def test_a_scale_of_the_v_step_is_a_factor_on_its_learning_rate_that_schedulers_do_not_see() -> None:
    one, other = toy(), toy()
    opt = SGD(one.v.leaves, 0.1)
    stepper = Stepper(one, bome(), opt)
    stepper.v_scale = 2.5
    stepper.step()
    Stepper(other, bome(), SGD(other.v.leaves, 0.25)).step()
    assert torch.equal(one.point.v[0], other.point.v[0])
    assert opt.param_groups[0]["lr"] == 0.1


RULES: dict[str, Projection] = {
    "box": box(-0.1, 0.2),
    "simplex": simplex(),
    "ball": ball(0.3),
    "nonnegative": nonnegative(),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("role", ["v", "theta"])
@pytest.mark.parametrize("name", NAMES)
def test_a_projection_is_applied_after_the_step_of_its_variable(rule: str, role: str, name: Name) -> None:
    """With T = 1 the direction of θ does not feel a projection of θ^(1) unless v's does: compare the step by hand."""
    options: dict[str, Any] = {f"project_{role}": RULES[rule]}
    problem, free = toy(**options), toy(**options)
    free.enter_sets()
    free.project_v = free.project_theta = Rules((None,))
    stepper = Stepper(problem, bome(1), SGD(problem.v.leaves, 0.1), SGD(problem.theta.leaves, 0.1), name)
    stepper.step()
    info = Stepper(free, bome(1), SGD(free.v.leaves, 0.1), SGD(free.theta.leaves, 0.1)).step()
    assert info.lam is not None
    if role == "v":
        torch.testing.assert_close(problem.point.v[0], RULES[rule](free.point.v[0]), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(problem.point.theta[0], free.point.theta[0], rtol=1e-12, atol=1e-12)
    else:
        torch.testing.assert_close(problem.point.theta[0], RULES[rule](problem.point.theta[0]), rtol=1e-12, atol=1e-12)
    for _ in range(20):
        stepper.step()
    leaf = problem.point.v[0] if role == "v" else problem.point.theta[0]
    torch.testing.assert_close(RULES[rule](leaf), leaf, rtol=1e-12, atol=1e-12)


def test_a_dict_of_projections_leaves_the_other_names_free() -> None:
    def problem(**options: Any) -> Problem:
        v = {"a": torch.ones(2, dtype=F64), "b": torch.full((2,), 5.0, dtype=F64)}
        f = toy()
        return Problem(
            lambda v, t, b: f.outer(torch.cat([v["a"], v["b"][:1]]), t, b) + v["b"].square().sum(),
            lambda v, t, b: f.inner(torch.cat([v["a"], v["b"][:1]]), t, b),
            v, torch.ones(2, dtype=F64), **options,
        )  # fmt: skip

    held, free = problem(project_v={"b": box(5, 6)}), problem()
    for each in (held, free):  # λ of all of the step, which is that without projections
        Stepper(each, replace(bome(), counts="all"), SGD(each.v.leaves, 0.1)).step()
    assert torch.equal(held.point.v[0], free.point.v[0])
    assert held.point.v[1].tolist() == [5, 5]


# --- a row per sample -------------------------------------------------------------------------------------------------


def _rowwise(w: Tensor, net: Any, batch: Any) -> Tensor:
    x, y = batch.data if hasattr(batch, "rows") else batch[:2]
    return (w.sigmoid() * cross_entropy(net(x), y, reduction="none")).mean()


def _indexed(w: Tensor, net: Any, batch: Any) -> Tensor:
    rows = batch.rows if hasattr(batch, "rows") else batch[2]
    return _rowwise(w[rows], net, batch)


def _on_val(w: Tensor, net: Any, batch: Any) -> Tensor:
    return plain_loss(w, net, batch) + 0.01 * w.square().mean()


N = 40


def _table(rule: Projection | None = None) -> tuple[Problem, Problem]:
    """The same problem with a row per sample and with one dense vector."""
    table = PerSample(N, dtype=F64)
    table.values.copy_(torch.linspace(-1, 1, N))
    sparse = Problem(plain_loss, _rowwise, table, mlp(), project_v=rule)
    dense = Problem(plain_loss, _indexed, table.values.clone(), mlp(), project_v=rule)
    return sparse, dense


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", [None, box(-0.5, 0.5)])
@pytest.mark.parametrize("draw", ["one", "fresh"])
def test_a_row_per_sample_is_the_dense_problem(name: Name, rule: Projection | None, draw: Any) -> None:
    """Shuffled minibatches of 7 among 40 samples, the last one shorter, two epochs; λ feels only the order of sums."""
    x, y = blobs(N)
    xv, yv = blobs(10)
    problems = _table(rule)
    if rule is not None:
        for p in problems:
            p.v.leaves[0].clamp_(-0.5, 0.5)
    method = bome(3, draw=draw)
    streams = [Minibatches((x, y), 7, seed=1) for _ in problems]
    steppers = [Stepper(p, method, SGD(p.v.leaves, 3.0), SGD(p.theta.leaves, 0.3), name) for p in problems]
    for _ in range(13):
        for stepper, stream in zip(steppers, streams, strict=True):
            stepper.step_on(Batches(inner=tuple(stream.next() for _ in range(method.inner_batches)), outer=((xv, yv),)))
        for a, b in zip(
            (*problems[0].point.v, *problems[0].point.theta),
            (*problems[1].point.v, *problems[1].point.theta),
            strict=True,
        ):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert steppers[0].counts == steppers[1].counts == {"g": 52, "f": 13}


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_that_is_twice_in_a_batch_counts_twice(name: Name) -> None:
    x, y = blobs(N)
    rows = torch.tensor([3, 8, 3, 0, 3])
    sparse, dense = _table()
    for problem in (sparse, dense):
        stepper = Stepper(problem, bome(2), SGD(problem.v.leaves, 5.0), SGD(problem.theta.leaves, 0.1), name)
        for _ in range(3):
            stepper.step(inner=(x[rows], y[rows], rows), outer=(x[:5], y[:5]))
    torch.testing.assert_close(sparse.point.v[0], dense.point.v[0], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("make", [lambda p: SGD(p, 5.0), lambda p: SparseAdam(p, 0.1), lambda p: Adagrad(p, 0.1)])
def test_only_the_rows_of_the_batch_are_touched_by_optimiser_and_projection(make: Callable[..., Optimizer]) -> None:
    """Between the steps all rows are put outside of the box; those of no batch stay there, bit for bit."""
    x, y = blobs(N)
    sparse, _ = _table(box(-0.01, 0.01))
    before = sparse.point.v[0].clone()
    stepper = Stepper(sparse, bome(2), make(sparse.v.leaves), SGD(sparse.theta.leaves, 0.1))
    sparse.point.v[0].copy_(before)
    touched = torch.zeros(N, dtype=torch.bool)
    for rows in (torch.tensor([1, 30, 2]), torch.tensor([39, 1])):
        stepper.step(inner=(x[rows], y[rows], rows), outer=(x[:5], y[:5]))
        touched[rows] = True
    after = sparse.point.v[0]
    assert torch.equal(after[~touched], before[~touched])
    assert (after[touched].abs() <= 0.01).all()


def test_rows_may_be_vectors_on_the_simplex() -> None:
    table = PerSample(5, 1 / 3, shape=(3,), dtype=F64)
    data = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=F64)
    problem = Problem(
        lambda w, t, b: t.square().sum(), lambda w, t, b: ((w * b[0]).sum(1) - t).square().sum(), table,
        torch.ones((), dtype=F64), project_v=simplex(),
    )  # fmt: skip
    stepper = Stepper(problem, bome(2), SGD(problem.v.leaves, 1.0))
    rows = torch.tensor([0, 4])
    stepper.step(inner=(data[rows], rows))
    assert torch.allclose(table.values.sum(1), torch.ones(5, dtype=F64))
    assert not torch.equal(table.values[0], table.values[1])
    assert torch.equal(table.values[1], torch.full((3,), 1 / 3, dtype=F64))


# --- NaN and infinity -------------------------------------------------------------------------------------------------


class Poison(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a number that is not finite."""

    @staticmethod
    def forward(x: Tensor, factor: float) -> Tensor:
        return x.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad * ctx.factor, None


KINDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
T = 4
PLACES = {
    # the batch that is poisoned, what is poisoned, and how the place is named
    "f": ("outer", 0, "value", r"f at \(v, θ\)"),
    "g": ("inner", 0, "value", r"g at \(v, θ\)"),
    "g at inner step 2": ("inner", 2, "value", "g at inner step 2"),
    "g at inner step 2, gradient too": ("inner", 2, "both", "g at inner step 2"),
    "gradient of f": ("outer", 0, "gradient", r"the gradient of f at \(v, θ\) in v"),
    "gradient of g": ("inner", 0, "gradient", r"the gradient of g at \(v, θ\) in v"),
    "gradient of g at inner step 3": (
        "inner",
        3,
        "gradient",
        r"the gradient of g at inner step 3 in theta\['0.weight'\]",
    ),
}


def _poisoned(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The last element of a batch says what is wrong with it: ("value" or "gradient" or "both", factor), or None."""

    def poisoned(w: Tensor, net: Any, batch: Any) -> Tensor:
        *rest, poison = batch
        value = loss(w, net, tuple(rest)) + 0 * w.sum()
        if poison is not None and poison[0] != "gradient":
            value = value * poison[1] if poison[0] == "both" else value + poison[1]
        if poison is not None and poison[0] != "value":
            value = Poison.apply(value, poison[1])  # type: ignore[no-untyped-call]
        return value

    return poisoned


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_nan_and_infinity_are_named_and_leave_everything_as_it_was(name: Name, kind: str, place: str) -> None:
    """At steps 0, 1 and 7, with Adam, momentum, dropout and BatchNorm; a run without bad steps ends in the same bits.

    Each inner step has a batch of its own, so that one of them can be poisoned.
    """
    side, index, what, where = PLACES[place]
    ends = []
    for bad_steps in ((), (0, 1, 7)):
        with seeded(3):
            net = nn.Sequential(
                nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Tanh(), nn.Dropout(0.4), nn.Linear(6, 3)
            ).double()
        problem, batches = cleaning(net)
        problem.outer, problem.inner = _poisoned(problem.outer), _poisoned(problem.inner)
        good = Batches(inner=tuple((*batches.inner[0], None) for _ in range(T)), outer=((*batches.outer[0], None),))
        sides: dict[str, list[Any]] = {"inner": list(good.inner), "outer": list(good.outer)}
        sides[side][index] = (*sides[side][index][:-1], (what, KINDS[kind]))
        bad = Batches(inner=tuple(sides["inner"]), outer=tuple(sides["outer"]))
        opts = Adam(problem.v.leaves, 0.01), SGD(problem.theta.leaves, 0.1, momentum=0.9)
        stepper = Stepper(problem, bome(T, draw="fresh"), *opts, oracle=name)
        with seeded(0):
            for k in range(9):
                if k in bad_steps:
                    before = everything(problem, *opts)
                    with pytest.raises(NonFiniteError, match=f"^step {k}: {where}.* is not finite; ") as caught:
                        stepper.step_on(bad)
                    assert caught.value.step == k == stepper.k
                    assert caught.value.where in str(caught.value)
                    assert same(everything(problem, *opts), before)
                stepper.step_on(good)
            ends.append(everything(problem, *opts))
    assert same(*ends)


def test_a_loss_without_a_lower_bound_is_named_where_it_is_minus_infinity() -> None:
    """f = −exp(v) overflows after a few steps."""
    v, theta = torch.ones(1, dtype=F64), torch.ones(1, dtype=F64)
    problem = Problem(lambda v, t, b: -v.exp().sum() + 0 * t.sum(), lambda v, t, b: (t - v).square().sum(), v, theta)
    stepper = Stepper(problem, bome(), SGD([v], 1.0), SGD([theta], 0.1))

    def steps() -> None:
        for _ in range(100):
            stepper.step()

    with pytest.raises(NonFiniteError, match=r"^step \d+: f at .* is not finite; does it have a lower bound\?"):
        steps()


def test_a_failure_that_does_not_repeat_is_named_as_far_as_it_can_be() -> None:
    """The loss is finite when it is called again to find the place: the outcome still tells f from g."""
    for name, where in (("outer", r"f at \(v, θ\)"), ("inner", r"g at \(v, θ\)")):
        problem = toy()
        once = Calls(getattr(problem, name), lambda n, value: value + (math.nan if n == 0 else 0))
        setattr(problem, name, once)
        with pytest.raises(NonFiniteError, match=f"step 0: {where} is not finite"):
            Stepper(problem, bome(), SGD(problem.v.leaves, 0.1)).step()


def test_an_update_that_overflowed_is_named_by_the_step_that_finds_it() -> None:
    """A step of 3e38 along ∇f = v − b = 99: no float32."""
    problem = toy(torch.float32)
    problem.v.leaves[0].fill_(100)
    stepper = Stepper(problem, bome(), SGD(problem.v.leaves, 3e38), SGD(problem.theta.leaves, 0.1))
    stepper.step()
    with pytest.raises(NonFiniteError, match="step 1: v before the step is not finite; the last update overflowed"):
        stepper.step()


def test_infinity_on_the_way_is_found_even_if_the_inner_loss_is_finite_there() -> None:
    """g = 20 σ(θ) v² and its gradients are 0 at −∞, where α = 1e308 brings θ from 2: 20 σ'(2) = 2.1."""
    problem = Problem(
        lambda v, t, b: t.square().sum() + v.square().sum(),
        lambda v, t, b: (20 * t.sigmoid() * v.square()).sum(),
        torch.ones(1, dtype=F64),
        torch.ones(1, dtype=F64) * 2,
    )
    with pytest.raises(NonFiniteError, match=r"step 0: g on the way to θ\^\(T\) is not finite"):
        Stepper(problem, bome(3, lr=1e308), SGD(problem.v.leaves, 0.1), SGD(problem.theta.leaves, 0.1)).step()


def test_large_finite_entries_are_not_taken_for_infinity() -> None:
    """float16 entries of 3e4: their sum overflows the dtype, they do not."""
    problem = Problem(
        lambda v, t, b: (3e4 * t.float()).sum() + v.sum(), lambda v, t, b: (t - v).square().sum(),
        torch.zeros(8, dtype=torch.float16), torch.ones(8, dtype=torch.float16),
    )  # fmt: skip
    Stepper(problem, bome(1, 1e-3), SGD(problem.v.leaves, 1e-6), SGD(problem.theta.leaves, 1e-6)).step()
    assert torch.isfinite(problem.point.theta[0]).all()


# --- surroundings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_a_step_inside_no_grad_is_the_same_step(name: Name) -> None:
    one, other = toy(), toy()
    Stepper(one, bome(), SGD(one.v.leaves, 0.1), oracle=name).step()
    with torch.no_grad():
        Stepper(other, bome(), SGD(other.v.leaves, 0.1), oracle=name).step()
    assert torch.equal(one.point.v[0], other.point.v[0])


def test_a_step_inside_inference_mode_is_refused() -> None:
    problem = toy()
    stepper = Stepper(problem, bome(), SGD(problem.v.leaves, 0.1))
    with torch.inference_mode(), pytest.raises(ProblemError, match=r"outside torch.inference_mode\(\)"):
        stepper.step()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_variables_of_several_dtypes_keep_them(name: Name, dtype: torch.dtype) -> None:
    problem = Problem(
        lambda v, t, b: (t["a"].double() - 1).square().sum() + t["b"].square().sum() + v.double().square().sum(),
        lambda v, t, b: (t["a"].double() - v.double()).square().sum() + (t["b"] - 1).square().sum(),
        torch.ones(2, dtype=dtype),
        {"a": torch.zeros(2, dtype=torch.float32), "b": torch.zeros(2, dtype=F64)},
    )
    stepper = Stepper(problem, bome(), SGD(problem.v.leaves, 0.1), SGD(problem.theta.leaves, 0.1), name)
    for _ in range(5):
        info = stepper.step()
    assert [x.dtype for x in (*problem.v.leaves, *problem.theta.leaves)] == [dtype, torch.float32, F64]
    assert math.isfinite(float(info.f))


def test_the_default_dtype_of_torch_does_not_matter() -> None:
    one, other = toy(), toy()
    Stepper(one, bome(), SGD(one.v.leaves, 0.1)).step()
    torch.set_default_dtype(torch.float16)
    try:
        Stepper(other, bome(), SGD(other.v.leaves, 0.1)).step()
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.equal(one.point.v[0], other.point.v[0])


def test_at_an_inner_solution_the_step_is_that_of_f_alone() -> None:
    """θ = Av: ∇q̂ = 0, λ = 0 and δ = ∇f, without a division by zero; the angle is undefined."""
    problem = toy()
    problem.theta.leaves[0].copy_(torch.tensor([[1.0, 0.5, -1.0], [0.0, 2.0, 1.0]], dtype=F64) @ problem.point.v[0])
    expected = problem.point.theta[0] - 0.1 * (problem.point.theta[0] - torch.tensor([1.0, -2.0], dtype=F64))
    info = Stepper(problem, bome(3, 0.1), SGD(problem.v.leaves, 0.1)).step()
    assert info.lam is not None
    assert info.cos is not None
    assert float(info.lam) == 0
    assert math.isnan(float(info.cos))
    torch.testing.assert_close(problem.point.theta[0], expected, rtol=1e-15, atol=1e-15)


def test_lambda_may_be_huge_and_stays_right() -> None:
    """∇q̂ = 1e-12 against ∇f = −1: λ = 1e12 + η in float64, from a constraint that then holds with equality."""
    tiny = 1e-12
    problem = Problem(
        lambda v, t, b: -t.sum() + v.sum() * 0, lambda v, t, b: tiny * t.sum() + 0 * v.sum(), torch.zeros(1, dtype=F64),
        torch.zeros(1, dtype=F64),
    )  # fmt: skip
    info = Stepper(problem, bome(1, 0.1), SGD(problem.v.leaves, 0.1), SGD(problem.theta.leaves, 1.0)).step()
    assert info.lam is not None
    assert float(info.lam) == pytest.approx(1 / tiny + 0.5, rel=1e-12)
    assert abs(float(problem.point.theta[0])) <= 1e-4


def test_an_oracle_made_by_hand_is_used_as_it_is() -> None:
    problem = toy()
    oracle = AutogradOracle(problem)
    stepper = Stepper(problem, bome(), SGD(problem.v.leaves, 0.1), oracle=oracle)
    stepper.step()
    assert stepper.oracle is oracle
    assert oracle.counts == {"g": 4, "f": 1}


def _noted() -> tuple[Problem, list[tuple[str, float]]]:
    """A problem whose losses write down which batches they see."""
    seen: list[tuple[str, float]] = []

    def loss(name: str) -> Callable[..., Tensor]:
        def noted(v: Tensor, theta: Tensor, batch: Tensor) -> Tensor:
            seen.append((name, float(batch)))
            return (theta - v - batch).square().sum() + v.square().sum()

        return noted

    return Problem(loss("f"), loss("g"), torch.ones(2, dtype=F64), torch.zeros(2, dtype=F64)), seen


class _Numbers:
    """A stream of 1, 2, 3, ..."""

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> Tensor:
        self.last += 1
        return torch.tensor(float(self.last), dtype=F64)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


SEVERAL: list[Method] = [
    BOME(GradientDescent(0.1, 3), draw="fresh"),
    F2SA(GradientDescent(0.1, 2)),
    StocBiO(GradientDescent(0.1, 2), Q=2),
    Probe(GradientDescent(0.1, 2)),
]


@pytest.mark.parametrize("method", SEVERAL, ids=lambda method: method.name)
def test_a_method_that_takes_several_batches_draws_them_from_a_stream(method: Method) -> None:
    """The same step as on these batches given one by one."""
    assert method.inner_batches > 1
    ends = []
    for drawn in (True, False):
        problem, seen = _noted()
        stepper = Stepper(problem, method, SGD(problem.v.leaves, 0.1), SGD(problem.theta.leaves, 0.1))
        if drawn:
            stepper.step(inner=_Numbers(), outer=_Numbers())
            assert {number for name, number in seen if name == "g"} == set(range(1, method.inner_batches + 1))
        else:
            inner, outer = (
                tuple(torch.arange(1.0, n + 1, dtype=F64)) for n in (method.inner_batches, method.outer_batches)
            )
            stepper.step_on(Batches(inner=inner, outer=outer))
        ends.append(everything(problem, stepper.outer_opt, stepper.inner_opt))
    assert same(*ends)


@pytest.mark.parametrize("method", SEVERAL, ids=lambda method: method.name)
def test_a_batch_is_given_to_a_method_as_often_as_it_takes_one(method: Method) -> None:
    problem, seen = _noted()
    Stepper(problem, method, SGD(problem.v.leaves, 0.1), SGD(problem.theta.leaves, 0.1)).step(
        inner=torch.tensor(2.0), outer=torch.tensor(7.0)
    )
    assert {("g", 2.0)} <= set(seen) <= {("g", 2.0), ("f", 7.0)}


def test_an_outer_loss_without_gradient_is_refused() -> None:
    v, theta = torch.zeros(2), torch.zeros(2)
    problem = Problem(lambda v, t, _: (t - 1).square().sum().detach(), lambda v, t, _: (t - v).square().sum(), v, theta)
    stepper = Stepper(problem, BOME(GradientDescent(0.1, 2)), SGD([v], 0.1))
    with pytest.raises(ProblemError, match="from the outer loss to v or theta"):
        stepper.step()
    assert not v.any()
    assert not theta.any()
