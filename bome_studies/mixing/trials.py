"""The trials of the mixing study: texts, models, fits, and models trained afresh."""

import copy
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, AdamW

import bome
from bome._typing import Report
from bome.inner import GradientDescent
from bome.methods import BOME, F2SA
from bome.methods.base import Batches, Method
from bome.mixture import GPT, DataMixture, MixedText, Text
from bome.mixture.fit import sequence_losses
from bome.mixture.gpt import bytes_of
from bome.problem import Problem
from bome.runs.choice import mean_and_error
from bome.stepper import Stepper
from bome_studies.ledger import Ledger
from bome_studies.mixing.protocol import MixingProtocol
from bome_studies.parts import results_of

BOME_NAME, F2SA_NAME, UNIFORM, JUNK = "bome", "f2sa", "equal weights", "junk"
HELD_OUT, EXTRA, OWN, GRADIENTS, SECONDS = "held_out_loss", "extra_copies", "own", "gradients", "seconds"
VOCABULARY = 128
TRAINED = 28
"""Sequences in a batch of plain training."""


@dataclass(frozen=True)
class Texts:
    """Tokens.

    Attributes:
        sources: by name, the junk last.
        target: what the weights are learned for.
        held_out: what judges.
    """

    sources: dict[str, Tensor]
    target: Tensor
    held_out: Tensor


@dataclass(frozen=True)
class Results:
    """The numbers of all trials.

    Attributes:
        numbers: by seed and method, then by name.
        paths: by method, the history of the weights with seed 0.
        seeds: how many.
        target: the source that the target is like.
    """

    numbers: Mapping[tuple[int, str], Mapping[str, float]]
    paths: Mapping[str, list[dict[str, Any]]]
    seeds: int
    target: str

    @property
    def sources(self) -> int:
        """How many there are, junk included."""
        return len(self.weights(BOME_NAME))

    def values(self, method: str, metric: str) -> list[float]:
        """A number for each seed."""
        key = f"weight/{self.target if metric == OWN else JUNK}" if metric in (JUNK, OWN) else metric
        return [self.numbers[seed, method][key] for seed in range(self.seeds)]

    def mean(self, method: str, metric: str) -> tuple[float, float | None]:
        """Mean over the seeds and its standard error."""
        return mean_and_error(self.values(method, metric))

    def weights(self, method: str) -> dict[str, float]:
        """The mean weight of each source."""
        keys = [key for key in self.numbers[0, method] if key.startswith("weight/")]
        return {key.removeprefix("weight/"): self.mean(method, key)[0] for key in keys}

    def metrics(self) -> dict[str, tuple[str, ...]]:
        """The numbers that are reported of each method."""
        learned = (HELD_OUT, JUNK, OWN, EXTRA, GRADIENTS, SECONDS)
        return {BOME_NAME: learned, F2SA_NAME: learned, UNIFORM: (HELD_OUT,)}


@dataclass(frozen=True)
class Trial:
    """A method with a seed."""

    protocol: MixingProtocol
    seed: int
    method: str

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.seed}-{self.method.replace(' ', '-')}"


def learned(protocol: MixingProtocol, folder: Path, report: Report) -> Results:
    """The numbers of every trial; those that are in the folder are read."""
    trials = [
        Trial(protocol, seed, method) for seed in range(protocol.seeds) for method in (UNIFORM, BOME_NAME, F2SA_NAME)
    ]
    results = results_of(trials, perform, folder, report)
    numbers = {(trial.seed, trial.method): results[trial.name]["numbers"] for trial in trials}
    paths = {trial.method: results[trial.name]["history"] for trial in trials if trial.seed == 0}
    return Results(numbers, paths, protocol.seeds, protocol.target)


# --- texts ------------------------------------------------------------------------------------------------------------


@cache
def read_texts(protocol: MixingProtocol) -> Texts:
    """The sources, with junk, the target and the held-out text."""
    sources, group = _news(protocol) if protocol.text == "news" else _package(protocol.target)
    letters = sources[protocol.target]
    sources[JUNK] = letters[torch.randperm(len(letters), generator=torch.Generator().manual_seed(0))]
    half = len(group) // 2
    return Texts(sources, group[:half], group[half:])


def _news(protocol: MixingProtocol) -> tuple[dict[str, Tensor], Tensor]:
    from bome.data.sets import newsgroups

    news = newsgroups()
    labels = news.train_labels.tolist()
    groups = {
        name: _joined([text for text, label in zip(news.train, labels, strict=True) if label == i])
        for i, name in enumerate(news.classes)
        if not protocol.groups or name in protocol.groups
    }
    number = news.classes.index(protocol.target)
    test = [text for text, label in zip(news.test, news.test_labels.tolist(), strict=True) if label == number]
    return groups, _joined(test)


def _joined(messages: list[str]) -> Tensor:
    """The bodies of messages, without what is not ASCII."""
    bodies = (message.partition("\n\n")[2] or message for message in messages)
    return bytes_of("\n\n".join(bodies).encode("ascii", "ignore"))


def _package(target: str) -> tuple[dict[str, Tensor], Tensor]:
    """Source files as text, for tests."""
    root = Path(bome.__file__).parent
    texts = {}
    for name in (target, "oracles", "reports"):
        parts = [path.read_bytes() for path in sorted((root / name).glob("*.*"))]
        texts[name] = bytes_of(b"\n".join(parts).decode().encode("ascii", "ignore"))
    own = texts[target]
    cut = 3 * len(own) // 4
    texts[target] = own[:cut]
    return texts, own[cut:]


