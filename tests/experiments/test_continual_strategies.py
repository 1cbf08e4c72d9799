"""Strategies of continual learning against literal transcriptions, hand-traced memories and solvers of others."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import torch
from small_streams import BRIGHT, small_stream
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax, softmax

from bome.experiments.continual_memory import Reservoir, Ring
from bome.experiments.continual_metrics import metrics
from bome.experiments.continual_run import Spec, carry_out_part
from bome.experiments.continual_strategies import (
    Choices,
    Contextual,
    Given,
    Strategy,
    bounded_quadratic,
    make_strategy,
    projected,
)
from bome.tasks.continual import STREAMS, Stream
from bome.tasks.networks import Mlp

ALL = ("offline", "er", "gem", "mer", "ctn+itd", "ctn+itd:total", "ctn+bvfsm", "ctn+penalty", "ctn+pbgd", "ctn+bome")


def contextual(name: str, stream: Stream, **choices: Any) -> Contextual:
    made = make_strategy(name, stream, Choices(**choices))
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


# --- transcriptions ---------------------------------------------------------------------------------------------------


def test_mer_is_reptile_over_a_reservoir() -> None:
    stream = small_stream()
    lr, gamma, s, size = 0.2, 0.4, 3, 10
    strategy = make_strategy("mer", stream, Choices(theta_lr=lr, gamma_reptile=gamma, inner_steps=s, memory=4))
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
    choices = Choices(theta_lr=0.3, outer_lr=0.5, memory=10, semantic=0.2, clip=0.02)
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
    strategy.stepper.step(inner, outer)
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


@pytest.mark.parametrize("name", ALL)
def test_no_test_image_ever_reaches_training(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Test images are bright: a network in the mode of training, or with gradients, sees only dark ones."""
    monkeypatch.setitem(STREAMS, "continual-digits", small_stream)
    learned: list[float] = []
    judged: list[float] = []
    forward = Mlp.forward

    def watched(self: Mlp, x: Tensor, modulations: Any = None) -> Tensor:
        (learned if self.training or torch.is_grad_enabled() else judged).append(float(x.max()))
        return forward(self, x, modulations)

    monkeypatch.setattr(Mlp, "forward", watched)
    values = {} if name == "offline" else {"memory": 10}
    summary = carry_out_part(Spec("continual-digits", name, 0, values), tmp_path)
    assert summary["status"] == "finished"
    assert max(learned) < BRIGHT / 255
    assert max(judged) >= BRIGHT / 255


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
