"""Strategies without a controller, which replay samples of earlier tasks, and learning all tasks at once.

| name | what it does |
|---|---|
| `offline` | all tasks at once, for two epochs: an upper bound, not a strategy |
| `er` | experience replay from rings: CE(batch) + CE(replay) |
| `gem` | gradient episodic memory (Lopez-Paz and Ranzato, 2017): no step may increase the loss on an earlier task |
| `mer` | meta-experience replay (Riemer et al., 2019), with minibatches: Reptile over a reservoir |
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.optim import SGD

from bome.continual.memory import Reservoir, Ring
from bome.continual.settings import Settings
from bome.continual.strategy import Samples, Strategy, join
from bome.continual.streams import Labelled, Stream


class Offline(Strategy):
    """All tasks at once."""

    def __init__(self, stream: Stream, settings: Settings) -> None:
        super().__init__(stream, settings, modulated=False)
        self._optimiser = SGD(self.base.parameters(), settings.theta_lr)

    def stages(self) -> list[list[Samples]]:
        """One stage: some epochs over the samples of all tasks in a random order."""
        n = self.stream.samples
        generator = torch.Generator().manual_seed(self.stream.seed)
        batches = []
        for _ in range(self.settings.epochs):
            order = torch.randperm(n * self.stream.tasks, generator=generator)
            batches += [Samples(places // n, places % n) for places in torch.split(order, self.settings.batch)]
        return [batches]

    def memory(self, tasks: int) -> tuple[Tensor, Tensor]:
        """Some samples of all tasks: as many as the other strategies keep."""
        rows = torch.arange(min(self.settings.memory, self.stream.samples))
        return torch.arange(self.stream.tasks).repeat_interleave(len(rows)), rows.repeat(self.stream.tasks)

    def observe(self, batch: Samples) -> None:
        """A gradient step."""
        self._optimiser.zero_grad()
        self.loss(self.stream.training(*batch)).backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()


class _WithRings(Strategy):
    """Keeps the newest samples of each task, and learns a batch in some gradient steps."""

    def __init__(self, stream: Stream, settings: Settings) -> None:
        super().__init__(stream, settings, modulated=False)
        self._ring = Ring(stream.tasks, settings.memory)
        self._parameters = list(self.base.parameters())
        self._optimiser = SGD(self._parameters, settings.theta_lr)

    def observe(self, batch: Samples) -> None:
        """Keep the batch and take some steps."""
        task = int(batch.task[0])
        self._ring.write(task, batch.row)
        fresh = self.stream.training(*batch)
        for _ in range(self.settings.inner_steps):
            self._step(task, fresh)

    @abstractmethod
    def _step(self, task: int, fresh: Labelled) -> None:
        """A gradient step on a batch of a task."""

    def memory(self, tasks: int) -> tuple[Tensor, Tensor]:
        """Those of the rings."""
        return self._ring.samples(tasks)

    def state_dict(self) -> dict[str, Any]:
        """With the ring."""
        return {**super().state_dict(), "ring": self._ring.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """With the ring."""
        super().load_state_dict(state)
        self._ring.load_state_dict(state["ring"])


class ExperienceReplay(_WithRings):
    """Gradient steps on the batch and a replay of earlier tasks."""

    def _step(self, task: int, fresh: Labelled) -> None:
        """With a replay of its own."""
        self._optimiser.zero_grad()
        self._both(fresh, self._replay(task) if task else None).backward()  # type: ignore[no-untyped-call]
        self._optimiser.step()

    def _both(self, fresh: Labelled, replay: Labelled | None) -> Tensor:
        """CE(batch) + CE(replay)."""
        if replay is None:
            return self.loss(fresh)
        samples, n = join(fresh, replay), len(fresh.y)
        scores = self.stream.scores(self.base(samples.x), samples.task)
        return cross_entropy(scores[:n], samples.y[:n]) + cross_entropy(scores[n:], samples.y[n:])

    def _replay(self, tasks: int) -> Labelled:
        count = min(self._ring.slots, self.settings.replay)
        task, slot = self._ring.draw(tasks, count, self.generator)
        return self.stream.training(task, self._ring.rows[task, slot])


class GradientMemory(_WithRings):
    """Gradient steps that do not increase the loss on the memory of any earlier task."""

    def _step(self, task: int, fresh: Labelled) -> None:
        """Projected where the loss on an earlier task would increase."""
        earlier = [self._gradient(self._ring_of(t)) for t in range(task)]
        gradient = self._gradient(fresh)
        if earlier:
            gradient = project(gradient, torch.stack(earlier), self.settings.margin)
        self._apply(gradient)

    def _ring_of(self, task: int) -> Labelled:
        rows = self._ring.rows[task]
        return self.stream.training(torch.full_like(rows, task), rows)

    def _gradient(self, samples: Labelled) -> Tensor:
        return torch.cat([x.flatten() for x in torch.autograd.grad(self.loss(samples), self._parameters)])

    def _apply(self, gradient: Tensor) -> None:
        sizes = [x.numel() for x in self._parameters]
        for parameter, part in zip(self._parameters, torch.split(gradient, sizes), strict=True):
            parameter.grad = part.view_as(parameter)
        self._optimiser.step()


class MetaReplay(Strategy):
    """Reptile over a reservoir: gradient steps on replays and then on the batch, of which a part is kept."""

    def __init__(self, stream: Stream, settings: Settings) -> None:
        super().__init__(stream, settings, modulated=False)
        self._reservoir = Reservoir(settings.memory * stream.tasks)
        self._optimiser = SGD(self.base.parameters(), settings.theta_lr)

    def observe(self, batch: Samples) -> None:
        """θ ← θ_before + γ (θ_after − θ_before)."""
        before = [x.detach().clone() for x in self.base.parameters()]
        if len(self._reservoir):
            for _ in range(self.settings.inner_steps):
                self._descend(self.stream.training(*self._reservoir.draw(self.settings.batch, self.generator)))
        self._descend(self.stream.training(*batch))
        with torch.no_grad():
            for x, start in zip(self.base.parameters(), before, strict=True):
                x.copy_(torch.lerp(start, x, self.settings.gamma_reptile))
        self._reservoir.write(int(batch.task[0]), batch.row, self.generator)

    def memory(self, tasks: int) -> tuple[Tensor, Tensor]:
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


def project(gradient: Tensor, earlier: Tensor, margin: float) -> Tensor:
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
    u = solve_bounded((wide @ wide.T).numpy(), products.numpy(), margin)
    return gradient + torch.from_numpy(u).to(gradient.dtype) @ earlier


def solve_bounded(gram: NDArray[np.float64], products: NDArray[np.float64], least: float) -> NDArray[np.float64]:
    """The u ≥ least that minimises ½ uᵀPu + qᵀu with P = gram + 10⁻³ I.

    With w = u − least ≥ 0 and P = VΛVᵀ it is the non-negative least-squares problem ‖Aw + A⁻ᵀ(q + least P1)‖² with
    A = Λ^½Vᵀ. No eigenvalue of a Gram matrix is negative: one that is negative by rounding counts as zero.
    """
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh(gram)
    root = np.sqrt(values.clip(min=0) + 1e-3)
    a = root[:, None] * vectors.T
    target = -(vectors.T @ products) / root - least * a.sum(axis=1)
    w: NDArray[np.float64] = nnls(a, target)[0]
    return w + least


REPLAY: Mapping[str, type[Offline | ExperienceReplay | GradientMemory | MetaReplay]] = {
    "offline": Offline,
    "er": ExperienceReplay,
    "gem": GradientMemory,
    "mer": MetaReplay,
}
"""The strategies of this module by name."""
