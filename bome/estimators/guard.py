"""Candidate models, and the choice between them by trusted rows that were held out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import pandas as pd

from bome._typing import Array, Matrix, Report
from bome.estimators.belief import LARGE, Belief, learn_belief
from bome.estimators.models import Fitter, LinearFitter, Model, square_length
from bome.estimators.rows import Rows, copies, stack, trusted_folds
from bome.estimators.softmax import calibrated_error, log_loss, probabilities
from bome.estimators.weighting import Weighting, learn_factors
from bome.storage.memo import Memo

RIDGES = (30, 10, 3, 1, 0.3, 0.1)
"""Of models of the trusted rows alone, times 10⁻⁴ and the mean squared length of a row."""
GUARD_ENTRIES = 8_000_000
"""The guard looks at as many doubtful rows as have this many entries."""
RIDGE_ROWS = 2_000
ROBUST_POWER = 0.7
"""q, as its authors have it."""
ROBUST_ROUNDS = 2
NAMES = "cleaned", "relabelled", "trusted only", "all rows", "robust"
"""Of the candidates."""
FEW = 30
"""With fewer held-out rows the choice is little more than chance."""


@dataclass(frozen=True)
class Candidates:
    """What is known of one set of rows, and the models that can be made of it, each fitted when it is asked for.

    Attributes:
        rows: doubtful and trusted rows.
        fitters: of models of all rows: the one with the usual penalty first, and then lighter ones.
        alone: the model of the trusted rows.
        belief: in the labels of the doubtful rows.
        weighting: the bilevel run.
        weights: of the doubtful rows in the model "cleaned".
    """

    rows: Rows
    fitters: Sequence[Fitter]
    alone: Model
    belief: Belief
    weighting: Weighting
    weights: Array

    def models(self, name: str) -> list[Model]:
        """Those of one of the `NAMES`, by falling penalty where there are several."""
        given = np.concatenate([self.rows.given, self.rows.trusted])
        match name:
            case "cleaned":
                weights = np.concatenate([self.weights, np.ones(len(self.rows.trusted_labels))])
                return self._path(self._fit(given, weights), given, weights)
            case "relabelled":
                return self._relabelled
            case "trusted only":
                return [self.alone]
            case "all rows":
                return [self._fit(given, np.ones(len(given)))]
            case "robust":
                return [
                    robust(self.rows, fitter, start)
                    for fitter, start in zip(self.fitters, self._relabelled, strict=True)
                ]
        raise KeyError(name)

    @cached_property
    def _relabelled(self) -> list[Model]:
        targets = np.concatenate([self.belief.posterior, self.rows.trusted])
        return self._path(self.belief.model, targets, np.ones(len(targets)))

    def _path(self, model: Model, targets: Array, weights: Array) -> list[Model]:
        """A model, and those with lighter penalties, each begun at the one before."""
        models = [model]
        for lighter in self.fitters[1:]:
            models.append(lighter.fit(self._both, targets, weights, models[-1]))
        return models

    def _fit(self, targets: Array, weights: Array) -> Model:
        return self.fitters[0].fit(self._both, targets, weights, self.belief.model)

    @cached_property
    def _both(self) -> Matrix:
        return stack(self.rows.x, self.rows.trusted_x)


def learn_candidates(
    rows: Rows, few: Fitter, first: Array | None, seed: int, tell: Callable[[int, int], None] | None = None
) -> Candidates:
    """Learn what all candidates are made of.

    Args:
        rows: doubtful and trusted rows.
        few: suits the trusted rows alone; models of all rows have the penalty for noisy labels.
        first: where the factors of the weights begin; by default at 1.
        seed: of the bilevel run.
        tell: hears of the steps of the bilevel run.
    """
    alone = few.fit(rows.trusted_x, rows.trusted, np.ones(len(rows.trusted_labels)))
    fitter = few.for_noise(rows.x)
    belief = learn_belief(rows, fitter, few, alone)
    right = belief.of_given(rows.labels).astype(np.float64)
    most = right**2  # a coin toss counts a quarter: half-believed labels spoil more than they add
    begin = fitter.fit(rows.x, rows.given, most + 1e-6, belief.model)
    start = np.ones(len(most)) if first is None else first
    weighting = learn_factors(rows, fitter, begin, most, start, seed, tell)
    return Candidates(rows, (fitter, *fitter.lighter()), alone, belief, weighting, most * weighting.factors)


def robust(rows: Rows, fitter: Fitter, start: Model) -> Model:
    """All rows as they are, with the generalised cross entropy (Zhang and Sabuncu, 2018) for the doubtful ones.

    Its gradient is that of the cross entropy, weighted by the q-th power of the given label's probability: rows that
    the model cannot explain lose their say.
    """
    both, targets = stack(rows.x, rows.trusted_x), np.concatenate([rows.given, rows.trusted])
    model, ones = start, np.ones(len(rows.trusted_labels))
    for _ in range(ROBUST_ROUNDS):
        explained = probabilities(model.logits(rows.x))[np.arange(len(rows.labels)), rows.labels]
        model = fitter.fit(both, targets, np.concatenate([explained**ROBUST_POWER, ones]), model)
    return model


@dataclass(frozen=True)
class Verdict:
    """The choice between the candidates.

    Attributes:
        name: of the chosen one.
        number: of the chosen one among those of its name.
        reason: why, in one sentence.
        table: expected error of each on held-out rows, its standard error and the accuracy, a row per candidate.
        judged: the classes of the held-out rows.
    """

    name: str
    number: int
    reason: str
    table: pd.DataFrame
    judged: frozenset[int] = frozenset()


def judge(
    rows: Rows, fitter: Fitter, first: Array | None, count: int, seed: int, tell: Report, memo: Memo, key: str
) -> Verdict:
    """Fit the candidates without one part of the trusted rows after the other, and compare them on that part.

    Parts that are finished are read from the memo, if they are of the same key.
    """
    large = rows.x.shape[0] * rows.x.shape[1] > LARGE
    limit = max(1000, GUARD_ENTRIES // max(1, rows.x.shape[1]))
    if len(rows.labels) > limit:
        some = np.sort(np.random.default_rng(seed).permutation(len(rows.labels))[:limit])
        rows, first = rows.some(some), None if first is None else first[some]
    same = copies(rows)
    parts = trusted_folds(rows.trusted_labels, 2 if large else count, same.kind)
    logits: dict[str, list[Array]] = {}
    labels: list[Array] = []
    for number, (fit, held) in enumerate(parts):
        tell("comparing on held-out trusted rows", number, len(parts))
        others = ~np.isin(same.twin, same.kind[held])
        if not others.any():  # all are copies of rows that are held out
            continue
        apart, start = rows.some(others), None if first is None else first[others]
        candidates = memo.keep(f"held-out-{number}", key, partial(_held_out, apart, fit, held, fitter, start, seed))
        labels.append(rows.trusted_labels[held])
        for name, some in candidates.items():
            logits.setdefault(name, []).append(some)
    tell("comparing on held-out trusted rows", len(parts), len(parts))
    if not labels:
        return Verdict(
            "trusted only", 0, "There are too few trusted rows to compare models on held-out ones.", _compared({}, {})
        )
    return choose({name: np.concatenate(each, axis=1) for name, each in logits.items()}, np.concatenate(labels))


def _held_out(rows: Rows, fit: Array, held: Array, fitter: Fitter, first: Array | None, seed: int) -> dict[str, Array]:
    """The logits of the held-out trusted rows by each candidate fitted without them, shape (models, rows, classes)."""
    candidates = learn_candidates(rows.with_trusted(fit), fitter, first, seed)
    x = rows.trusted_x[held]
    return {name: np.stack([model.logits(x) for model in candidates.models(name)]) for name in NAMES}


def choose(logits: Mapping[str, Array], labels: Array) -> Verdict:
    """The candidate of the lowest expected error on held-out rows, each at the temperature that suits it best.

    Candidates have different penalties and so are more or less sure of the same answers; their order of the classes is
    what is to be compared. The expected error, one minus the probability of the right class, is bounded: a few hopeless
    rows do not decide, as they would by the cross entropy. Of the models of one name the best one speaks for it.

    Args:
        logits: of the held-out rows by name, shape (models, rows, classes).
        labels: of these rows.
    """
    errors = {name: [calibrated_error(model, labels) for model in each] for name, each in logits.items()}
    best = {name: int(np.argmin([model.mean() for model in each])) for name, each in errors.items()}
    table = _compared(
        {name: errors[name][number] for name, number in best.items()},
        {name: logits[name][number].argmax(axis=1) == labels for name, number in best.items()},
    )
    by_name = table.set_index("candidate")
    name = str(by_name["error"].idxmin())
    others = ", ".join(
        f"{other} {by_name.loc[other, 'error']:.3f} ({by_name.loc[other, 'accuracy']:.1%})"
        for other in by_name.index
        if other != name
    )
    reason = (
        f"On {len(labels)} trusted rows, each held out in turn, the model '{name}' has the lowest expected error: "
        f"{by_name.loc[name, 'error']:.3f} with {by_name.loc[name, 'accuracy']:.1%} right; {others}."
    )
    if len(labels) < FEW:
        reason += " With so few rows this may be chance."
    return Verdict(name, best[name], reason, table, frozenset(np.unique(labels).tolist()))


def _compared(errors: Mapping[str, Array], hits: Mapping[str, Array]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "candidate": list(errors),
            "error": [float(x.mean()) for x in errors.values()],
            "error_se": [float(x.std() / np.sqrt(len(x))) for x in errors.values()],
            "accuracy": [float(x.mean()) for x in hits.values()],
        }
    )


def tuned(fitter: Fitter, rows: Rows) -> Fitter:
    """The fitter with the ridge that suits the trusted rows best, by cross-validation; networks stay as they are."""
    if not isinstance(fitter, LinearFitter):
        return fitter
    every = -(-len(rows.trusted_labels) // RIDGE_ROWS)
    x, labels, kind = rows.trusted_x[::every], rows.trusted_labels[::every], copies(rows).kind[::every]
    targets = np.eye(rows.classes)[labels]
    ridges = 1e-4 * square_length(x) * np.array(RIDGES)
    losses = np.zeros(len(ridges))
    for fit, held in trusted_folds(labels, min(5, len(labels)), kind):
        model = None
        for number, ridge in enumerate(ridges):
            model = replace(fitter, ridge=ridge).fit(x[fit], targets[fit], np.ones(int(fit.sum())), model)
            losses[number] += log_loss(model.logits(x[held]), labels[held]).sum()
    return replace(fitter, ridge=float(ridges[losses.argmin()])) if losses.any() else fitter
