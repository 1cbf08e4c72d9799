"""Forms of variables, and every wrong input with what is said about it, before anything has changed."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Adam
from torch.optim.lr_scheduler import ReduceLROnPlateau

from bome import (
    BOME,
    AutogradOracle,
    Batches,
    GradientDescent,
    PerSample,
    Problem,
    Stepper,
    TorchOptim,
    ball,
    box,
    refit,
    simplex,
    solve,
)
from bome._typing import State
from bome.core.barrier import Metric
from bome.core.trees import Pair
from bome.data.streams import Constant, Data, Loader, Minibatches
from bome.errors import BilevelError, ProblemError, UnsupportedError
from bome.inner import AdamDescent
from bome.loop import Record, run
from bome.methods.base import Method, Step
from bome.oracles import Oracle
from bome.oracles.base import Needs
from bome.stopping import FirstOf, MaxEvaluations, MaxSeconds, MaxSteps, Stationary
from tests.support.samples import NAMES, Name, bome, cleaning, everything, mlp, same

ONE = torch.ones(2)


def loss(v: Any, theta: Any, batch: Any) -> Tensor:
    """Depends on both variables, whatever tensors they are."""
    value: Tensor = (v * theta).sum()
    return value


def problem(v: Any = None, theta: Any = None, **options: Any) -> Problem:
    """A problem of two tensors, one of them replaced."""
    return Problem(
        options.pop("outer", loss),
        options.pop("inner", loss),
        torch.ones(2) if v is None else v,
        torch.zeros(2) if theta is None else theta,
        **options,
    )


def stepper(p: Problem | None = None, **options: Any) -> Stepper:
    """A stepper around it."""
    p = p if p is not None else problem()
    outer_opt = options.pop("outer_opt", None) or SGD(p.v.leaves, 0.1)
    return Stepper(p, options.pop("method", bome()), outer_opt, **options)


def stepped(batches: Batches | None = None, **options: Any) -> None:
    """One step of a problem made of these parts; whatever is raised, nothing may have changed."""
    p = problem(**options)
    outer_opt = SGD(p.v.leaves, 0.1)
    made = Stepper(p, bome(), outer_opt)
    before = everything(p, outer_opt, made.inner_opt)
    try:
        made.step_on(batches if batches is not None else Batches())
    finally:
        assert same(everything(p, outer_opt, made.inner_opt), before)
        assert made.k == 0


def ran(**options: Any) -> None:
    """A run of a step or two."""
    p = problem()
    run(p, bome(), outer_opt=SGD(p.v.leaves, 0.1), **{"stop": MaxSteps(2), **options})


def _frozen() -> nn.Module:
    return nn.Linear(2, 2).requires_grad_(False)


def _expanded() -> Tensor:
    return torch.ones(1).expand(3)


def _inference() -> Tensor:
    with torch.inference_mode():
        return torch.ones(2)


def _shared() -> Any:
    x = torch.ones(2)
    return Problem(loss, loss, x, x)


def _view() -> Any:
    x = torch.ones(2)
    return Problem(loss, loss, x, x.view(1, 2))


def _shared_parameter() -> Any:
    net = nn.Linear(2, 1)
    return Problem(loss, loss, net.bias, net)


def _table(batch: Any, **options: Any) -> None:
    table = PerSample(4, **options)
    stepped(
        Batches(inner=(batch,), outer=(None,)),
        v=table,
        outer=lambda v, t, b: t.sum(),
        inner=lambda v, t, b: v.sum() * t.sum(),
    )


def _other_optimiser() -> Any:
    p = problem()
    return Stepper(p, bome(), SGD([torch.ones(3)], 0.1))


def _optimiser_with_more() -> Any:
    p = problem()
    return Stepper(p, bome(), SGD([p.v.leaves[0], torch.ones(3, requires_grad=True)], 0.1))


def _optimiser_with_less() -> Any:
    net = nn.Linear(2, 1)
    p = Problem(lambda v, n, b: n(ONE).sum() * v.sum(), lambda v, n, b: n(ONE).sum() * v.sum(), torch.ones(2), net)
    return Stepper(p, bome(), SGD(p.v.leaves, 0.1), SGD([net.weight], 0.1))


def _plateau() -> None:
    p = problem()
    opt = SGD(p.v.leaves, 0.1)
    run(p, bome(), outer_opt=opt, schedulers=[ReduceLROnPlateau(opt)])


class _Refusing(Method):
    """A method for other problems."""

    name: ClassVar[str] = "refusing"

    def refusal(self, problem: Problem) -> str | None:
        return "it has two variables"

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        raise AssertionError


class _Second(_Refusing):
    """A method that needs second-order products."""

    name: ClassVar[str] = "second"
    requires: ClassVar[Needs] = Needs.FIRST_ORDER | Needs.HVP


class Bad(NamedTuple):
    """A wrong input and what is said about it."""

    make: Callable[[], Any]
    says: str
    kind: type[BilevelError] = ProblemError


def odd(value: object) -> Any:
    """A value of a type that is not meant to be given."""
    return value


GD = GradientDescent(0.1)
BAD: dict[str, Bad] = {
    # variables
    "integers": Bad(
        lambda: problem(v=torch.tensor([1, 2])), r"^v has dtype torch.int64: variables are float64, .*\.float\(\)"
    ),
    "booleans in a dict": Bad(
        lambda: problem(theta={"a": torch.tensor([True])}), r"^theta\['a'\] has dtype torch.bool: "
    ),
    "complex": Bad(lambda: problem(v=torch.ones(2, dtype=torch.complex64)), "^v has dtype torch.complex64: "),
    "8 bits": Bad(lambda: problem(v=torch.ones(2).to(torch.float8_e4m3fn)), "^v has dtype torch.float8_e4m3fn: "),
    "sparse": Bad(lambda: problem(theta=torch.eye(2).to_sparse()), "^theta is sparse: .*belongs in the batch"),
    "meta": Bad(lambda: problem(v=torch.ones(2, device="meta")), "^v is on the meta device .*: move it with"),
    "made in inference mode": Bad(lambda: problem(v=_inference()), r"^v was made in inference mode: make it outside"),
    "NaN": Bad(lambda: problem(v=torch.tensor([1.0, math.nan])), "^v starts with NaN or infinity: start from"),
    "infinity in a list": Bad(
        lambda: problem(theta=[ONE, torch.tensor(-math.inf)]), r"^theta\[1\] starts with NaN or inf"
    ),
    "not a leaf": Bad(
        lambda: problem(v=torch.ones(2, requires_grad=True) * 2), r"^v is the result of .*\.detach\(\)\.clone"
    ),
    "expanded": Bad(lambda: problem(v=_expanded()), r"^v is expanded: .*: pass \.clone\(\)"),
    "empty": Bad(lambda: problem(v=torch.ones(0, 3)), "^v is empty: remove it or"),
    "no tensor at all": Bad(lambda: problem(v=[]), "^v has no tensor to optimise$"),
    "no parameter": Bad(lambda: problem(theta=nn.ReLU()), "^theta has no tensor to optimise$"),
    "frozen module": Bad(lambda: problem(theta=_frozen()), r"^theta has no tensor .* frozen \(requires_grad=False\)$"),
    "number": Bad(
        lambda: problem(v=0.5), "^v must be a tensor, a list or dict of tensors, or an nn.Module, got float$"
    ),
    "generator": Bad(lambda: problem(theta=mlp().parameters()), "^theta must be a tensor, .*, got generator$"),
    "array in a dict": Bad(lambda: problem(v={"a": [1.0]}), r"^v\['a'\]\[0\] must be a tensor, .*, got float$"),
    "same tensor in both": Bad(_shared, "^theta is the same tensor as v: a tensor belongs to one variable, once$"),
    "view of the same tensor": Bad(_view, "^theta is the same tensor as v: "),
    "same tensor twice in one": Bad(lambda: problem(v=[ONE, ONE]), r"^v\[1\] is the same tensor as v\[0\]: "),
    "parameter of the other module": Bad(_shared_parameter, r"^theta\['bias'\] is the same tensor as v: "),
    # a row per sample
    "rows of theta": Bad(lambda: problem(theta=PerSample(3)), "^theta cannot be a PerSample: only the outer"),
    "no samples": Bad(lambda: PerSample(0), "^PerSample needs a whole number of samples, at least one, got n=0$"),
    "half a sample": Bad(lambda: PerSample(odd(2.5)), "^PerSample needs a whole number .* got n=2.5$"),
    "integer rows": Bad(lambda: problem(v=PerSample(3, 1, dtype=torch.int64)), "^v has dtype torch.int64"),
    "index that is no function": Bad(lambda: PerSample(3, index=odd(1)), "^index of PerSample must be a function"),
    "no indices": Bad(lambda: _table(None), "^PerSample needs the sample indices of each inner batch: give batches"),
    "float indices": Bad(lambda: _table((ONE, torch.tensor([0.0]))), "^PerSample needs the sample indices"),
    "boolean mask": Bad(lambda: _table((ONE, torch.tensor([True]))), "^PerSample needs the sample indices"),
    "matrix of indices": Bad(lambda: _table((ONE, torch.tensor([[0]]))), "^PerSample needs the sample indices"),
    "no index in the batch": Bad(
        lambda: _table((ONE, torch.tensor([], dtype=torch.long))), "^PerSample needs the sample"
    ),
    "index too large": Bad(
        lambda: _table((ONE, torch.tensor([0, 4]))), r"indices from 0 to 4, but PerSample\(4\) has rows 0 to 3$"
    ),
    "negative index": Bad(lambda: _table((ONE, torch.tensor([-1, 2]))), "indices from -1 to 2, but"),
    "ball of all rows": Bad(
        lambda: problem(v=PerSample(3), project_v=ball(1)), "^the projection of v treats rows together"
    ),
    "simplex of all rows": Bad(
        lambda: problem(v=PerSample(3), project_v=simplex()), "^the projection of v treats rows together"
    ),
    # losses
    "outer loss no function": Bad(
        lambda: problem(outer=3), r"^outer must be a function \(v, theta, batch\) -> scalar, got int$"
    ),
    "outer loss of two arguments": Bad(
        lambda: problem(outer=lambda v, theta: theta),
        r"^outer must take three arguments \(v, theta, batch\), but it takes \(v, theta\)$",
    ),
    "inner loss of four arguments": Bad(
        lambda: problem(inner=lambda v, theta, batch, seed: theta), "^inner must take three arguments .* takes .*seed.$"
    ),
    "inner loss no function": Bad(lambda: problem(inner=None), "^inner must be a function .* got NoneType$"),
    "loss a vector": Bad(
        lambda: stepped(inner=lambda v, t, b: v * t), r"^the inner loss must .* got shape \(2,\): use \.mean"
    ),
    "loss of one entry": Bad(
        lambda: stepped(outer=lambda v, t, b: loss(v, t, b)[None]), r"^the outer loss must .* shape \(1,\)"
    ),
    "loss a number": Bad(
        lambda: stepped(outer=lambda v, t, b: float(loss(v, t, b).detach())), "^the outer loss .* got float: "
    ),
    "loss nothing": Bad(lambda: stepped(inner=lambda v, t, b: None), "^the inner loss .* got NoneType: "),
    "loss an integer": Bad(
        lambda: stepped(inner=lambda v, t, b: torch.tensor(3)), "^the inner loss must be a real number, got torch.int64"
    ),
    "loss complex": Bad(
        lambda: stepped(inner=lambda v, t, b: (1j * v * t).sum()),
        "^the inner loss must be a real number, got torch.complex64",
    ),
    "no gradient to theta": Bad(
        lambda: stepped(inner=lambda v, t, b: (v * t.detach()).sum()),
        "^no gradient flows from the inner loss to theta: ",
    ),
    "theta not in the inner loss": Bad(
        lambda: stepped(inner=lambda v, t, b: v.sum()), "^no gradient flows from the inner loss to theta: "
    ),
    "inner loss a constant": Bad(
        lambda: stepped(inner=lambda v, t, b: torch.ones(())), "^no gradient flows from the inner loss to theta: "
    ),
    "no gradient to v": Bad(
        lambda: stepped(outer=lambda v, t, b: t.sum(), inner=lambda v, t, b: (v.detach() * t).sum()),
        "^no gradient flows from either loss to v: is it used, and not detached or rounded",
    ),
    # projections
    "box upside down": Bad(lambda: box(1, 0), r"^box needs low <= high, got \[1, 0\]$"),
    "box of NaN": Bad(lambda: box(math.nan, 1), r"^box needs low <= high"),
    "ball of radius 0": Bad(lambda: ball(0), "^ball needs a positive radius, got 0$"),
    "ball of radius NaN": Bad(lambda: ball(math.nan), "^ball needs a positive radius"),
    "projection no function": Bad(
        lambda: problem(project_v=(0, 1)), r"^project_v must be a projection such as box\(0, 1\)"
    ),
    "projection a number": Bad(lambda: problem(project_theta=3), "^project_theta must be a projection"),
    "unknown name": Bad(
        lambda: problem(v={"a": torch.ones(2)}, project_v={"b": box(0, 1)}), r"^project_v names \['b'\], but v has "
    ),
    "names for a tensor": Bad(lambda: problem(project_v={"a": box(0, 1)}), r"^project_v names \['a'\], but v has "),
    "projection to another shape": Bad(
        lambda: problem(project_v=lambda x: x[:1]), "^the projection of v must return a tensor of its shape"
    ),
    "projection to another dtype": Bad(
        lambda: problem(project_theta=lambda x: x.double()), "^the projection of theta must return"
    ),
    # methods and inner maps
    "T = 0": Bad(lambda: GradientDescent(0.1, 0), r"^inner_steps \(T\) must be a whole number of at least 1, got 0$"),
    "T = −3": Bad(lambda: AdamDescent(0.1, -3), r"^inner_steps \(T\) must be .* got -3$"),
    "T = 1.5": Bad(lambda: GradientDescent(0.1, odd(1.5)), r"^inner_steps \(T\) must be .* got 1.5$"),
    "T = True": Bad(lambda: GradientDescent(0.1, True), r"^inner_steps \(T\) must be .* got True$"),
    "T of a torch optimiser": Bad(lambda: TorchOptim(lambda p: SGD(p), 0), r"^inner_steps \(T\) must be"),
    "α = 0": Bad(lambda: GradientDescent(0), r"^inner_lr \(α\) must be a positive number, got 0$"),
    "α < 0": Bad(lambda: AdamDescent(-1e-3), r"^inner_lr \(α\) must be a positive number"),
    "α NaN": Bad(lambda: GradientDescent(math.nan), r"^inner_lr \(α\) must be a positive number, got nan$"),
    "α infinite": Bad(lambda: GradientDescent(math.inf), r"^inner_lr \(α\) must be a positive number, got inf$"),
    "α text": Bad(lambda: GradientDescent(odd("0.1")), r"^inner_lr \(α\) must be .* got '0.1'$"),
    "momentum 1": Bad(lambda: GradientDescent(0.1, 2, 1), r"^inner momentum must be in \[0, 1\), got 1$"),
    "momentum < 0": Bad(lambda: GradientDescent(0.1, 2, -0.1), r"^inner momentum must be in"),
    "momentum NaN": Bad(lambda: GradientDescent(0.1, 2, math.nan), r"^inner momentum must be in"),
    "β = 1": Bad(lambda: AdamDescent(0.1, betas=(0.9, 1.0)), r"^each of betas must be in \[0, 1\), got 1.0$"),
    "ε = 0": Bad(lambda: AdamDescent(0.1, eps=0), "^eps must be a positive number, got 0$"),
    "no factory": Bad(
        lambda: TorchOptim(odd(SGD([torch.ones(1)], 1))), "^TorchOptim needs a function that makes an opt.* got SGD$"
    ),
    "η = 0": Bad(lambda: BOME(GD, eta=0), r"^eta \(η\) must be a positive number, got 0$"),
    "η < 0": Bad(lambda: BOME(GD, eta=-0.5), r"^eta \(η\) must be a positive number"),
    "η NaN": Bad(lambda: BOME(GD, eta=math.nan), r"^eta \(η\) must be a positive number"),
    "η infinite": Bad(lambda: BOME(GD, eta=math.inf), r"^eta \(η\) must be a positive number"),
    "unknown φ": Bad(lambda: BOME(GD, phi=odd("square")), r"^phi must be 'norm' .* or 'gap' .*, got 'square'$"),
    "unknown geometry": Bad(lambda: BOME(GD, geometry=odd("round")), "^geometry must be .* got 'round'$"),
    "unknown draw": Bad(lambda: BOME(GD, draw=odd("two")), "^draw must be 'one' .* got 'two'$"),
    "ε < 0": Bad(lambda: BOME(GD, eps=-1e-8), "^eps must be a positive number, got -1e-08$"),
    "no inner map": Bad(lambda: BOME(odd(0.1)), "^inner must be an inner map such as GradientDescent"),
    # the stepper
    "no problem": Bad(lambda: Stepper(odd(3), bome(), SGD([ONE], 1)), "^problem must be a Problem, got int$"),
    "a class for a method": Bad(lambda: stepper(method=BOME), "^method must be a Method, got ABCMeta$"),
    "unknown oracle": Bad(lambda: stepper(oracle="jax"), "^oracle must be 'auto', 'autograd', .* got 'jax'$"),
    "oracle of another problem": Bad(
        lambda: stepper(oracle=AutogradOracle(problem())), "^the oracle was made for another problem"
    ),
    "method that refuses": Bad(
        lambda: stepper(method=_Refusing()), "^refusing cannot solve this problem: it has two", UnsupportedError
    ),
    "second order by backward": Bad(
        lambda: stepper(method=_Second(), oracle="backward"),
        "^second needs HVP, which BackwardOracle cannot give: use",
        UnsupportedError,
    ),
    "torch optimiser by func": Bad(
        lambda: stepper(method=BOME(TorchOptim(lambda p: SGD(p))), oracle="func", inner_opt=SGD([ONE], 1)),
        "^FuncOracle needs a pure inner map, not TorchOptim: use",
        UnsupportedError,
    ),
    "no optimiser": Bad(
        lambda: stepper(outer_opt=[ONE]), "^outer_opt must be an optimiser such as torch.optim.SGD, got list$"
    ),
    "optimiser of something else": Bad(
        _other_optimiser, "^v is not among the parameters of outer_opt: construct it over v$"
    ),
    "optimiser of something more": Bad(
        _optimiser_with_more, r"^outer_opt holds tensors of shapes \[\(3,\)\] that are not in v$"
    ),
    "optimiser without a leaf": Bad(_optimiser_with_less, r"^theta\['bias'\] is not among the parameters of inner_opt"),
    "optimisers exchanged": Bad(
        lambda: Stepper(p := problem(), bome(), SGD(p.theta.leaves, 1), SGD(p.v.leaves, 1)), "^v is not among the"
    ),
    "LBFGS": Bad(
        lambda: Stepper(p := problem(), bome(), LBFGS(p.v.leaves)), "^outer_opt cannot be LBFGS, which evaluates"
    ),
    "no step size for theta": Bad(
        lambda: stepper(method=BOME(TorchOptim(lambda p: SGD(p)))), "^bome has no step size for theta: pass inner_opt="
    ),
    "momentum of rows": Bad(
        lambda: Stepper(p := problem(v=PerSample(3)), bome(), SGD(p.v.leaves, 1, momentum=0.9)),
        "^SGD with momentum moves all rows",
    ),
    "Adam of rows": Bad(
        lambda: Stepper(p := problem(v=PerSample(3)), bome(), Adam(p.v.leaves)), "^Adam moves all rows of a PerSample"
    ),
    "too many inner batches": Bad(
        lambda: stepped(Batches(inner=(1, 2), outer=(1,))), "^bome takes 1 inner batches a step, got 2: use"
    ),
    "no outer batch": Bad(
        lambda: stepped(Batches(inner=(1,), outer=())), "^bome takes 1 outer batches a step, got 0: use"
    ),
    # runs
    "log_every = 0": Bad(lambda: ran(log_every=0), "^log_every must be a whole number of at least 1, got 0$"),
    "log_every = 1.5": Bad(lambda: ran(log_every=1.5), "^log_every must be a whole number"),
    "stop a number": Bad(lambda: ran(stop=100), r"^stop must be a rule such as MaxSteps\(1000\), got 100$"),
    "data a tuple": Bad(lambda: ran(data=(ONE, ONE)), r"^data must be Data\(outer=..., inner=...\), .* got tuple$"),
    "plateau": Bad(_plateau, "^ReduceLROnPlateau needs a measurement at each step"),
    "no steps": Bad(lambda: MaxSteps(0), "^steps must be a whole number of at least 1, got 0$"),
    "steps text": Bad(lambda: MaxSteps(odd("10")), "^steps must be a whole number of at least 1, got '10'$"),
    "no evaluations": Bad(lambda: MaxEvaluations(0), "^evaluations must be a whole number"),
    "no time": Bad(lambda: MaxSeconds(0), "^seconds must be a positive number, got 0$"),
    "no tolerance": Bad(lambda: Stationary(0), "^tolerance must be a positive number"),
    "looked at never": Bad(lambda: Stationary(1e-3, 0), "^every must be a whole number"),
    "first of none": Bad(lambda: FirstOf(()), "^FirstOf needs a tuple of rules"),
    "saved never": Bad(lambda: Record(odd(None), 0), "^save_every must be a whole number of at least 1, got 0$"),
    # data
    "no data": Bad(lambda: Minibatches((), 1), "^a data set is a tuple of tensors whose first dimension counts"),
    "a number for data": Bad(lambda: Minibatches((torch.ones(()),), 1), "^a data set is a tuple of tensors"),
    "lists for data": Bad(lambda: Minibatches(odd(([1, 2],)), 1), "^a data set is a tuple of tensors"),
    "data of two lengths": Bad(
        lambda: Minibatches((torch.ones(3), torch.ones(4)), 1), r"^the tensors .* one length, got \[3, 4\]$"
    ),
    "empty batches": Bad(
        lambda: Minibatches((torch.ones(3),), 0), "^batch size must be between 1 and the 3 samples, got 0$"
    ),
    "batch larger than the data": Bad(lambda: Minibatches((torch.ones(3),), 4), "^batch size must be .* got 4$"),
    "half a sample in a batch": Bad(lambda: Minibatches((torch.ones(3),), odd(1.5)), "^batch size must be .* got 1.5$"),
    "empty loader": Bad(lambda: Loader([]).next(), "^the data loader gives no batches: is its data set empty"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_input_is_named_with_its_remedy(name: str) -> None:
    bad = BAD[name]
    with pytest.raises(bad.kind, match=bad.says) as caught:
        bad.make()
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_table_is_large() -> None:
    assert len(BAD) >= 100
    assert all(re.compile(bad.says) for bad in BAD.values())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("detached", ["v", "theta"])
def test_a_variable_that_no_gradient_reaches_is_refused_at_every_attempt(name: Name, detached: str) -> None:
    """By every oracle, with everything as it was before; trying again does not help."""

    def cut(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (v.detach() * theta).sum() if detached == "v" else (v * theta.detach()).sum()

    p = problem(outer=cut, inner=cut)
    made = Stepper(p, bome(), SGD(p.v.leaves, 0.1), oracle=name)
    before = everything(p)
    for _ in range(2):
        with pytest.raises(ProblemError, match=f"no gradient flows from .* to {detached}"):
            made.step()
        assert same(everything(p), before)


# --- what is accepted -------------------------------------------------------------------------------------------------


class Twins(NamedTuple):
    """A named tuple of tensors."""

    left: Tensor
    right: Tensor


@dataclass
class Seen:
    """What a loss was given."""

    v: Any = None
    theta: Any = None


@pytest.mark.parametrize("name", NAMES)
def test_losses_see_variables_in_the_form_they_were_given(name: Name) -> None:
    seen = Seen()

    def inner(v: Any, theta: Any, batch: Any) -> Tensor:
        seen.v, seen.theta = v, theta
        value: Tensor = (v.left * theta["a"][0] + v.right * theta["b"]).sum()
        return value

    p = Problem(inner, inner, Twins(torch.ones(2), torch.ones(2)), {"a": [torch.ones(2)], "b": torch.ones(())})
    assert p.v.names == ("v[0]", "v[1]")
    assert p.theta.names == ("theta['a'][0]", "theta['b']")
    Stepper(p, bome(), SGD(p.v.leaves, 0.1), oracle=name).step()
    assert isinstance(seen.v, Twins)
    assert list(seen.theta) == ["a", "b"]
    assert isinstance(seen.theta["a"], list)


def test_modules_are_seen_as_themselves() -> None:
    p, _ = cleaning()
    assert p.theta.seen(()) is p.theta.value
    assert p.theta.names == ("theta['0.weight']", "theta['0.bias']", "theta['2.weight']", "theta['2.bias']")


def test_tensors_of_odd_shapes_are_welcome() -> None:
    """0-d, non-contiguous and view tensors, with and without requires_grad; columns of one matrix share no entry."""
    matrix = torch.arange(6.0).reshape(2, 3) + 1
    p = Problem(
        lambda v, t, b: v[0] * t[0].sum() + v[1].sum(),
        lambda v, t, b: v[0] * (t[0] - t[1]).square().sum() + (v[1].sum() - t[0]).square().sum(),
        [torch.tensor(1.0, requires_grad=True), torch.ones(3, 2).T],
        [matrix[:, 0], matrix[:, 2]],
    )
    made = Stepper(p, bome(2, 0.01), SGD(p.v.leaves, 0.01))
    for _ in range(3):
        made.step()
    assert matrix[:, 1].tolist() == [2, 5]
    assert matrix[:, 0].tolist() != [1, 4]


def test_live_values_are_the_users_own_tensors() -> None:
    v = torch.ones(2)
    p = problem(v=v, theta=torch.ones(2))
    stepper(p).step()
    assert v is p.v.leaves[0]
    assert not torch.equal(v, torch.ones(2))


def test_indices_come_from_streams_from_the_last_element_or_from_the_user() -> None:
    table = PerSample(5)
    stream = Minibatches((torch.arange(5.0),), 2)
    batch = stream.next()
    assert torch.equal(table.rows(batch), batch.rows)
    assert torch.equal(table.rows([ONE, torch.tensor([3], dtype=torch.int32)]), torch.tensor([3]))
    chosen = PerSample(5, index=lambda batch: batch["rows"])
    assert torch.equal(chosen.rows({"rows": torch.tensor([1, 1])}), torch.tensor([1, 1]))


def test_rows_of_several_batches_are_joined_and_their_places_kept() -> None:
    """Rows 4, 1 and 1, 2 are together 1, 2, 4; the samples of the first batch stand at places 2 and 0 of these."""
    p = problem(v=PerSample(5), outer=loss, inner=loss)
    rows, local = p.localise(Batches(inner=((torch.tensor([4, 1]),), (torch.tensor([1, 2]),)), outer=(None,)))
    assert rows is not None
    assert rows.tolist() == [1, 2, 4]
    assert [batch.places.tolist() for batch in (*local.inner, *local.outer)] == [[2, 0], [0, 1], [2, 0]]


@pytest.mark.parametrize("begin", ["Stepper", "run", "solve", "refit"])
def test_a_start_outside_of_its_set_is_moved_to_the_nearest_point_before_anything_else(begin: str) -> None:
    """Losses with a logarithm are never evaluated where it is none."""
    seen: list[float] = []

    def f(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        seen.extend([*v.detach().tolist(), *theta.detach().tolist()])
        return (v.log() - 0.5).square().sum() + (theta - 1).square().sum()

    def g(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        seen.extend([*v.detach().tolist(), *theta.detach().tolist()])
        return (theta.log() - v.log()).square().sum()

    v, theta = torch.tensor([-1.0, 1.0]), torch.tensor([-3.0, 9.0])
    p = Problem(f, g, v, theta, project_v=box(0.5, 4), project_theta=box(0.25, 5))
    if begin == "solve":
        solve(p, budget=400)
    elif begin == "refit":
        refit(p, GradientDescent(0.05, 5))
    elif begin == "run":
        run(p, bome(), outer_opt=SGD([v], 1e-9), inner_opt=SGD([theta], 1e-9), stop=MaxSteps(1))
    else:
        Stepper(p, bome(), SGD([v], 1e-9), SGD([theta], 1e-9)).step()
    assert seen[:4] == [0.5, 1, 0.25, 5]
    assert min(seen) >= 0.25


def test_a_start_inside_of_its_set_stays_as_it_is_bit_for_bit() -> None:
    """A projection on the simplex would move it by rounding."""
    theta = torch.tensor([0.1, 0.2, 0.3, 0.4]) / torch.tensor([0.1, 0.2, 0.3, 0.4]).sum()
    start = theta.clone()
    problem(theta=theta, v=torch.ones(4), project_theta=simplex()).enter_sets()
    assert torch.equal(theta, start)


def test_batches_whose_order_could_be_mistaken_are_given_by_name() -> None:
    stepper = Stepper(p := problem(), bome(), SGD(p.v.leaves, 0.1))
    calls: list[Callable[[], object]] = [
        lambda: Batches((1,), (2,)),  # type: ignore[call-arg]
        lambda: Data(Constant(1), Constant(2)),  # type: ignore[call-arg]
        lambda: Data().draw(1, 1),  # type: ignore[call-arg]
        lambda: stepper.step(ONE, ONE),  # type: ignore[call-arg]
    ]
    for call in calls:
        with pytest.raises(TypeError, match="positional argument"):
            call()


def test_without_data_every_batch_is_none() -> None:
    assert Data().draw(inner=1, outer=2) == Batches(inner=(None,), outer=(None, None))
    assert Constant(3).next() == 3
