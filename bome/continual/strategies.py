"""Strategies of continual learning: what is done with a batch of the current task.

| name | what it does |
|---|---|
| `offline` | all tasks at once, for two epochs: an upper bound, not a strategy |
| `er` | experience replay from rings: CE(batch) + CE(replay) |
| `gem` | gradient episodic memory (Lopez-Paz and Ranzato, 2017): no step may increase the loss on an earlier task |
| `mer` | meta-experience replay (Riemer et al., 2019), with minibatches: Reptile over a reservoir |
| `ctn+itd` | the contextual transformation network as published: alternating descent with the direct derivative only |
| `ctn+itd:total` | the same with the total derivative, that is with ITD |
| `ctn+bvfsm`, `ctn+penalty`, `ctn+pbgd`, `ctn+bome` | the same with these methods, or variants: `ctn+bome:auto` |

The bilevel problem of the `ctn+` strategies: v is the controller and θ the base network. With the current batch D, a
replay R of the episodic memories of earlier tasks and the soft targets p̄ that were stored when their task ended,

    g(v, θ) = CE(D) + CE(R) + strength · mean p̄ (log p̄ − log softmax(scores(R) / temperature)),
    f(v, θ) = CE(all semantic memories of the tasks so far).

Where the published code of the contextual network differs: it evaluates CE(D) once for all inner steps, with the old
activations; the replay of one of its two versions also draws from the memory of the current task, of which no soft
targets exist yet (setting `replay_from=seen` does that); and it normalises D and R apart (BatchNorm), here together.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax, softmax
from torch.optim import SGD, Optimizer

from bome.continual.memory import Reservoir, Ring
from bome.continual.settings import CTN, Settings
from bome.continual.streams import Labelled, Stream
from bome.methods import ITD, Method
from bome.methods.alternating import Alternating
from bome.problem import Batches, Problem
from bome.runs.names import METHODS
from bome.runs.plan import AUTO, build
from bome.stepper import Stepper
from bome.tasks.task import Settings as RunSettings
from bome.tuner import Tuner

CHUNK = 2_000
"""Test images judged at a time."""


class Given(NamedTuple):
    """Training samples by their task and their number in it."""

    task: Tensor
    row: Tensor


class Strategy(ABC):
    """Learns from one batch after the other.

    Attributes:
        stream: the tasks; a strategy reads `stream.training` only.
        choices: the settings.
    """

    def __init__(self, stream: Stream, choices: Settings, *, modulated: bool) -> None:
        self.stream, self.choices = stream, choices
        self.base, self.controller = stream.networks(modulated=modulated)
        self.generator = torch.Generator().manual_seed(stream.seed)

    def stages(self) -> list[list[Given]]:
        """The batches between judgements: those of one task after the other."""
        order = torch.split(torch.arange(self.stream.samples), self.choices.batch)
        return [[Given(torch.full_like(rows, task), rows) for rows in order] for task in range(self.stream.tasks)]

    @abstractmethod
    def observe(self, given: Given) -> None:
        """Learn from a batch."""

    @abstractmethod
    def remembered(self, tasks: int) -> tuple[Tensor, Tensor]:
        """Task and row of all training samples that are kept of the first tasks."""

    def forward(self, samples: Labelled) -> Tensor:
        """The scores of all classes, as in training."""
        scores: Tensor = self.base(samples.x)
        return scores

    def finish(self, task: int) -> None:
        """The last batch of a task is over: running statistics (BatchNorm) are taken anew from what is remembered.

        Those of the last batches lag behind θ, the more the fewer evaluations change them.
        """
        norms = [module for module in self.base.modules() if isinstance(module, nn.BatchNorm2d)]
        if not norms:
            return
        momenta = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 1.0
        try:
            with torch.no_grad():
                self.forward(self.stream.training(*self.remembered(task + 1)))
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum

    def predict(self, samples: Labelled) -> Tensor:
        """The scores of samples of one task."""
        with torch.no_grad(), evaluating(self.base):
            parts = [self.stream.scores(self.base(x), t) for x, t in chunks(samples)]
        return torch.cat(parts)

    @property
    def evaluations(self) -> dict[str, int]:
        """How often the losses of a bilevel problem were evaluated, by kind; nothing where there is none."""
        return {}

    @property
    def tuned(self) -> dict[str, float]:
        """What a tuner picked."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """All that changes, for a checkpoint."""
        return {"generator": self.generator.get_state(), "base": dict(self.base.state_dict())}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self.generator.set_state(state["generator"])
        self.base.load_state_dict(state["base"])

    def loss(self, samples: Labelled) -> Tensor:
        """The mean cross-entropy of the base network alone."""
        return cross_entropy(self.stream.scores(self.base(samples.x), samples.task), samples.y)


class Offline(Strategy):
    """All tasks at once."""

    def __init__(self, stream: Stream, choices: Settings) -> None:
        super().__init__(stream, choices, modulated=False)
        self._optimiser = SGD(self.base.parameters(), choices.theta_lr)

    def stages(self) -> list[list[Given]]:
        """One stage: some epochs over the samples of all tasks in a random order."""
        n = self.stream.samples
        generator = torch.Generator().manual_seed(self.stream.seed)
        batches = []
        for _ in range(self.choices.epochs):
            order = torch.randperm(n * self.stream.tasks, generator=generator)
            batches += [Given(places // n, places % n) for places in torch.split(order, self.choices.batch)]
        return [batches]

    def remembered(self, tasks: int) -> tuple[Tensor, Tensor]:
        """Some samples of all tasks: as many as the other strategies keep."""
        rows = torch.arange(min(self.choices.memory, self.stream.samples))
        return torch.arange(self.stream.tasks).repeat_interleave(len(rows)), rows.repeat(self.stream.tasks)

    def observe(self, given: Given) -> None:
        """A gradient step."""
        self._optimiser.zero_grad()
        self.loss(self.stream.training(*given)).backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()


class ExperienceReplay(Strategy):
    """Gradient steps on the batch and a replay of earlier tasks."""

    def __init__(self, stream: Stream, choices: Settings) -> None:
        super().__init__(stream, choices, modulated=False)
        self._ring = Ring(stream.tasks, choices.memory)
        self._optimiser = SGD(self.base.parameters(), choices.theta_lr)

    def observe(self, given: Given) -> None:
        """Some gradient steps, each with a replay of its own."""
        task = int(given.task[0])
        self._ring.write(task, given.row)
        fresh = self.stream.training(*given)
        for _ in range(self.choices.inner_steps):
            self._optimiser.zero_grad()
            replayed = None if not task else self._replay(task)
            self._both(fresh, replayed).backward()  # type: ignore[no-untyped-call]
            self._optimiser.step()

    def remembered(self, tasks: int) -> tuple[Tensor, Tensor]:
        """Those of the rings."""
        return self._ring.samples(tasks)

    def _both(self, fresh: Labelled, replayed: Labelled | None) -> Tensor:
        """CE(batch) + CE(replay)."""
        if replayed is None:
            return self.loss(fresh)
        samples, n = joined(fresh, replayed), len(fresh.y)
        scores = self.stream.scores(self.base(samples.x), samples.task)
        return cross_entropy(scores[:n], samples.y[:n]) + cross_entropy(scores[n:], samples.y[n:])

    def _replay(self, tasks: int) -> Labelled:
        count = min(self._ring.slots, self.choices.replay)
        task, slot = self._ring.draw(tasks, count, self.generator)
        return self.stream.training(task, self._ring.rows[task, slot])

    def state_dict(self) -> dict[str, Any]:
        """With the ring."""
        return {**super().state_dict(), "ring": self._ring.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """With the ring."""
        super().load_state_dict(state)
        self._ring.load_state_dict(state["ring"])


class GradientMemory(Strategy):
    """Gradient steps that do not increase the loss on the memory of any earlier task."""

    def __init__(self, stream: Stream, choices: Settings) -> None:
        super().__init__(stream, choices, modulated=False)
        self._ring = Ring(stream.tasks, choices.memory)
        self._parameters = list(self.base.parameters())
        self._optimiser = SGD(self._parameters, choices.theta_lr)

    def observe(self, given: Given) -> None:
        """Some gradient steps, each projected."""
        task = int(given.task[0])
        self._ring.write(task, given.row)
        fresh = self.stream.training(*given)
        for _ in range(self.choices.inner_steps):
            earlier = [self._gradient(self._memory(t)) for t in range(task)]
            gradient = self._gradient(fresh)
            if earlier:
                gradient = projected(gradient, torch.stack(earlier), self.choices.margin)
            self._apply(gradient)

    def remembered(self, tasks: int) -> tuple[Tensor, Tensor]:
        """Those of the rings."""
        return self._ring.samples(tasks)

    def _memory(self, task: int) -> Labelled:
        rows = self._ring.rows[task]
        return self.stream.training(torch.full_like(rows, task), rows)

    def _gradient(self, samples: Labelled) -> Tensor:
        return torch.cat([x.flatten() for x in torch.autograd.grad(self.loss(samples), self._parameters)])

    def _apply(self, gradient: Tensor) -> None:
        sizes = [x.numel() for x in self._parameters]
        for parameter, part in zip(self._parameters, torch.split(gradient, sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        self._optimiser.step()

    def state_dict(self) -> dict[str, Any]:
        """With the ring."""
        return {**super().state_dict(), "ring": self._ring.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """With the ring."""
        super().load_state_dict(state)
        self._ring.load_state_dict(state["ring"])


class MetaReplay(Strategy):
    """Reptile over a reservoir: gradient steps on replays and then on the batch, of which a part is kept."""

    def __init__(self, stream: Stream, choices: Settings) -> None:
        super().__init__(stream, choices, modulated=False)
        self._reservoir = Reservoir(choices.memory * stream.tasks)
        self._optimiser = SGD(self.base.parameters(), choices.theta_lr)

    def observe(self, given: Given) -> None:
        """θ ← θ_before + γ (θ_after − θ_before)."""
        before = [x.detach().clone() for x in self.base.parameters()]
        if len(self._reservoir):
            for _ in range(self.choices.inner_steps):
                self._descend(self.stream.training(*self._reservoir.draw(self.choices.batch, self.generator)))
        self._descend(self.stream.training(*given))
        with torch.no_grad():
            for x, start in zip(self.base.parameters(), before, strict=True):
                x.copy_(torch.lerp(start, x, self.choices.gamma_reptile))
        self._reservoir.write(int(given.task[0]), given.row, self.generator)

    def remembered(self, tasks: int) -> tuple[Tensor, Tensor]:
        """Those of the reservoir."""
        return self._reservoir.samples()

    def _descend(self, samples: Labelled) -> None:
        self._optimiser.zero_grad()
        self.loss(samples).backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

    def state_dict(self) -> dict[str, Any]:
        """With the reservoir."""
        return {**super().state_dict(), "reservoir": self._reservoir.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """With the reservoir."""
        super().load_state_dict(state)
        self._reservoir.load_state_dict(state["reservoir"])


class Inner(NamedTuple):
    """What g is evaluated on.

    Attributes:
        samples: the batch, and then the replay.
        fresh: how many of them are the batch.
        soft: the soft targets of the replay; None if there is none.
    """

    samples: Labelled
    fresh: int
    soft: Tensor | None


class Contextual(Strategy):
    """The contextual transformation network with any bilevel method."""

    def __init__(self, stream: Stream, choices: Settings, method: Method, tuner: Tuner | None = None) -> None:
        super().__init__(stream, choices, modulated=True)
        kept, n = choices.semantic_slots, choices.updates
        self.semantic, self.episodic = Ring(stream.tasks, kept), Ring(stream.tasks, choices.memory - kept)
        self.soft = torch.zeros(stream.tasks, self.episodic.slots, stream.classes)
        self.stepper = Stepper(
            Problem(self.outer, self.inner, self.controller, self.base),
            method,
            # outer_lr · clip(δ_v / updates, ±c), written so that the learning rate is the size of the step
            clipped(self.controller.parameters(), choices.outer_lr / n, choices.clip * n),
            SGD(self.base.parameters(), choices.theta_lr),
        )
        self.tuner = tuner
        if tuner is not None:
            tuner.attach(self.stepper)

    def inner(self, v: Any, net: Any, batch: Inner) -> Tensor:
        """g."""
        samples, n, choices = batch.samples, batch.fresh, self.choices
        scores = self.stream.scores(net(samples.x, v(samples.task)), samples.task)
        value = cross_entropy(scores[:n], samples.y[:n])
        if batch.soft is None:
            return value
        value = value + cross_entropy(scores[n:], samples.y[n:])
        softened = log_softmax(scores[n:] / choices.temperature, 1)
        return value + choices.strength * kl_div(softened, batch.soft, reduction="none").mean()

    def outer(self, v: Any, net: Any, batch: Labelled) -> Tensor:
        """f."""
        return cross_entropy(self.stream.scores(net(batch.x, v(batch.task)), batch.task), batch.y)

    def observe(self, given: Given) -> None:
        """Some outer updates, each with replays of its own."""
        task, method = int(given.task[0]), self.stepper.method
        rows = self.remember(task, given.row)
        fresh = self.stream.training(torch.full_like(rows, task), rows)
        judged = self.stream.training(*self.semantic.samples(task + 1))
        for _ in range(self.choices.updates):
            inner = tuple(self.with_replay(task, fresh) for _ in range(method.inner_batches))
            info = self.stepper.step_on(Batches(inner=inner, outer=(judged,) * method.outer_batches))
            if self.tuner is not None:
                self.tuner.after(self.stepper, info)

    def remember(self, task: int, rows: Tensor) -> Tensor:
        """Update both memories; the samples to train on.

        The first sample goes to the semantic memory, and in its place comes the one stored there before it.
        """
        last = self.semantic.newest(task) if self._started(task) else rows[:0]
        self.semantic.write(task, rows[:1])
        rows = torch.cat([rows[1:], last])
        self.episodic.write(task, rows)
        return rows

    def remembered(self, tasks: int) -> tuple[Tensor, Tensor]:
        """Those of both memories."""
        pairs = zip(self.semantic.samples(tasks), self.episodic.samples(tasks), strict=True)
        task, row = (torch.cat(each) for each in pairs)
        return task, row

    def forward(self, samples: Labelled) -> Tensor:
        """The scores of all classes, as in training."""
        scores: Tensor = self.base(samples.x, self.controller(samples.task))
        return scores

    def finish(self, task: int) -> None:
        """Take running statistics anew, then store the soft targets of the task."""
        super().finish(task)
        rows = self.episodic.rows[task]
        scores = self.predict(self.stream.training(torch.full_like(rows, task), rows))
        self.soft[task] = softmax(scores / self.choices.temperature, 1)

    def predict(self, samples: Labelled) -> Tensor:
        """The scores of samples of one task."""
        with torch.no_grad(), evaluating(self.base):
            modulations = self.controller(samples.task[:1])
            parts = [self.stream.scores(self.base(x, modulations), t) for x, t in chunks(samples)]
        return torch.cat(parts)

    @property
    def evaluations(self) -> dict[str, int]:
        """Those of the method."""
        return {"f": 0, "g": 0, "hvp": 0, **self.stepper.counts}

    @property
    def tuned(self) -> dict[str, float]:
        """T and the scale of v, if they are automatic."""
        return {} if self.tuner is None else self.tuner.picked()

    def state_dict(self) -> dict[str, Any]:
        """With memories, soft targets, the stepper and the tuner."""
        return {
            "generator": self.generator.get_state(),
            "semantic": self.semantic.state_dict(),
            "episodic": self.episodic.state_dict(),
            "soft": self.soft,
            "stepper": self.stepper.state_dict(),
            "tuner": None if self.tuner is None else self.tuner.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """With memories, soft targets, the stepper and the tuner."""
        self.generator.set_state(state["generator"])
        self.semantic.load_state_dict(state["semantic"])
        self.episodic.load_state_dict(state["episodic"])
        self.soft = state["soft"]
        self.stepper.load_state_dict(state["stepper"])
        if self.tuner is not None:
            self.tuner.load_state_dict(state["tuner"])
            self.tuner.attach(self.stepper)

    def _started(self, task: int) -> bool:
        return self.semantic.task == task

    def with_replay(self, task: int, fresh: Labelled) -> Inner:
        """The batch with a new replay of earlier tasks."""
        if not task:
            return Inner(fresh, len(fresh.y), None)
        tasks = task if self.choices.replay_from == "previous" else task + 1
        count = min(self.episodic.slots, self.choices.replay)
        chosen, slot = self.episodic.draw(tasks, count, self.generator)
        replayed = self.stream.training(chosen, self.episodic.rows[chosen, slot])
        return Inner(joined(fresh, replayed), len(fresh.y), self.soft[chosen, slot])


def clipped(parameters: Iterable[nn.Parameter], lr: float, limit: float) -> SGD:
    """Gradient descent along gradients no entry of which is larger than a limit; 0 for none."""

    def shorten(optimiser: Optimizer, *_: object) -> None:
        for group in optimiser.param_groups:
            for x in group["params"]:
                if x.grad is not None:
                    x.grad = x.grad.clamp(-limit, limit)

    optimiser = SGD(parameters, lr)
    if limit:
        optimiser.register_step_pre_hook(shorten)
    return optimiser


def projected(gradient: Tensor, earlier: Tensor, margin: float) -> Tensor:
    """The gradient, turned so that it has no negative product with any earlier one.

    Where one of the products ⟨g, g_s⟩ is negative it becomes g + Gᵀu with

        u = argmin ½ uᵀ(GGᵀ + 10⁻³ I)u + (Gg)ᵀu   subject to   u ≥ margin.

    Args:
        gradient: g; returned as it is if NaN or infinity is in any product.
        earlier: G, a row for each earlier task.
        margin: the least entry of u.
    """
    wide = earlier.double()  # gradients of two tasks may be all but parallel
    products = wide @ gradient.double()
    if not bool((products < 0).any()) or not bool(products.isfinite().all()):
        return gradient
    u = bounded_quadratic((wide @ wide.T).numpy(), products.numpy(), margin)
    return gradient + torch.from_numpy(u).to(gradient.dtype) @ earlier


def bounded_quadratic(gram: NDArray[np.float64], products: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """The u ≥ least that minimises ½ uᵀPu + qᵀu with P = gram + 10⁻³ I.

    With w = u − least ≥ 0 and P = VΛVᵀ it is the non-negative least-squares problem ‖Aw + A⁻ᵀ(q + least P1)‖² with
    A = Λ^½Vᵀ. No eigenvalue of a Gram matrix is negative: one that rounding has made so counts as zero.
    """
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(values.clip(min=0) + 1e-3)
    a = root[:, None] * vectors.T
    target = -(vectors.T @ products) / root - least * a.sum(axis=1)
    w: NDArray[np.float64] = nnls(a, target)[0]
    return w + least


def joined(*parts: Labelled) -> Labelled:
    """One after the other."""
    return Labelled(*(torch.cat(each) for each in zip(*parts, strict=True)))


def chunks(samples: Labelled) -> Iterator[tuple[Tensor, Tensor]]:
    """Images and their tasks, some at a time."""
    return zip(torch.split(samples.x, CHUNK), torch.split(samples.task, CHUNK), strict=True)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """The module in the mode of evaluation for a while."""
    module.eval()
    try:
        yield
    finally:
        module.train()


WITHOUT_CONTROLLER: Mapping[str, type[Offline | ExperienceReplay | GradientMemory | MetaReplay]] = {
    "offline": Offline,
    "er": ExperienceReplay,
    "gem": GradientMemory,
    "mer": MetaReplay,
}


def make_strategy(name: str, stream: Stream, choices: Settings, own: Mapping[str, Any] | None = None) -> Strategy:
    """A strategy by its name.

    Args:
        name: such as "er", "ctn+bome" or "ctn+bome:fresh".
        stream: the tasks.
        choices: the settings.
        own: settings of the bilevel method's own, such as `c_ln` of bvfsm.
    """
    if name in WITHOUT_CONTROLLER:
        return WITHOUT_CONTROLLER[name](stream, choices)
    tuner = Tuner() if name.endswith(f":{AUTO}") else None
    updates = stream.tasks * -(-stream.samples // choices.batch) * choices.updates
    return Contextual(stream, choices, make_method(name, updates, choices, own or {}), tuner)


def make_method(name: str, updates: int, choices: Settings, own: Mapping[str, Any]) -> Method:
    """The bilevel method of a `ctn+` strategy.

    Args:
        name: of the strategy.
        updates: outer updates in all.
        choices: the settings.
        own: settings of the method's own.
    """
    kind, _, variant = name.removeprefix(CTN).partition(":")
    settings = RunSettings(
        steps=updates,
        inner_steps=choices.inner_steps,
        inner_lr=choices.inner_lr or choices.theta_lr,
        outer_lr=choices.outer_lr,
        theta_lr=choices.theta_lr,
        eta=choices.eta,
        phi=choices.phi,
    )
    if kind == "itd":
        return build(Alternating if not variant else ITD, settings)
    values = METHODS[kind].variants[variant] if variant else {}
    return build(METHODS[kind], settings, {**values, **own})