# --- trials -----------------------------------------------------------------------------------------------------------


def perform(trial: Trial) -> dict[str, Any]:
    """Learn weights, unless they are equal, and train a fresh model with them."""
    protocol, method, seed = trial.protocol, trial.method, trial.seed
    texts = read_texts(protocol)
    if method == UNIFORM:
        equal = [1.0] * len(texts.sources)
        return {"numbers": {HELD_OUT: fresh_loss(protocol, texts, equal, seed)}, "history": []}
    model = _warm(protocol, texts, seed)
    start = time.process_time()
    mixture = fitted(protocol, texts, model, method, seed)
    seconds = time.process_time() - start
    numbers = {
        **{f"weight/{name}": weight for name, weight in mixture.weights_.items()},
        HELD_OUT: fresh_loss(protocol, texts, mixture.probabilities().tolist(), seed),
        EXTRA: extra_copies(method),
        GRADIENTS: float(sum(mixture.result_.evaluations.values())),
        SECONDS: seconds,
    }
    history = [{key: row[key] for key in row if key == "step" or "weight/" in key} for row in mixture.history_]
    return {"numbers": numbers, "history": history}


def fitted(protocol: MixingProtocol, texts: Texts, model: GPT, method: str, seed: int) -> DataMixture:
    """The mixture that a method learns from a warm model, at the gradients of `protocol.steps` steps of BOME."""
    inner = GradientDescent(protocol.inner_lr, protocol.inner_steps)
    first = method == BOME_NAME
    gradients = protocol.steps * (protocol.inner_steps + 2)
    mixture = DataMixture(
        steps=protocol.steps if first else max(1, gradients // (3 * protocol.inner_steps + 3)),
        outer_lr=protocol.outer_lr,
        batch=protocol.batch,
        target_batch=TRAINED,
        length=protocol.length,
        method=_method(method, inner),
        seed=seed,
    )
    # F2SA moves θ itself, by the learning rate of this optimiser.
    opt = AdamW(model.parameters(), protocol.theta_lr) if first else SGD(model.parameters(), protocol.inner_lr)
    return mixture.fit(model, texts.sources, texts.target, inner_opt=opt, log_every=5)


def _method(name: str, inner: GradientDescent) -> Method:
    return BOME(inner, eta=1.0) if name == BOME_NAME else F2SA(inner, lam=1.0, schedule="constant")


def fresh_loss(protocol: MixingProtocol, texts: Texts, weights: list[float], seed: int) -> float:
    """The held-out loss of a model trained from the start with these weights."""
    torch.manual_seed(1000 + seed)
    model = _model(protocol)
    data = MixedText(texts.sources, weights, TRAINED, protocol.length, seed=5000 + 100 * seed)
    _train(model, data.next, protocol.train_steps)
    with torch.no_grad():
        text = Text("held-out", texts.held_out, 512, protocol.length, 0)
        return math.fsum(float(sequence_losses(model, text.next()).mean()) for _ in range(2)) / 2


def _warm(protocol: MixingProtocol, texts: Texts, seed: int) -> GPT:
    torch.manual_seed(seed)
    model = _model(protocol)
    _train(
        model,
        MixedText(texts.sources, [1.0] * len(texts.sources), TRAINED, protocol.length, seed).next,
        protocol.warmup,
    )
    return model


def _model(protocol: MixingProtocol) -> GPT:
    return GPT(VOCABULARY, protocol.length, protocol.width, protocol.layers)


def _train(model: GPT, draw: Callable[[], Tensor], steps: int) -> None:
    opt = AdamW(model.parameters(), 3e-3)
    for _ in range(steps):
        opt.zero_grad()
        sequence_losses(model, draw()).mean().backward()  # type: ignore[no-untyped-call]
        opt.step()


# --- memory -----------------------------------------------------------------------------------------------------------


def extra_copies(method: str) -> float:
    """Memory of a step and of what is kept between steps, over plain training, in copies of θ."""
    torch.manual_seed(0)
    model, tokens = GPT(VOCABULARY, 8, 256, 4), torch.arange(18).view(2, 9)
    copy_of_theta = sum(p.numel() * p.element_size() for p in model.parameters())
    mixture = DataMixture()
    v = torch.zeros(2)
    batches = (tokens, torch.arange(2)), tokens

    def plain() -> None:
        loss = mixture._inner(v, model, batches[0])
        loss.backward()  # type: ignore[no-untyped-call]
        opt.step()
        opt.zero_grad()

    opt = SGD(model.parameters(), 1e-3)
    solver = _method(method, GradientDescent(1e-3, 3))
    problem = Problem(mixture._outer, mixture._inner, v, copy.deepcopy(model))
    stepper = Stepper(problem, solver, SGD([v], 0.1), SGD(problem.theta.leaves, 1e-3), oracle="backward")
    step_batches = Batches(inner=(batches[0],) * solver.inner_batches, outer=(batches[1],) * solver.outer_batches)
    peaks = []
    for step in (plain, lambda: stepper.step_on(step_batches)):
        step()
        with Ledger() as ledger:
            step()
        peaks.append(ledger.peak)
    state = sum(x.numel() * x.element_size() for leaves in stepper.state.values() for x in leaves)
    return float((peaks[1] + state - peaks[0]) / copy_of_theta)
