"""Strategies of continual learning against literal transcriptions, hand-traced memories and solvers of others."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from torch import Tensor
from torch.nn import BatchNorm2d
from torch.nn.functional import cross_entropy, log_softmax, softmax

from bome.continual.memory import Reservoir, Ring
from bome.continual.metrics import metrics
from bome.continual.networks import Mlp, ReducedResNet
from bome.continual.run import Spec, _Run, carry_out_part
from bome.continual.settings import Settings
from bome.continual.strategies import Contextual, Given, Strategy, bounded_quadratic, make_strategy, projected
from bome.continual.streams import STREAMS, Stream, scaled
from tests.support.small_streams import BRIGHT, coloured_stream, small_stream

ALL = ("offline", "er", "gem", "mer", "ctn+itd", "ctn+itd:total", "ctn+bvfsm", "ctn+penalty", "ctn+pbgd", "ctn+bome")


def contextual(name: str, stream: Stream, **choices: Any) -> Contextual:
    made = make_strategy(name, stream, Settings(**choices))
    assert isinstance(made, Contextual)
    return made


def batches(strategy: Strategy, stages: int) -> Iterator[tuple[int, int, Given]]:
    """Stage, number and batch of the first stages."""
    for stage, each in enumerate(strategy.stages()[:stages]):
        for number, given in enumerate(each):
            yield stage, number, given


# --- metrics ----------------------------------------------------------------------------------------------------------


def test_the_metrics_of_a_matrix_made_by_hand() -> None:
    """ACC = (70 + 75 + 95)/3, FT = (90 + 85 + 95)/3, FM = ((90 − 70) + (88 − 75))/2, as task 2 was best before."""
    nan = float("nan")
    found = metrics([[90.0, nan, nan], [80.0, 85.0, nan], [70.0, 75.0, 95.0]])
    assert found == pytest.approx({"acc": 80.0, "ft": 90.0, "nbt": 10.0, "fm": 15.0})
    longer = [[90.0, nan, nan, nan], [95.0, 85.0, nan, nan], [80.0, 88.0, 95.0, nan], [70.0, 80.0, 90.0, 60.0]]
    assert metrics(longer)["fm"] == pytest.approx(((95 - 70) + (88 - 80) + (95 - 90)) / 3)


def test_of_learning_all_at_once_only_the_last_accuracy_is_known() -> None:
    found = metrics([[70.0, 80.0]])
    assert found["acc"] == 75.0
    assert all(np.isnan(found[name]) for name in ("ft", "nbt", "fm"))


# --- memories ---------------------------------------------------------------------------------------------------------


def test_the_memories_of_the_contextual_network_follow_a_sequence_traced_by_hand() -> None:
    """Two semantic and five episodic slots, batches of three; S and E are the memories, D is what is trained on.

    0 1 2:    S = 0 0 (the first fills all), D = 1 2,       E = 1 2 1 1 1 (the first fills all)
    3 4 5:    S = 0 3,                       D = 4 5 0,     E = 1 2 4 5 0
    6 7 8:    S = 6 3,                       D = 7 8 3,     E = 7 8 3 5 0
    9 10 11:  S = 6 9,                       D = 10 11 6,   E = 7 8 3 10 11 (the ring ends: 6 is not kept)
    """
    strategy = contextual("ctn+bome", small_stream(), memory=7, semantic=0.3)
    expected = [
        ([1, 2], [0, 0], [1, 2, 1, 1, 1]),
        ([4, 5, 0], [0, 3], [1, 2, 4, 5, 0]),
        ([7, 8, 3], [6, 3], [7, 8, 3, 5, 0]),
        ([10, 11, 6], [6, 9], [7, 8, 3, 10, 11]),
    ]
    for number, (trained, semantic, episodic) in enumerate(expected):
        rows = strategy.remember(0, torch.arange(3 * number, 3 * number + 3))
        assert rows.tolist() == trained
        assert strategy.semantic.rows[0].tolist() == semantic
        assert strategy.episodic.rows[0].tolist() == episodic
    assert strategy.remember(1, torch.tensor([20, 21, 22])).tolist() == [21, 22]  # a new task begins anew
    assert strategy.semantic.rows[:2].tolist() == [[6, 9], [20, 20]]


def test_a_ring_draws_each_slot_of_the_first_tasks_at_most_once() -> None:
    ring = Ring(4, 3)
    task, slot = ring.draw(2, 6, torch.Generator().manual_seed(0))
    assert sorted(zip(task.tolist(), slot.tolist(), strict=True)) == [(t, s) for t in range(2) for s in range(3)]
    task, slot = ring.draw(2, 4, torch.Generator().manual_seed(0))
    assert len(set(zip(task.tolist(), slot.tolist(), strict=True))) == 4


def test_a_reservoir_keeps_every_sample_with_the_same_probability() -> None:
    hits = torch.zeros(20)
    for seed in range(600):
        reservoir, generator = Reservoir(5), torch.Generator().manual_seed(seed)
        reservoir.write(0, torch.arange(20), generator)
        hits[reservoir.pairs[:, 1]] += 1
    share = hits / 600  # 1/4 each; a standard deviation is 0.018
    assert float((share - 0.25).abs().max()) < 0.075
    assert len(Reservoir(5)) == 0


# --- gem --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_the_quadratic_problem_of_gem_is_solved_as_by_another_solver(seed: int) -> None:
    draw = np.random.default_rng(seed)
    t, margin = int(draw.integers(1, 8)), float(draw.choice([0.0, 0.5]))
    rows, g = draw.normal(size=(t, 12)), draw.normal(size=12)
    gram, products = rows @ rows.T, rows @ g
    p = gram + 1e-3 * np.eye(t)

    def objective(u: Any) -> float:
        return float(u @ p @ u / 2 + products @ u)

    start = np.full(t, margin + 0.1)
    other = scipy.optimize.minimize(
        objective, start, jac=lambda u: p @ u + products, method="SLSQP", bounds=[(margin, None)] * t,
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    found = bounded_quadratic(gram, products, margin)
    assert (found >= margin).all()
    assert objective(found) <= objective(other.x) + 1e-9
    np.testing.assert_allclose(found, other.x, atol=2e-4)


def test_the_projected_gradient_conflicts_with_no_earlier_one_and_is_left_alone_without_conflict() -> None:
    draw = torch.Generator().manual_seed(0)
    earlier, g = torch.randn(4, 30, generator=draw), torch.randn(30, generator=draw)
    assert (earlier @ g < 0).any()
    assert float((earlier @ projected(g, earlier, 0.0)).min()) > -1e-2  # up to the 10⁻³ on the diagonal
    agreeing = earlier * torch.sign(earlier @ g)[:, None]
    assert projected(g, agreeing, 0.5) is g


def test_gem_copes_with_gradients_that_are_all_but_parallel() -> None:
    """In single precision their Gram matrix has negative eigenvalues; the answer is that of the definition."""
    draw = torch.Generator().manual_seed(0)
    common = torch.randn(50_000, generator=draw)
    earlier = 100 * (common + 1e-4 * torch.randn(6, 50_000, generator=draw))
    g = -common + 0.1 * torch.randn(50_000, generator=draw)
    assert float(torch.linalg.eigvalsh(earlier @ earlier.T).min()) < -1e-3
    exact = earlier.double()
    p, q = exact @ exact.T + 1e-3 * torch.eye(6), exact @ g.double()
    u = torch.from_numpy(bounded_quadratic((exact @ exact.T).numpy(), q.numpy(), 0.0))
    slope = p @ u + q  # KKT: none where u is free, upwards where it is at its bound
    size, free = float(p.diagonal().max()), u > 0
    assert free.any()
    assert not free.all()
    assert float(slope[free].abs().max()) < 1e-9 * size
    assert float(slope[~free].min()) > -1e-9 * size
    torch.testing.assert_close(projected(g, earlier, 0.0), g + u.float() @ earlier)


def test_gem_leaves_gradients_alone_that_are_not_finite() -> None:
    """The network that they spoil is found at the end of the task."""
    earlier, g = torch.ones(2, 3), torch.tensor([-1.0, float("nan"), 0.0])
    assert projected(g, earlier, 0.5) is g
    assert projected(-torch.ones(3), earlier * torch.tensor([[1.0], [float("inf")]]), 0.5).equal(-torch.ones(3))


# --- transcriptions ---------------------------------------------------------------------------------------------------


def of_pairs(stream: Stream, pairs: list[tuple[int, int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Images in double precision, classes and tasks of training samples, read from the stream one by one."""
    x = (torch.stack([stream.train[t, r] for t, r in pairs]).float() / 255).double()
    y = torch.tensor([int(stream.train_labels[t, r]) for t, r in pairs])
    return (x.permute(0, 3, 1, 2) if x.dim() == 4 else x), y, torch.tensor([t for t, _ in pairs])


