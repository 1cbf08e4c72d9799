"""Outer variables with a row per sample: momentum for rows that are touched now and then, and loaders that tell rows.

A sample's row lives on the rank that sees the sample. `RankSampler` keeps every sample on its rank while it shuffles;
torch's `DistributedSampler` does so only without `set_epoch`. `gather_rows` collects the table at the end.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import Dataset, DistributedSampler, Sampler

from bome._checks import check_decay, check_positive
from bome.errors import ProblemError

FLUSHED_AT_ONCE = 1 << 16
"""Rows brought up to date together by `flush`: what a step holds beside the table stays small."""


class PerSample:
    """An outer variable with one row per training sample; a step touches only the rows of its batch.

    The losses receive the rows of the inner batch, in the order of that batch, in place of the whole table.

    Attributes:
        values: the table, of shape (n, *shape); give it to the outer optimiser.
        index: tells the sample indices of a batch; by default `batch.rows` of this library's streams, else the last
            element of the batch.
    """

    def __init__(
        self,
        n: int,
        init: float = 0.0,
        *,
        shape: tuple[int, ...] = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        index: Callable[[Any], Tensor] | None = None,
    ) -> None:
        if not isinstance(n, int) or n < 1:
            raise ProblemError(f"PerSample needs a whole number of samples, at least one, got n={n!r}")
        if index is not None and not callable(index):
            raise ProblemError(f"index of PerSample must be a function batch -> indices, got {type(index).__name__}")
        self.values = torch.full((n, *shape), init, dtype=dtype, device=device)
        self.index = index if index is not None else _indices_of

    def __len__(self) -> int:
        return self.values.shape[0]

    def rows(self, batch: Any) -> Tensor:
        """The sample indices of a batch, checked."""
        rows = self.index(batch)
        if not isinstance(rows, Tensor) or rows.dtype not in _INDEX_TYPES or rows.dim() != 1 or not len(rows):
            raise ProblemError(
                "PerSample needs the sample indices of each inner batch: give batches whose last element is a 1-d "
                "integer tensor, or PerSample(n, index=lambda batch: ...)"
            )
        low, high = (int(x) for x in rows.aminmax())
        if low < 0 or high >= len(self):
            raise ProblemError(
                f"a batch has sample indices from {low} to {high}, but PerSample({len(self)}) has rows 0 to "
                f"{len(self) - 1}"
            )
        return rows.long()


_INDEX_TYPES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _indices_of(batch: Any) -> Any:
    return batch.rows if hasattr(batch, "rows") else batch[-1] if isinstance(batch, (tuple, list)) and batch else None


class RowSGD(Optimizer):
    r"""SGD with momentum over tables of which a step touches some rows; equals dense `torch.optim.SGD` at each of them.

        rows with a gradient g:   b ← μ b + g,   row ← row − lr b
        all other rows:           b ← μ b,       row ← row − lr b

    The second line is put off until a row is touched again. After m missed steps with one learning rate it amounts to
    b ← μ^m b and row ← row − lr (μ + … + μ^m) b; with a schedule the sum has the rate of each missed step in it. So a
    step costs what its rows cost, however long the table is.

    A row's memory holds its value of the last time it was touched: `current` tells its value of now, and `flush` writes
    it into all rows, as should be done at the end of training. `Stepper` reads rows through `current`.

    With a projection, dense SGD projects every row after every step. Here a row is projected when it is touched, before
    and after the step. For `box`, `nonnegative` and `simplex` that is the same: a row coasts along a line, and a bound
    that it has met is not left again. For other sets, such as a ball for each row, it is not: there rows coast freely
    and are projected once.

    Args:
        params: tables, of which the first dimension counts the rows.
        lr: the learning rate; schedulers may change it.
        momentum: μ.
    """

    def __init__(self, params: Any, lr: float, momentum: float = 0.0) -> None:
        check_positive("lr", lr)
        check_decay("momentum", momentum)
        super().__init__(params, {"lr": lr, "momentum": momentum})
        for group in self.param_groups:
            check_decay("momentum", group["momentum"])
            if any(p.dim() < 1 for p in group["params"]):
                raise ProblemError("RowSGD needs tables whose first dimension counts the rows, got a scalar")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step on the rows of each gradient, which is sparse, or dense for all rows."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._step(p, *_rows_of(p.grad), group["lr"], group["momentum"])
        return loss

    def current(self, p: Tensor, rows: Tensor) -> Tensor:
        """What dense SGD would have in these rows now; nothing is written."""
        return self._coasted(p, rows)[0]

    @torch.no_grad()
    def settle(self, p: Tensor, rows: Tensor) -> None:
        """Write the steps that these rows, each named once, have missed."""
        state = self.state.get(p)
        if state:
            p[rows], state["momentum"][rows] = self._coasted(p, rows)
            state["last"][rows] = state["step"]

    def flush(self) -> None:
        """Write the steps that any row has missed."""
        for group in self.param_groups:
            for p in group["params"]:
                for start in range(0, len(p), FLUSHED_AT_ONCE):
                    self.settle(p, torch.arange(start, min(start + FLUSHED_AT_ONCE, len(p)), device=p.device))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go to a saved state; torch would make floating-point numbers of the counts of steps."""
        super().load_state_dict(state_dict)
        saved = [number for group in state_dict["param_groups"] for number in group["params"]]
        live = [p for group in self.param_groups for p in group["params"]]
        for number, p in zip(saved, live, strict=True):
            if number in state_dict["state"]:
                self.state[p]["last"] = state_dict["state"][number]["last"].to(p.device, torch.int32, copy=True)

    def _step(self, p: Tensor, rows: Tensor, grad: Tensor, lr: float, momentum: float) -> None:
        if not momentum:
            p.index_add_(0, rows, grad.to(p.dtype), alpha=-lr)
            return
        state = self.state[p]
        if not state:
            state["step"], state["rates"] = 0, [[1, float(lr)]]  # the first step and the value of each learning rate
            state["momentum"] = torch.zeros_like(p)
            state["last"] = torch.zeros(len(p), dtype=torch.int32, device=p.device)
        self.settle(p, rows)
        state["step"] += 1
        if state["rates"][-1][1] != float(lr):
            state["rates"].append([state["step"], float(lr)])
        buffer = state["momentum"][rows].mul_(momentum).add_(grad)
        state["momentum"][rows] = buffer
        p.index_add_(0, rows, buffer, alpha=-lr)
        state["last"][rows] = state["step"]

    def _coasted(self, p: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """These rows and their momentum after the steps they have missed."""
        values, state = p.detach()[rows], self.state.get(p)
        if not state:
            return values, torch.zeros_like(values)
        momentum = next(g["momentum"] for g in self.param_groups if any(q is p for q in g["params"]))
        last, buffer = state["last"][rows].long(), state["momentum"][rows]
        shape = (-1,) + (1,) * (values.dim() - 1)
        way = _way(last, state["step"], momentum, state["rates"]).to(values.dtype).view(shape)
        decay = (momentum ** (state["step"] - last).double()).to(values.dtype).view(shape)
        return values - way * buffer, decay * buffer


def _way(last: Tensor, step: int, momentum: float, rates: Sequence[Sequence[float]]) -> Tensor:
    """Σ_j lr_{last+j} μ^j over the missed steps last+j = last+1 .. step, for each row; in float64."""
    missed = (step - last).double()
    if rates[-1][0] <= int(last.min()) + 1:
        return rates[-1][1] * momentum * (1 - momentum**missed) / (1 - momentum)
    # Terms beyond the window are lost in rounding: μ^j / (1 − μ) < 2^−53.
    window = min(math.ceil((-53 * math.log(2) + math.log1p(-momentum)) / math.log(momentum)), step)
    j = torch.arange(1, window + 1, device=last.device)
    at = last[:, None] + j
    begins = torch.tensor([int(begin) for begin, _ in rates], device=last.device)
    each = torch.tensor([rate for _, rate in rates], dtype=torch.float64, device=last.device)
    lr = each[(torch.searchsorted(begins, at, right=True) - 1).clamp(min=0)]
    return torch.where(at <= step, lr * momentum ** j.double(), 0.0).sum(dim=1)


def _rows_of(grad: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of a gradient and their values, each row once."""
    if not grad.is_sparse:
        return torch.arange(len(grad), device=grad.device), grad
    grad = grad.coalesce()
    return grad.indices()[0], grad.values()


class _Sized(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Indexed(Dataset[tuple[Any, ...]]):
    """A data set whose samples carry their index as last element, where `PerSample` looks for it.

    Args:
        samples: any data set with a length: a torch `Dataset`, a list, a tensor.

    Example:
        `DataLoader(Indexed(TensorDataset(x, y)), batch_size=64, shuffle=True)` gives batches (x, y, indices).
    """

    def __init__(self, samples: _Sized) -> None:
        if not hasattr(samples, "__len__") or not hasattr(samples, "__getitem__"):
            raise ProblemError("Indexed needs a data set with a length and samples by index, not an iterable")
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        index = int(index)
        index = index + len(self) if index < 0 else index
        sample = self.samples[index]
        return (*sample, index) if isinstance(sample, (tuple, list)) else (sample, index)


class RankSampler(Sampler[int]):
    """Shuffles the samples of one rank; sample i stays on rank i mod `world`, in all epochs, and so does its row.

    Every rank gives the same number of samples, so that no rank waits for another: one with fewer repeats some of its
    own.

    Args:
        samples: how many there are on all ranks together.
        seed: of the order; the order of an epoch depends on the seed, the rank and the number of the epoch only.
        rank: of this process; by default as torch.distributed says.
        world: the number of ranks, likewise.
    """

    def __init__(self, samples: int, seed: int = 0, rank: int | None = None, world: int | None = None) -> None:
        running = dist.is_available() and dist.is_initialized()
        self.rank = rank if rank is not None else dist.get_rank() if running else 0
        self.world = world if world is not None else dist.get_world_size() if running else 1
        if not 0 <= self.rank < self.world or samples < self.world:
            raise ProblemError(f"rank {self.rank} of {self.world} ranks cannot have a share of {samples} samples")
        self.own = torch.arange(self.rank, samples, self.world)
        self._length, self._seed, self._epoch = -(-samples // self.world), seed, 0

    def __len__(self) -> int:
        return self._length

    def set_epoch(self, epoch: int) -> None:
        """Another order; it is also changed by every pass over the samples."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self._seed)
        generator.manual_seed(int(torch.randint(2**62, (), generator=generator)) + self._epoch * self.world + self.rank)
        self._epoch += 1
        order = self.own[torch.randperm(len(self.own), generator=generator)]
        return iter(torch.cat([order, order[: self._length - len(order)]]).tolist())


def own_rows(sampler: RankSampler | DistributedSampler[Any]) -> Tensor:
    """The rows that belong to this rank, each to exactly one; what `DistributedSampler` repeats is not its own."""
    if isinstance(sampler, RankSampler):
        return sampler.own
    indices = torch.tensor(list(sampler))
    samples = len(sampler.dataset)  # type: ignore[arg-type]
    place = sampler.rank + sampler.num_replicas * torch.arange(len(indices))  # in the list of all, repeats at its end
    return indices[place < samples]


def gather_rows(values: Tensor, own: Tensor) -> Tensor:
    """The table with each row as the rank has it that the row belongs to; on all ranks. Costs the whole table."""
    table = torch.zeros_like(values)
    table[own] = values.detach()[own]
    if dist.is_available() and dist.is_initialized():
        dist.all_reduce(table)
    return table
