"""Any inner solver: closed forms, SciPy and scikit-learn in the place of inner steps; and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, Ridge
from torch import Tensor, nn
from torch.nn.functional import mse_loss, softplus
from torch.optim import SGD, Adam

import bome
from bome import BOME, Batches, GradientDescent, MicroBatches, PerSample, Problem, Solver, Stepper, TorchOptim, Tuner
from bome.errors import NonFiniteError, ProblemError, UnsupportedError
from bome.methods import (
    AIDCG,
    AIDFP,
    BSG1,
    BVFSM,
    DARTS,
    F2SA,
    ITD,
    PBGD,
    SAMA,
    VRBO,
    Method,
    Penalty,
    Reverse,
    StocBiO,
)
from bome.methods.alternating import Alternating
from bome.oracles import BackwardOracle, Oracle, OracleName
from bome.tasks.quadratic import quadratic, quadratic_instance
from tests.support.samples import mlp

ON = Batches(inner=(None,), outer=(None,))
A = quadratic_instance().A


def exact(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
    """θ*(v) of the quadratic."""
    return A @ v


def stepper_of(method: Method, problem: Problem, oracle: OracleName = "auto", lr: float = 0.1) -> Stepper:
    return Stepper(problem, method, SGD(problem.v.leaves, lr), SGD(problem.theta.leaves, lr), oracle)


@pytest.mark.parametrize("oracle", ["autograd", "backward"])
@pytest.mark.parametrize("omega", ["restart", "warm"])
def test_first_order_methods_step_as_their_formula_says_with_the_exact_solution(oracle: OracleName, omega: Any) -> None:
    """∇q = (g_v(v, θ) − g_v(v, θ*), g_θ) with θ* = Av, where g_v vanishes: δ = ∇f + γ∇q for pbgd, λ∇q for bome."""
    a, problem = quadratic_instance(), quadratic(start="b").problem
    (v,), (theta,) = (tuple(x.clone() for x in leaves) for leaves in problem.point)
    r = theta - a.A @ v
    dq_v, dq_theta = -a.A.T @ a.H @ r, a.H @ r
    stepper = stepper_of(PBGD(Solver(exact), gamma=3.0, omega=omega), problem, oracle)
    info = stepper.step_on(ON)
    torch.testing.assert_close(problem.point.v[0], v - 0.1 * (v - a.b + 3 * dq_v))
    torch.testing.assert_close(problem.point.theta[0], theta - 0.1 * (theta - a.a + 3 * dq_theta))
    assert float(info.q or 0) == pytest.approx(float(0.5 * r @ a.H @ r))
    assert stepper.counts == {"g": 2, "f": 1, "solves": 1}


@pytest.mark.parametrize("oracle", ["autograd", "backward"])
def test_bome_ends_at_the_solution_and_not_where_few_inner_steps_would_end(oracle: OracleName) -> None:
    """Steps that shrink like 1/√k; with T = 10 inner steps the end is another."""
    best, _ = quadratic_instance().solution()
    biased, _ = quadratic_instance().fixed_point(10, 0.2)
    problem = quadratic().problem
    stepper = stepper_of(BOME(Solver(exact)), problem, oracle, lr=0.2)
    for k in range(400):
        for optimiser in (stepper.outer_opt, stepper.inner_opt):
            optimiser.param_groups[0]["lr"] = 0.2 / (1 + k) ** 0.5
        stepper.step_on(ON)
    distance = float((problem.point.v[0] - best).norm())
    assert distance < 0.2 * float((biased - best).norm())


@pytest.mark.parametrize("method", [AIDCG(Solver(exact)), StocBiO(Solver(exact), Q=200, neumann_lr=0.3, draw="one")])
def test_implicit_methods_have_the_exact_hypergradient_at_once(method: Method) -> None:
    """H⁻¹ to 1e-10 by four steps of conjugate gradients, or by a long Neumann series; no optimiser of θ is needed."""
    a, problem = quadratic_instance(), quadratic(start="b").problem
    v = problem.point.v[0].clone()
    stepper = Stepper(problem, method, SGD(problem.v.leaves, 0.1))
    stepper.step_on(Batches(inner=(None,) * method.inner_batches, outer=(None,)))
    torch.testing.assert_close(problem.point.v[0], v - 0.1 * a.exact_hypergradient(v), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(problem.point.theta[0], a.A @ v)
    assert stepper.counts["solves"] == 1


@pytest.mark.parametrize("kind", [Alternating, BSG1, DARTS])
def test_methods_that_only_want_the_end_of_the_inner_problem_take_a_solver(kind: Callable[..., Method]) -> None:
    method, problem = kind(Solver(exact)), quadratic(start="b").problem
    v = problem.point.v[0].clone()
    stepper = Stepper(problem, method, SGD(problem.v.leaves, 0.1))
    stepper.step_on(Batches(inner=(None,) * method.inner_batches, outer=(None,)))
    torch.testing.assert_close(problem.point.theta[0], quadratic_instance().A @ v)
    assert not torch.equal(problem.point.v[0], v)


@pytest.mark.parametrize("kind", [AIDFP, BVFSM, F2SA, ITD, Penalty, Reverse, SAMA, VRBO])
def test_methods_that_take_single_inner_steps_refuse_it_in_one_line(kind: Callable[..., Method]) -> None:
    with pytest.raises(ProblemError, match="takes single inner steps, which a Solver does not have: use bome") as e:
        kind(Solver(exact))
    assert "\n" not in str(e.value)


def test_oracles_that_trace_losses_refuse_it() -> None:
    with pytest.raises(UnsupportedError, match="FuncOracle needs a pure inner map, not Solver"):
        stepper_of(BOME(Solver(exact)), quadratic().problem, "func")


def test_ranks_refuse_it() -> None:
    """Every rank would solve on its own batch."""
    oracle: Oracle = BackwardOracle(quadratic().problem)
    oracle.ranks = object()  # type: ignore[assignment]
    for inner in (Solver(exact), TorchOptim(lambda p: torch.optim.LBFGS(p), 1)):
        with pytest.raises(UnsupportedError, match="would end at another θ on every rank"):
            oracle.check_inner(inner)
    oracle.check_inner(GradientDescent(0.1))


def test_a_tuner_finds_no_number_of_steps_in_it() -> None:
    problem = quadratic(start="b").problem
    tuner, stepper = Tuner(), stepper_of(BOME(Solver(exact)), problem)
    tuner.attach(stepper)
    for _ in range(25):
        tuner.after(stepper, stepper.step_on(ON))
    assert tuner.picked()["inner_steps"] == 1
    assert tuner.picked()["outer_scale"] != 1


def test_a_run_counts_solves_and_certifies_by_the_solver() -> None:
    problem = quadratic().problem
    result = bome.run(problem, AIDCG(Solver(exact)), outer_opt=SGD(problem.v.leaves, 0.1), stop=bome.MaxSteps(150))
    best, _ = quadratic_instance().solution()
    torch.testing.assert_close(problem.point.v[0], best, rtol=1e-6, atol=1e-6)
    assert result.evaluations["solves"] == 150
    assert result.q == pytest.approx(0, abs=1e-10)


FORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "tensors": lambda v, theta, batch: {"w": [2 * v, v + 1], "b": v.sum()},
    "arrays": lambda v, theta, batch: {"w": [2 * v.numpy(), v.numpy() + 1], "b": float(v.sum())},
    "in place": lambda v, theta, batch: {
        "w": [theta["w"][0].copy_(2 * v), v.add_(1)],
        "b": theta["b"].copy_(v.sum() - 2),
    },
}


@pytest.mark.parametrize("name", FORMS)
def test_the_answer_has_the_form_of_theta(name: str) -> None:
    theta = {"w": [torch.zeros(2, dtype=torch.float32), torch.zeros(2)], "b": torch.zeros(())}
    v = torch.tensor([1.0, 2.0])
    problem = Problem(lambda *_: v.sum(), lambda *_: v.sum(), v, theta)
    found = Solver(FORMS[name]).solve(problem, *problem.point, None)
    assert [x.tolist() for x in found] == [[2, 4], [2, 3], 3]
    assert [x.dtype for x in found] == [x.dtype for x in problem.theta.leaves]
    assert v.tolist() == [1, 2]
    assert all(float(x.sum()) == 0 for x in problem.theta.leaves)


def fitted(v: Tensor, net: Any, batch: Any) -> Any:
    """Trains the module in place, as one does, and leaves everything as training leaves it."""
    net.train()
    optimiser = Adam(net.parameters(), 0.05)
    for _ in range(20):
        optimiser.zero_grad()
        mse_loss(net(batch), v.expand(len(batch), 3)).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return net


@pytest.mark.parametrize("oracle", ["autograd", "backward"])
def test_a_module_is_trained_in_place_and_given_back_as_it_was(oracle: OracleName) -> None:
    """Parameters, running statistics, `.grad` and modes; the answer is that of a training by hand."""
    net = nn.Sequential(mlp(), nn.BatchNorm1d(3)).double().eval()
    for part in net.parameters():
        part.grad = torch.ones_like(part)
    x, v = torch.randn(8, 4, dtype=torch.float64), torch.ones(3, dtype=torch.float64)
    problem = Problem(
        lambda v, net, batch: mse_loss(net(batch), v.expand(len(batch), 3)),
        lambda v, net, batch: mse_loss(net(batch), v.expand(len(batch), 3)),
        v,
        net,
    )
    other = nn.Sequential(mlp(seed=1), nn.BatchNorm1d(3)).double()
    other.load_state_dict(net.state_dict())
    by_hand = [p.detach() for p in fitted(v, other, x).parameters()]
    before = {name: value.clone() for name, value in net.state_dict().items()}
    for solver in (Solver(fitted), Solver(lambda v, net, batch: fitted(v, net, batch).state_dict())):
        found = solver.solve(problem, *problem.point, x)
        assert all(torch.equal(p, q) for p, q in zip(found, by_hand, strict=True))
        assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
        assert not any(part.training for part in net.modules())
        assert all(bool((part.grad == 1).all()) for part in net.parameters() if part.grad is not None)
    stepper = Stepper(problem, BSG1(Solver(fitted)), SGD([v], 0.0), oracle=oracle)
    stepper.step_on(Batches(inner=(x, x), outer=(x,)))
    for p, q in zip(net.parameters(), by_hand, strict=True):
        torch.testing.assert_close(p.detach(), q)


def test_a_table_of_rows_is_seen_as_the_losses_see_it() -> None:
    """The rows of the inner batch, in its order: θ* = Σ of them."""
    seen: list[list[float]] = []

    def total(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        seen.append(v.tolist())
        return v.sum()

    table = PerSample(5, dtype=torch.float64)
    table.values.copy_(torch.arange(5.0))
    problem = Problem(
        lambda v, theta, batch: theta.square(),
        lambda v, theta, batch: (theta - v.sum()).square(),
        table,
        torch.zeros((), dtype=torch.float64),
    )
    stepper = Stepper(problem, BOME(Solver(total)), SGD([table.values], 0.1), SGD(problem.theta.leaves, 0.1))
    stepper.step_on(Batches(inner=((torch.tensor([3, 1, 3]),),), outer=(None,)))
    assert seen == [[3, 1, 3]]


class Odd:
    """No number."""


BAD: dict[str, tuple[Callable[[Any, Any, Any], Any], str]] = {
    "nothing": (lambda v, theta, batch: None, "returned nothing: end it with a return of θ"),
    "shape": (lambda v, theta, batch: torch.ones(3), r"theta with shape \(4,\), got \(3,\): use .reshape"),
    "kind": (lambda v, theta, batch: Odd(), "must return numbers for theta, got Odd"),
    "dict": (lambda v, theta, batch: {"w": theta}, "must return numbers for theta, got dict"),
    "raising": (lambda v, theta, batch: 1 / 0, "raised ZeroDivisionError: division by zero$"),
    "silent": (lambda v, theta, batch: next(iter(())), "raised StopIteration: no message$"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_goes_wrong_is_one_line_and_changes_nothing(name: str) -> None:
    fn, message = BAD[name]
    problem = quadratic(start="b").problem
    before = [x.clone() for x in (*problem.point.v, *problem.point.theta)]
    stepper = stepper_of(BOME(Solver(fn)), problem)
    with pytest.raises(ProblemError, match=message) as error:
        stepper.step_on(ON)
    assert "\n" not in str(error.value)
    assert all(torch.equal(x, y) for x, y in zip(before, (*problem.point.v, *problem.point.theta), strict=True))


def test_nan_is_named_with_its_step() -> None:
    calls: list[int] = []

    def late(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        calls.append(1)
        return exact(v, theta, batch) if len(calls) < 3 else torch.full((4,), torch.nan)

    for method in (BOME(Solver(late)), AIDCG(Solver(late))):
        calls.clear()
        stepper = stepper_of(method, quadratic(start="b").problem)
        stepper.step_on(ON)
        stepper.step_on(ON)
        with pytest.raises(NonFiniteError, match=r"^step 2: theta of the inner solver is not finite; look at") as error:
            stepper.step_on(ON)
        assert error.value.step == 2


def test_lists_and_dicts_of_another_form_are_refused() -> None:
    def refused(theta: Any, answer: Any, message: str) -> None:
        problem = Problem(lambda *_: torch.ones(()), lambda *_: torch.ones(()), torch.ones(1), theta)
        with pytest.raises(ProblemError, match=message):
            Solver(lambda v, theta, batch: answer).solve(problem, *problem.point, None)

    refused([torch.ones(1)], [1, 2], "must return theta as a list of 1 entries, got 2 entries")
    refused([torch.ones(1)], torch.ones(1), "as a list of 1 entries, got Tensor")
    refused({"w": torch.ones(1)}, {"b": 1.0}, r"as a dict with the keys \['w'\], got the keys \['b'\]")
    refused({"w": [torch.ones(2)]}, {"w": [1.0]}, r"theta\['w'\]\[0\] with shape \(2,\), got \(\)")
    refused(nn.Linear(1, 1), nn.Linear(1, 1), "returned another module: train the one it is given")
    refused(nn.Linear(1, 1), {"weight": [[1.0]]}, r"with the keys \['bias', 'weight'\], got the keys \['weight'\]")


def test_what_is_no_function_of_three_arguments_is_refused_at_once() -> None:
    with pytest.raises(ProblemError, match=r"fn of Solver must take three arguments .*, but it takes \(v, theta\)"):
        Solver(lambda v, theta: theta)  # type: ignore[misc, arg-type]
    with pytest.raises(ProblemError, match=r"fn of Solver must be a function \(v, theta, batch\) -> θ, got int"):
        Solver(3)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="takes an inner batch as a whole, not MicroBatches"):
        Solver(exact).solve(quadratic().problem, (), (), MicroBatches([1, 2]))


def test_an_answer_is_projected_within_its_tolerance_and_refused_beyond() -> None:
    problem = Problem(
        lambda v, theta, batch: theta.sum(),
        lambda v, theta, batch: (theta - v).square().sum(),
        torch.ones(2),
        torch.ones(2),
        project_theta=bome.box(0, 1),
    )
    (inside,) = Solver(lambda v, theta, batch: v + 1e-6).solve(problem, *problem.point, None)
    assert inside.tolist() == [1, 1]
    with pytest.raises(
        ProblemError, match=r"returned theta 1.0e\+00 outside of its set: let it minimise g over the set"
    ):
        Solver(lambda v, theta, batch: v + 1).solve(problem, *problem.point, None)


def penalties(seed: int) -> tuple[Problem, Solver, Callable[[Tensor], float]]:
    """Twenty penalties of a logistic regression on 40 rows, judged on 200: the problem, SciPy for θ, and F."""
    generator = np.random.default_rng(seed)
    w = np.r_[np.ones(3), np.zeros(17)]
    x, x_val = generator.normal(size=(40, 20)), generator.normal(size=(200, 20))
    y, y_val = np.sign(x @ w + 0.5 * generator.normal(size=40)), np.sign(x_val @ w)
    data = [torch.from_numpy(a) for a in (x, y, x_val, y_val)]

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return softplus(-data[1] * (data[0] @ theta)).mean() + v.exp() @ theta.square()

    def outer(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return softplus(-data[3] * (data[2] @ theta)).mean()

    def scipy(v: Tensor, theta: Tensor, batch: Any) -> Any:
        p = np.exp(v.numpy())

        def g(t: Any) -> tuple[float, Any]:
            m = y * (x @ t)
            slope = -y / (1 + np.exp(m)) / len(y)
            return float(np.logaddexp(0, -m).mean() + p @ t**2), x.T @ slope + 2 * p * t

        return minimize(g, theta.numpy(), jac=True, method="L-BFGS-B", options={"gtol": 1e-10, "ftol": 1e-15}).x

    problem = Problem(
        outer,
        inner,
        torch.full((20,), -3.0, dtype=torch.float64),
        torch.zeros(20, dtype=torch.float64),
        project_v=bome.box(-8, 1),
    )
    return problem, Solver(scipy), lambda v: float(outer(v, torch.from_numpy(scipy(v, torch.zeros(20), None)), None))


def test_twenty_penalties_with_scipy_inside() -> None:
    """aid-cg follows dF/dv, here by finite differences of F itself; in 30 steps F falls to less than half."""
    problem, solver, F = penalties(0)  # noqa: N806
    v = problem.v.leaves[0]
    before, e = F(v), torch.eye(20, dtype=torch.float64)
    slope = torch.tensor([(F(v + 1e-2 * e[i]) - F(v - 1e-2 * e[i])) / 2e-2 for i in (0, 5)], dtype=torch.float64)
    optimiser = SGD([v], 0.5)
    stepper = Stepper(problem, AIDCG(solver, K=40), optimiser)
    stepper.step_on(ON)
    torch.testing.assert_close((-3 - v[[0, 5]]) / 0.5, slope, rtol=0.03, atol=0)
    optimiser.param_groups[0]["lr"] = 20.0
    for _ in range(30):
        stepper.step_on(ON)
    assert F(v) < 0.5 * before
    assert v[3:].mean() > v[:3].mean()


def test_ridge_of_scikit_learn_inside() -> None:
    """θ = (XᵀX + vI)⁻¹Xᵀy: bome reaches the best penalty, which a grid finds."""
    generator = torch.Generator().manual_seed(0)
    x, x_val = (torch.randn(n, 6, generator=generator, dtype=torch.float64) for n in (12, 40))
    w = torch.tensor([1.0, -1.0, 0.5, 0, 0, 0], dtype=torch.float64)
    y, y_val = x @ w + 2 * torch.randn(12, generator=generator, dtype=torch.float64), x_val @ w

    def ridge(v: Tensor, theta: Tensor, batch: Any) -> Any:
        return Ridge(alpha=float(v.exp()), fit_intercept=False).fit(x.numpy(), y.numpy()).coef_

    def F(v: Tensor) -> Tensor:  # noqa: N802
        theta = torch.linalg.solve(x.T @ x + v.exp() * torch.eye(6, dtype=v.dtype), x.T @ y)
        loss: Tensor = (x_val @ theta - y_val).square().mean()
        return loss

    problem = Problem(
        lambda v, theta, batch: (x_val @ theta - y_val).square().mean(),
        lambda v, theta, batch: ((x @ theta - y).square().sum() + v.exp() * theta.square().sum()) / 12,
        torch.tensor(0.0, dtype=torch.float64),
        torch.zeros(6, dtype=torch.float64),
    )
    bome.run(problem, AIDCG(Solver(ridge)), outer_opt=SGD(problem.v.leaves, 0.5), stop=bome.MaxSteps(40))
    grid = torch.linspace(-4, 6, 501, dtype=torch.float64)
    best = float(min(map(F, grid)))
    assert float(F(problem.v.leaves[0])) == pytest.approx(best, rel=1e-3)
    assert float(F(torch.tensor(0.0, dtype=torch.float64))) > 5 * best


def test_logistic_regression_of_scikit_learn_inside_for_the_weights_of_rows() -> None:
    """pbgd learns which of 40 labels are wrong; the estimator is a black box with `sample_weight`."""
    generator = np.random.default_rng(0)
    x, x_val = generator.normal(size=(80, 3)), generator.normal(size=(40, 3))
    right, y_val = (x[:, 0] > 0).astype(int), (x_val[:, 0] > 0).astype(int)
    y = np.where(np.arange(80) < 32, 1 - right, right)
    X, T, X_val, T_val = (torch.from_numpy(a).double() for a in (x, 2 * y - 1, x_val, 2 * y_val - 1))  # noqa: N806

    def inner(v: Tensor, theta: Tensor, batch: Any) -> Tensor:
        return (v * softplus(-T * (X @ theta))).sum() / 80 + theta.square().sum() / 160

    def sklearn(v: Tensor, theta: Tensor, batch: Any) -> Any:
        model = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-8).fit(x, y, sample_weight=v.numpy())
        return model.coef_[0]  # minimises Σ v loss + ½‖θ‖², which is 80 g

    problem = Problem(
        lambda v, theta, batch: softplus(-T_val * (X_val @ theta)).mean(),
        inner,
        torch.full((80,), 0.5, dtype=torch.float64),
        torch.zeros(3, dtype=torch.float64),
        project_v=bome.box(0, 1),
    )
    (theta,) = Solver(sklearn).solve(problem, *problem.point, None)
    slope = torch.func.grad(inner, argnums=1)(problem.point.v[0], theta, None)
    assert float(slope.norm()) < 1e-5  # it solves this very problem
    method = PBGD(Solver(sklearn), gamma=10.0)
    optimisers = SGD(problem.v.leaves, 20.0), SGD(problem.theta.leaves, 0.2)
    bome.run(problem, method, outer_opt=optimisers[0], inner_opt=optimisers[1], stop=bome.MaxSteps(60))
    v = problem.point.v[0]
    assert float(v[:32].mean()) < 0.5 * float(v[32:].mean())
