"""The contextual network, against literal transcriptions and memories traced by hand."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import BatchNorm2d
from torch.nn.functional import cross_entropy, log_softmax, softmax

from bome.continual.contextual import Contextual
from bome.continual.run import make_strategy
from bome.continual.settings import Settings
from tests.support.small_streams import coloured_stream, small_stream
from tests.support.strategies import batches, contextual, in_double_precision, masked, of_pairs


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


def test_running_statistics_change_once_in_an_update_whatever_the_look_ahead() -> None:
    """Both T leave the BatchNorm statistics of one evaluation of g at the start."""
    found = []
    for inner_steps in (1, 4):
        strategy = make_strategy("ctn+bome", coloured_stream(), Settings(inner_steps=inner_steps, updates=1, memory=10))
        assert isinstance(strategy, Contextual)
        strategy.observe(strategy.stages()[0][0])
        found.append({name: buffer.clone() for name, buffer in strategy.base.named_buffers()})
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])
    assert int(found[0]["stem.1.num_batches_tracked"]) == 1
