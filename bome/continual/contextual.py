"""The contextual transformation network with any bilevel method.

| name | what it does |
|---|---|
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

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, kl_div, log_softmax, softmax
from torch.optim import SGD, Optimizer

from bome.continual.memory import Ring
from bome.continual.settings import CTN, Settings
from bome.continual.strategy import Samples, Strategy, chunks, evaluating, join
from bome.continual.streams import Labelled, Stream
from bome.methods import ITD, Method
from bome.methods.alternating import Alternating
from bome.problem import Batches, Problem
from bome.runs.names import METHODS
from bome.runs.plan import build
from bome.stepper import Stepper
from bome.tasks.task import Settings as RunSettings
from bome.tuner import Tuner


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

    def __init__(self, stream: Stream, settings: Settings, method: Method, tuner: Tuner | None = None) -> None:
        super().__init__(stream, settings, modulated=True)
        kept, n = settings.semantic_slots, settings.updates
        self.semantic, self.episodic = Ring(stream.tasks, kept), Ring(stream.tasks, settings.memory - kept)
        self.soft = torch.zeros(stream.tasks, self.episodic.slots, stream.classes)
        self.stepper = Stepper(
            Problem(self.outer, self.inner, self.controller, self.base),
            method,
            # outer_lr · clip(δ_v / updates, ±c), written so that the learning rate is the size of the step
            clip_directions(self.controller.parameters(), settings.outer_lr / n, settings.clip * n),
            SGD(self.base.parameters(), settings.theta_lr),
        )
        self.tuner = tuner
        if tuner is not None:
            tuner.attach(self.stepper)

    def inner(self, v: Any, net: Any, batch: Inner) -> Tensor:
        """g."""
        samples, n, settings = batch.samples, batch.fresh, self.settings
        scores = self.stream.scores(net(samples.x, v(samples.task)), samples.task)
        value = cross_entropy(scores[:n], samples.y[:n])
        if batch.soft is None:
            return value
        value = value + cross_entropy(scores[n:], samples.y[n:])
        softened = log_softmax(scores[n:] / settings.temperature, 1)
        return value + settings.strength * kl_div(softened, batch.soft, reduction="none").mean()

    def outer(self, v: Any, net: Any, batch: Labelled) -> Tensor:
        """f."""
        return cross_entropy(self.stream.scores(net(batch.x, v(batch.task)), batch.task), batch.y)

    def observe(self, batch: Samples) -> None:
        """Some outer updates, each with replays of its own."""
        task, method = int(batch.task[0]), self.stepper.method
        rows = self.remember(task, batch.row)
        fresh = self.stream.training(torch.full_like(rows, task), rows)
        semantic = self.stream.training(*self.semantic.samples(task + 1))
        for _ in range(self.settings.updates):
            inner = tuple(self.with_replay(task, fresh) for _ in range(method.inner_batches))
            info = self.stepper.step_on(Batches(inner=inner, outer=(semantic,) * method.outer_batches))
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

    def memory(self, tasks: int) -> tuple[Tensor, Tensor]:
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
        self.soft[task] = softmax(scores / self.settings.temperature, 1)

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
        tasks = task if self.settings.replay_from == "previous" else task + 1
        count = min(self.episodic.slots, self.settings.replay)
        earlier, slot = self.episodic.draw(tasks, count, self.generator)
        replay = self.stream.training(earlier, self.episodic.rows[earlier, slot])
        return Inner(join(fresh, replay), len(fresh.y), self.soft[earlier, slot])


def clip_directions(parameters: Iterable[nn.Parameter], lr: float, limit: float) -> SGD:
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


def make_method(name: str, updates: int, settings: Settings, own: Mapping[str, Any]) -> Method:
    """The bilevel method of a `ctn+` strategy.

    Args:
        name: of the strategy.
        updates: outer updates in all.
        settings: the settings.
        own: settings of the method's own.
    """
    kind, _, variant = name.removeprefix(CTN).partition(":")
    of_run = RunSettings(
        steps=updates,
        inner_steps=settings.inner_steps,
        inner_lr=settings.inner_lr or settings.theta_lr,
        outer_lr=settings.outer_lr,
        theta_lr=settings.theta_lr,
        eta=settings.eta,
        phi=settings.phi,
    )
    if kind == "itd":
        return build(Alternating if not variant else ITD, of_run)
    values = METHODS[kind].variants[variant] if variant else {}
    return build(METHODS[kind], of_run, {**values, **own})
