"""`DataMixture`: the weights of data sources as the outer variable of a bilevel problem."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam, AdamW, Optimizer

from bome._checks import check_count, check_positive
from bome.data.streams import Data, Stream
from bome.errors import ProblemError
from bome.inner import GradientDescent
from bome.loop import Record, Result, run
from bome.methods import BOME
from bome.methods.base import Method
from bome.mixture.gpt import trainable
from bome.mixture.sources import IGNORED, AllSources, MixedText, Tokens, named, padded, stream
from bome.oracles import OracleName
from bome.problem import Problem
from bome.projections import simplex
from bome.stopping import MaxSteps, Progress

TARGET = "target"
"""How the target is called in messages."""


@dataclass
class DataMixture:
    """Learn the weights of data sources so that a language model trained on their mixture does well on a target set.

        min over weights w and parameters θ of  L_target(θ)   where θ minimises  Σ_s w_s L_s(θ)

    L is the mean cross-entropy of the next token. BOME needs the model once, and beside it two vectors of the size of
    its trainable parameters; with LoRA and its like these are small. The model may be wrapped by DDP, sharded by
    `fully_shard`, compiled, or partly frozen: it is only called and differentiated once at a time.

    Attributes:
        form: "softmax" of free numbers, or "simplex": the weights themselves, projected.
        steps: outer steps.
        warmup: steps of AdamW with equal weights before, for a model that is not trained yet. A model that still learns
            fast on all sources cannot tell which of them help.
        warmup_lr: their learning rate.
        inner_steps: T, steps of each look-ahead.
        inner_lr: α, their step size.
        theta_lr: the learning rate of the model's parameters, for AdamW; `fit` may be given another optimiser. It
            should move θ far enough that the target shows in it: what a source loses by that tells its worth.
        outer_lr: the step size of the weights: of Adam for "softmax", whose steps have a size of their own however
            large the multiplier is; of gradient descent for "simplex".
        eta: η of BOME.
        batch: sequences of each source in a step.
        target_batch: sequences of the target in a step.
        length: tokens in a sequence, of sources that are one long text.
        autocast: compute in this type, such as `torch.bfloat16`; parameters stay as they are.
        method: in place of BOME.
        oracle: how to differentiate; "backward" works with every kind of model.
        seed: of what is drawn.

    Attributes after `fit`:
        weights_: the weight of each source, by name; they sum to 1.
        history_: rows with the weights, f and q̂ along the way.
        result_: the outcome of `bome.run`, with the certificate.

    Example:
        `DataMixture().fit(model, {"books": tokens, "web": tokens}, target=tokens).weights_`
    """

    form: Literal["softmax", "simplex"] = "softmax"
    steps: int = 200
    warmup: int = 0
    warmup_lr: float = 3e-3
    inner_steps: int = 5
    inner_lr: float = 0.1
    theta_lr: float = 2e-3
    outer_lr: float = 0.1
    eta: float = 1.0
    batch: int = 2
    target_batch: int = 16
    length: int = 64
    autocast: torch.dtype | None = None
    method: Method | None = None
    oracle: OracleName = "backward"
    seed: int = 0
    weights_: dict[str, float] = field(init=False, repr=False)
    history_: list[dict[str, Any]] = field(init=False, repr=False)
    result_: Result = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.form not in ("softmax", "simplex"):
            raise ProblemError(f"form must be 'softmax' or 'simplex', got {self.form!r}")
        for name in ("steps", "inner_steps", "batch", "target_batch", "length"):
            check_count(name, getattr(self, name))
        for name in ("inner_lr", "theta_lr", "outer_lr", "eta", "warmup_lr"):
            check_positive(name, getattr(self, name))

    def fit(
        self,
        model: nn.Module,
        sources: Mapping[str, Tokens],
        target: Tokens,
        *,
        inner_opt: Optimizer | None = None,
        progress: Callable[[Progress], None] | None = None,
        record: Path | None = None,
        log_every: int = 10,
    ) -> Self:
        """Learn the weights; the model is trained on the way.

        Args:
            model: maps token numbers (sequences, length) to logits, or to an object with `.logits`.
            sources: by name: a 1-d tensor of tokens, a 2-d one with a sequence in each row, or an iterable of batches
                such as a `DataLoader`.
            target: what the model should do well on, likewise. It is not trained on beyond the outer loss.
            inner_opt: the optimiser of the model's parameters; by default AdamW with `theta_lr`.
            progress: called after every step.
            record: a folder for checkpoints; a fit that was stopped is continued from there.
            log_every: steps between rows of the history.
        """
        names = self._checked(model, sources)
        data = self._data({name: sources[name] for name in names}, target)
        v = self._start(len(names), next(model.parameters()).device)
        opt = inner_opt if inner_opt is not None else AdamW(trainable(model), self.theta_lr)
        if self.warmup and not _begun(record):
            self._warm_up(model, data.inner)

        def observe(problem: Problem) -> dict[str, float]:
            return dict(zip((f"weight/{name}" for name in names), self._weights(v).tolist(), strict=True))

        self.result_ = run(
            Problem(self._outer, self._inner, v, model, project_v=simplex() if self.form == "simplex" else None),
            self.method or BOME(GradientDescent(self.inner_lr, self.inner_steps), self.eta),
            outer_opt=Adam([v], self.outer_lr) if self.form == "softmax" else SGD([v], self.outer_lr),
            inner_opt=opt,
            data=data,
            stop=MaxSteps(self.steps),
            oracle=self.oracle,
            observe=observe,
            log_every=log_every,
            record=None if record is None else Record(record, save_every=max(self.steps // 10, 1), resume=True),
            progress=progress,
            refit=False,
        )
        self.weights_ = dict(zip(names, self._weights(v).tolist(), strict=True))
        self.history_ = [dict(row) for row in self.result_.history.rows]
        return self

    def probabilities(self) -> Tensor:
        """The weights in the order of the sources, for a sampler of further training."""
        return torch.tensor(list(self.weights_.values()), dtype=torch.float64)

    def sampler(self, sources: Mapping[str, Tensor], size: int, seed: int = 0) -> MixedText:
        """Batches for further training, whose sequences come from the sources as often as the weights say."""
        if list(sources) != list(self.weights_):
            raise ProblemError(f"the mixture was learned for the sources {list(self.weights_)}, got {list(sources)}")
        return MixedText(sources, self.probabilities().tolist(), size, self.length, seed)

    def _checked(self, model: nn.Module, sources: Mapping[str, Tokens]) -> tuple[str, ...]:
        if not isinstance(model, nn.Module) or not trainable(model):
            raise ProblemError("model must be a torch module with parameters to train")
        return named(sources)

    def _data(self, sources: Mapping[str, Tokens], target: Tokens) -> Data:
        """Batches of all sources and of the target; each rank draws its own."""
        seed = self.seed + 10**6 * _rank()
        outer = stream(TARGET, target, self.target_batch, self.length, seed + 1)
        each = {
            name: stream(name, tokens, self.batch, self.length, seed + 2 + i)
            for i, (name, tokens) in enumerate(sources.items())
        }
        return Data(inner=AllSources(each), outer=_Padded(outer))

    def _start(self, sources: int, device: torch.device) -> Tensor:
        """v for equal weights."""
        free = torch.zeros(sources, device=device)
        return free if self.form == "softmax" else free + 1 / sources

    def _weights(self, v: Tensor) -> Tensor:
        return v.detach().softmax(0) if self.form == "softmax" else v.detach()

    def _inner(self, v: Tensor, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        """g: the weighted mean of the losses of the sources."""
        tokens, numbers = batch
        each = self._losses(model, tokens)
        sums = each.new_zeros(len(v)).index_add(0, numbers, each)
        means = sums / torch.bincount(numbers, minlength=len(v))
        return ((v.softmax(0) if self.form == "softmax" else v) * means).sum()

    def _outer(self, v: Tensor, model: nn.Module, batch: Tensor) -> Tensor:
        """f: the loss on the target."""
        return self._losses(model, batch).mean()

    def _losses(self, model: nn.Module, tokens: Tensor) -> Tensor:
        with _computing(self.autocast, tokens.device):
            return sequence_losses(model, tokens)

    def _warm_up(self, model: nn.Module, sources: Stream) -> None:
        """Train with equal weights."""
        opt = AdamW(trainable(model), self.warmup_lr)
        for _ in range(self.warmup):
            opt.zero_grad()
            self._losses(model, sources.next()[0]).mean().backward()  # type: ignore[no-untyped-call]
            opt.step()
        opt.zero_grad()


def sequence_losses(model: nn.Module, tokens: Tensor) -> Tensor:
    """The mean cross-entropy of the next token of each sequence.

    Args:
        model: maps token numbers (sequences, length) to logits, or to an object with `.logits`.
        tokens: (sequences, length + 1); shorter sequences are filled up with `IGNORED` at their end.
    """
    given, wanted = tokens[:, :-1], tokens[:, 1:]
    out = model(given.clamp(min=0))
    logits = getattr(out, "logits", out)
    if not isinstance(logits, Tensor) or logits.shape[:2] != given.shape:
        raise ProblemError(
            "the model must give logits of shape (sequences, length, vocabulary), or an object with them"
        )
    each = cross_entropy(logits.float().transpose(1, 2), wanted, ignore_index=IGNORED, reduction="none")
    return each.sum(1) / (wanted != IGNORED).sum(1)


def _begun(record: Path | None) -> bool:
    """Whether there is a checkpoint to continue from."""
    return record is not None and any("." not in path.name for path in (record / "checkpoints").glob("step_*"))


def _rank() -> int:
    running = torch.distributed.is_available() and torch.distributed.is_initialized()
    return torch.distributed.get_rank() if running else 0


@contextlib.contextmanager
def _computing(dtype: torch.dtype | None, device: torch.device) -> Iterator[None]:
    if dtype is None:
        yield
    else:
        with torch.autocast(device.type, dtype):
            yield


class _Padded:
    """The batches of a stream as tensors of token numbers."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.state_dict, self.load_state_dict = inner.state_dict, inner.load_state_dict

    def next(self) -> Tensor:
        """The next batch."""
        return padded(self._inner.next(), TARGET)