def masked(scores: Tensor, task: Tensor) -> Tensor:
    """Scores of a head of three classes for each task, with −∞ for those of other tasks."""
    own = torch.arange(scores.shape[1]) // 3 == task[:, None]
    return torch.where(own, scores, -1e11)


def in_double_precision(strategy: Strategy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bome.continual.streams.scaled", lambda pixels: scaled(pixels).double())
    strategy.base.double()
    strategy.controller.double()


@pytest.mark.parametrize("name", ["er", "gem"])
def test_replay_and_projection_by_hand_with_a_head_for_each_task(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two updates for each batch of seven, rings of nine slots, which a task fills more than once."""
    stream = small_stream(shared=False)
    strategy = make_strategy(name, stream, Settings(batch=7, theta_lr=0.1, inner_steps=2, memory=9))
    in_double_precision(strategy, monkeypatch)
    net = stream.networks(modulated=False).base.double()
    parameters = list(net.parameters())
    generator, turned = torch.Generator().manual_seed(stream.seed), 0
    memory: dict[int, list[int]] = {}

    def loss(pairs: list[tuple[int, int]]) -> Tensor:
        x, y, task = of_pairs(stream, pairs)
        return cross_entropy(masked(net(x), task), 3 * task + y)

    def gradient(value: Tensor) -> Tensor:
        return torch.cat([x.flatten() for x in torch.autograd.grad(value, parameters)])

    for task, number, given in batches(strategy, 3):
        strategy.observe(given)
        rows = given.row.tolist()
        slots = memory.setdefault(task, [rows[0]] * 9)
        start = 7 * number % 14 if number % 2 else 0  # 0–6, then 7–8 and the rest is lost, then 0–6 again
        slots[start : min(start + len(rows), 9)] = rows[: 9 - start]
        fresh = [(task, row) for row in rows]
        for _ in range(2):
            if name == "er":
                value = loss(fresh)
                if task:
                    chosen = torch.randperm(9 * task, generator=generator)[:9].tolist()
                    value = value + loss([(place // 9, memory[place // 9][place % 9]) for place in chosen])
                step = gradient(value)
            else:
                step = gradient(loss(fresh))
                earlier = [gradient(loss([(t, row) for row in memory[t]])) for t in range(task)]
                if earlier and (torch.stack(earlier) @ step < 0).any():
                    step, turned = nearest(step, torch.stack(earlier)), turned + 1
            with torch.no_grad():
                for p, part in zip(parameters, torch.split(step, [p.numel() for p in parameters]), strict=True):
                    p.sub_(0.1 * part.view_as(p))
    assert turned or name == "er"
    for p, q in zip(strategy.base.parameters(), parameters, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-7)


def nearest(g: Tensor, earlier: Tensor) -> Tensor:
    """g + Gᵀu with the u ≥ 1/2 of gem, by a quasi-Newton method with bounds."""
    gram, q = (earlier @ earlier.T).numpy() + 1e-3 * np.eye(len(earlier)), (earlier @ g).numpy()
    found = scipy.optimize.minimize(
        lambda u: (u @ gram @ u / 2 + q @ u, gram @ u + q), np.ones(len(q)), jac=True, method="L-BFGS-B",
        bounds=[(0.5, None)] * len(q), options={"ftol": 1e-16, "gtol": 1e-12},
    )  # fmt: skip
    return g + torch.from_numpy(found.x) @ earlier


def test_bome_on_the_contextual_resnet_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Algorithm 1 with T = 2, BatchNorm, heads, both memories, soft targets, δ_v halved and clipped.

    Rounding is amplified from batch to batch, so the twin goes on from the parameters it was compared with.
    """
    stream = coloured_stream(size=16)
    lr, beta, eta, limit = 0.05, 0.5, 2.0, 0.003
    choices = Settings(batch=5, theta_lr=lr, outer_lr=beta, eta=eta, memory=10, semantic=0.2, clip=limit)
    strategy = make_strategy("ctn+bome", stream, choices)
    assert isinstance(strategy, Contextual)
    in_double_precision(strategy, monkeypatch)
    net, controller = (module.double() for module in stream.networks(modulated=True))
    of_v, of_theta = list(controller.parameters()), list(net.parameters())
    live = [*strategy.controller.parameters(), *strategy.base.parameters()]
    generator, clipped = torch.Generator().manual_seed(stream.seed), 0
    semantic: dict[int, list[int]] = {}
    episodic: dict[int, list[int]] = {}
    soft: dict[tuple[int, int], Tensor] = {}

    def scores(pairs: list[tuple[int, int]]) -> tuple[Tensor, Tensor, Tensor]:
        x, y, task = of_pairs(stream, pairs)
        embedding, weight, bias = of_v
        film = embedding[task] @ weight.T + bias
        gamma, beta = (part / part.norm(dim=1, keepdim=True).detach() for part in (film[:, :160], film[:, 160:]))
        return masked(net(x, [(gamma, beta)]), task), 3 * task + y, task

    for task, number, given in batches(strategy, 2):
        rows = given.row.tolist()
        if number:  # 5 of 8 slots, then 3 and the rest is lost
            trained = [*rows[1:], rows[0] - 5]
            semantic[task][number % 2] = rows[0]
            episodic[task][4:] = trained[:4] if number == 1 else episodic[task][4:]
            if number == 2:
                episodic[task][:5] = trained
        else:
            trained = rows[1:]
            semantic[task], episodic[task] = [rows[0]] * 2, [*trained, *([trained[0]] * 4)]
        strategy.observe(given)
        assert strategy.semantic.rows[task].tolist() == semantic[task]
        assert strategy.episodic.rows[task].tolist() == episodic[task]
        for _ in range(2):
            places = torch.randperm(8 * task, generator=generator)[:8].tolist() if task else []
            chosen, n = [(place // 8, place % 8) for place in places], len(trained)

            def g(chosen: Any = chosen, n: int = n, trained: Any = trained, task: int = task) -> Tensor:
                pairs = [(task, row) for row in trained] + [(t, episodic[t][slot]) for t, slot in chosen]
                z, y, of = scores(pairs)
                value = cross_entropy(z[:n], y[:n])
                if chosen:
                    own = torch.stack([row[3 * int(t) : 3 * int(t) + 3] for row, t in zip(z, of, strict=True)])[n:]
                    target = torch.stack([soft[each] for each in chosen])
                    kl = (target * (target.log() - log_softmax(own / 5, 1))).mean()
                    value = value + cross_entropy(z[n:], y[n:]) + 100 * kl
                return value

            z, y, _ = scores([(t, row) for t in range(task + 1) for row in semantic[t]])
            df = torch.autograd.grad(cross_entropy(z, y), of_v + of_theta)
            dg = torch.autograd.grad(g(), of_v + of_theta)
            start = [p.detach().clone() for p in of_theta]
            for _ in range(2):
                descend(of_theta, torch.autograd.grad(g(), of_theta), lr)
            ahead = torch.autograd.grad(g(), of_v)
            with torch.no_grad():
                for p, value in zip(of_theta, start, strict=True):
                    p.copy_(value)
            m = len(of_v)
            dq = [*(a - b for a, b in zip(dg[:m], ahead, strict=True)), *dg[m:]]
            products = [sum(float((a * b).sum()) for a, b in zip(of, dq, strict=True)) for of in (df, dq)]
            lam = max(eta - products[0] / products[1], 0.0)
            delta = [a + lam * b for a, b in zip(df, dq, strict=True)]
            clipped += sum(int((d.abs() / 2 > limit).sum()) for d in delta[:m])
            descend(of_v, [(d / 2).clamp(-limit, limit) for d in delta[:m]], beta)
            descend(of_theta, delta[m:], lr)
        for p, q in zip(live, of_v + of_theta, strict=True):
            torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)
            with torch.no_grad():
                q.copy_(p)
        if number == 2:
            strategy.finish(task)
            kept = [(t, row) for memory in (semantic, episodic) for t in range(task + 1) for row in memory[t]]
            momenta = {norm: norm.momentum for norm in net.modules() if isinstance(norm, BatchNorm2d)}
            with torch.no_grad():
                for norm in momenta:
                    norm.reset_running_stats()
                    norm.momentum = None  # a plain mean, over one batch here
                scores(kept)
                net.eval()
                out = scores([(task, row) for row in episodic[task]])[0][:, 3 * task : 3 * task + 3]
                net.train()
            torch.testing.assert_close(strategy.soft[task], softmax(out / 5, 1).float())
            soft.update({(task, slot): target.double() for slot, target in enumerate(strategy.soft[task])})
            for norm, momentum in momenta.items():
                norm.momentum = momentum
    assert clipped


def descend(parameters: list[Any], direction: Any, size: float) -> None:
    with torch.no_grad():
        for p, d in zip(parameters, direction, strict=True):
            p.sub_(size * d)


def test_the_step_size_that_a_method_is_told_is_the_one_that_is_taken() -> None:
    """The multiplier that knows the step sizes depends on it."""
    strategy = contextual("ctn+bome:preconditioned", small_stream(), clip=0.0, updates=4, outer_lr=0.8)
    before = [p.detach().clone() for p in strategy.controller.parameters()]
    strategy.stepper.keep_direction = True
    strategy.remember(0, torch.arange(5))
    samples = strategy.stream.training(torch.zeros(5, dtype=torch.long), torch.arange(5))
    strategy.stepper.step(inner=strategy.with_replay(0, samples), outer=samples)
    direction, rates = strategy.stepper.direction, strategy.stepper.metric.v
    assert direction is not None
    assert set(rates) == {0.2}
    for p, start, d in zip(strategy.controller.parameters(), before, direction.v, strict=True):
        torch.testing.assert_close(start - 0.2 * d, p.detach())


def test_mer_is_reptile_over_a_reservoir() -> None:
    stream = small_stream()
    lr, gamma, s, size = 0.2, 0.4, 3, 10
    strategy = make_strategy("mer", stream, Settings(theta_lr=lr, gamma_reptile=gamma, inner_steps=s, memory=4))
    twin, generator = stream.networks(modulated=False).base, torch.Generator().manual_seed(stream.seed)
    kept: list[tuple[int, int]] = []
    seen = 0

    def descend(pairs: list[tuple[int, int]]) -> None:
        x = torch.stack([stream.train[t, r] for t, r in pairs]).float() / 255
        y = torch.stack([stream.train_labels[t, r] for t, r in pairs])
        grads = torch.autograd.grad(cross_entropy(twin(x), y), list(twin.parameters()))
        with torch.no_grad():
            for p, grad in zip(twin.parameters(), grads, strict=True):
                p.sub_(lr * grad)

    for task, _, given in batches(strategy, 2):
        strategy.observe(given)
        before = [p.detach().clone() for p in twin.parameters()]
        for _ in range(s if kept else 0):
            order = torch.randperm(len(kept), generator=generator)[:size].tolist()
            descend([kept[i] for i in order])
        descend([(task, row) for row in given.row.tolist()])
        with torch.no_grad():
            for p, start in zip(twin.parameters(), before, strict=True):
                p.copy_(start + gamma * (p - start))
        for row in given.row.tolist():
            if len(kept) < 4 * stream.tasks:
                kept.append((task, row))
            else:
                place = int(torch.randint(seen + 1, (), generator=generator))
                if place < len(kept):
                    kept[place] = (task, row)
            seen += 1
    for p, q in zip(strategy.base.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


def test_the_published_update_of_the_contextual_network() -> None:
    """Two inner steps on θ, each with a replay of its own, then v −= β clip(∂f/∂v / 2, ±1): no derivative through θ."""
    stream = small_stream()
    choices = Settings(theta_lr=0.3, outer_lr=0.5, memory=10, semantic=0.2, clip=0.02)
    strategy = make_strategy("ctn+itd", stream, choices)
    assert isinstance(strategy, Contextual)
    net, controller = stream.networks(modulated=True)
    generator = torch.Generator().manual_seed(stream.seed)
    soft: dict[tuple[int, int], Tensor] = {}
    clipped = 0

    def scores(pairs: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        task = torch.tensor([t for t, _ in pairs])
        x = torch.stack([stream.train[t, r] for t, r in pairs]).float() / 255
        y = torch.stack([stream.train_labels[t, r] for t, r in pairs])
        return net(x, controller(task)), y

    for task, number, given in batches(strategy, 2):
        if task and not number:  # soft targets at the end of a task
            strategy.finish(task - 1)
            with torch.no_grad():
                rows = strategy.episodic.rows[task - 1].tolist()
                out = softmax(scores([(task - 1, r) for r in rows])[0] / 5, 1)
                soft |= {(task - 1, slot): out[slot] for slot in range(8)}
        strategy.observe(given)
        trained = given.row[1:].tolist() + ([int(given.row[0]) - 10] if number else [])
        for _ in range(2):
            for _ in range(2):
                z, y = scores([(task, r) for r in trained])
                loss = cross_entropy(z, y)
                if task:
                    places = torch.randperm(8 * task, generator=generator)[:8].tolist()
                    chosen = [(p // 8, p % 8) for p in places]
                    z, y = scores([(t, int(strategy.episodic.rows[t, slot])) for t, slot in chosen])
                    target = torch.stack([soft[each] for each in chosen])
                    kl = (target * (target.log() - log_softmax(z / 5, 1))).mean()
                    loss = loss + cross_entropy(z, y) + 100 * kl
                grads = torch.autograd.grad(loss, list(net.parameters()))
                with torch.no_grad():
                    for p, grad in zip(net.parameters(), grads, strict=True):
                        p.sub_(0.3 * grad)
            judged = [(t, r) for t in range(task + 1) for r in strategy.semantic.rows[t].tolist()]
            z, y = scores(judged)
            grads = torch.autograd.grad(cross_entropy(z, y), list(controller.parameters()))
            clipped += sum(int((grad.abs() / 2 > 0.02).sum()) for grad in grads)
            with torch.no_grad():
                for p, grad in zip(controller.parameters(), grads, strict=True):
                    p.sub_(0.5 * (grad / 2).clamp(-0.02, 0.02))
    assert clipped
    for module, twin in ((strategy.base, net), (strategy.controller, controller)):
        for p, q in zip(module.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=2e-4, atol=2e-5)


def test_the_total_derivative_agrees_with_finite_differences() -> None:
    stream = small_stream()
    strategy = contextual("ctn+itd:total", stream, theta_lr=0.3, memory=10)
    for module in (strategy.base, strategy.controller):
        module.double()
    strategy.remember(0, torch.arange(10))
    strategy.remember(0, torch.arange(10, 20))
    rows = strategy.remember(1, torch.arange(10))
    strategy.soft[0] = softmax(torch.randn(8, 3, generator=torch.Generator().manual_seed(1)), 1)
    fresh = stream.training(torch.full_like(rows, 1), rows)
    inner = strategy.with_replay(1, fresh._replace(x=fresh.x.double()))
    outer = stream.training(*strategy.semantic.samples(2))
    outer = outer._replace(x=outer.x.double())
    v = [p.detach().clone() for p in strategy.controller.parameters()]
    theta = [p.detach().clone() for p in strategy.base.parameters()]

    def value(shift: float, along: list[Tensor]) -> float:
        """f after two inner steps, from the start, with v moved."""
        with torch.no_grad():
            for p, start, d in zip(strategy.controller.parameters(), v, along, strict=True):
                p.copy_(start + shift * d)
            for p, start in zip(strategy.base.parameters(), theta, strict=True):
                p.copy_(start)
        for _ in range(2):
            loss = strategy.inner(strategy.controller, strategy.base, inner)
            grads = torch.autograd.grad(loss, list(strategy.base.parameters()))
            with torch.no_grad():
                for p, grad in zip(strategy.base.parameters(), grads, strict=True):
                    p.sub_(0.3 * grad)
        with torch.no_grad():
            return float(strategy.outer(strategy.controller, strategy.base, outer))

    draw = torch.Generator().manual_seed(0)
    directions = [[torch.randn(p.shape, generator=draw, dtype=torch.float64) for p in v] for _ in range(3)]
    slopes = [(value(1e-6, d) - value(-1e-6, d)) / 2e-6 for d in directions]
    value(0.0, directions[0])  # v as it was
    with torch.no_grad():
        for p, start in zip(strategy.base.parameters(), theta, strict=True):
            p.copy_(start)
    strategy.stepper.keep_direction = True
    strategy.stepper.step(inner=inner, outer=outer)
    direction = strategy.stepper.direction
    assert direction is not None
    for along, slope in zip(directions, slopes, strict=True):
        total = sum(float((g * d).sum()) for g, d in zip(direction.v, along, strict=True))
        assert total == pytest.approx(slope, rel=1e-4, abs=1e-8)
    direct = torch.autograd.grad(
        strategy.outer(strategy.controller, strategy.base, outer), list(strategy.controller.parameters())
    )
    assert not all(torch.allclose(a, b) for a, b in zip(direct, direction.v, strict=True))  # not the direct one alone


# --- data -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", ["continual-digits", "continual-cifar"])
@pytest.mark.parametrize("name", ALL)
def test_no_test_image_ever_reaches_training(
    name: str, task: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Test images are bright: but for judging, a network sees only dark ones; soft targets and statistics included."""
    monkeypatch.setitem(STREAMS, "continual-digits", small_stream)
    monkeypatch.setitem(STREAMS, "continual-cifar", coloured_stream)
    learned: list[float] = []
    judged: list[float] = []
    seen, accuracy = learned, _Run._accuracy

    def judging(self: _Run, task: int) -> float:
        nonlocal seen
        seen = judged
        found = accuracy(self, task)
        seen = learned
        return found

    monkeypatch.setattr(_Run, "_accuracy", judging)
    for kind in (Mlp, ReducedResNet):
        forward = kind.forward

        def watched(self: Any, x: Tensor, modulations: Any = None, forward: Any = forward) -> Any:
            seen.append(float(x.max()))
            return forward(self, x, modulations)

        monkeypatch.setattr(kind, "forward", watched)
    values = {} if name == "offline" else {"memory": 10}
    summary = carry_out_part(Spec(task, name, 0, {"batch": 5, **values}), tmp_path)
    assert summary["status"] == "finished"
    assert max(learned) < BRIGHT / 255
    assert min(judged) >= BRIGHT / 255


def test_scores_of_other_tasks_are_as_good_as_masked() -> None:
    """With a head for each task, gathering its scores gives the losses of scores masked by −∞ elsewhere."""
    stream = small_stream(shared=False)
    scores = torch.randn(8, stream.outputs, generator=torch.Generator().manual_seed(0))
    task, y = torch.arange(8) % 3, torch.arange(8) % 3
    masked = torch.full_like(scores, -1e11)
    for i in range(8):
        masked[i, 3 * task[i] : 3 * task[i] + 3] = scores[i, 3 * task[i] : 3 * task[i] + 3]
    expected = cross_entropy(masked, 3 * task + y, reduction="none")
    torch.testing.assert_close(cross_entropy(stream.scores(scores, task), y, reduction="none"), expected)
