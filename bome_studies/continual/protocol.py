"""What the continual-learning experiment runs: strategies, the settings among which they are chosen, and seeds."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bome.errors import ProblemError
from bome_studies.continual.results import NEARER, SEEN, TUNED
from bome_studies.study import Preset

Values = Mapping[str, Any]

Varied = tuple[str, Values]
"""A strategy and its settings."""


def _grid(**lists: Sequence[Any]) -> tuple[Values, ...]:
    """All combinations."""
    found: list[dict[str, Any]] = [{}]
    for key, values in lists.items():
        found = [{**each, key: value} for each in found for value in values]
    return tuple(found)


@dataclass(frozen=True)
class Candidate:
    """A strategy, and the settings among which it is chosen.

    Attributes:
        strategy: its name.
        seeds: how many runs.
        variant: "published" where the settings are those of the paper or of the strategy's authors, "usual" where
            nobody published any and none are chosen, "selected" where they were chosen on the tuning tasks, "nearer"
            where they were looked for to come near to the paper's row, "seen" where the current task is replayed too.
        grid: the settings to choose from, beside the usual ones of the strategy.
    """

    strategy: str
    seeds: int
    variant: str = "published"
    grid: tuple[Values, ...] = ()


@dataclass(frozen=True)
class Protocol:
    """How much is run on a stream of tasks.

    Attributes:
        task: the stream.
        candidates: what is compared.
        ablations: BOME with other settings, or without its barrier, by label.
        ablation_seeds: runs of each of them.
        tuning_seeds: runs of each setting on the tuning tasks, by the mean of which settings are chosen.
    """

    task: str
    candidates: tuple[Candidate, ...]
    ablations: Mapping[str, Varied] = field(default_factory=dict)
    ablation_seeds: int = 1
    tuning_seeds: int = 1

    def candidate(self, strategy: str, variant: str | None = None) -> Candidate:
        """The one of a strategy, and of a variant where there are several."""
        for each_one in self.candidates:
            if each_one.strategy == strategy and variant in (None, each_one.variant):
                return each_one
        known = ", ".join(f"{c.strategy} ({c.variant})" for c in self.candidates)
        raise ProblemError(f"{self.task} has no {strategy!r} {variant or ''} in this preset; it has {known}")


ABLATIONS: Mapping[str, Varied] = {
    **{
        f"η = {eta:g}, φ = {sign}, T = {t}": ("ctn+bome", {"eta": eta, "phi": phi, "inner_steps": t})
        for phi, sign in (("norm", "η‖∇q̂‖²"), ("gap", "ηq̂"))
        for eta, t in ((0.1, 2), (0.5, 2), (1.0, 2), (2.0, 2), (2.0, 1), (2.0, 5))
        if (phi, eta, t) != ("norm", 2.0, 2)
    },
    **{f"no barrier, λ = {gamma:g}, T = 2": ("ctn+pbgd", {"gamma": gamma}) for gamma in (0.5, 1.0, 2.0)},
    "η = 2, φ = η‖∇q̂‖², T = 2, preconditioned": ("ctn+bome:preconditioned", {}),
    "η = 2, φ = η‖∇q̂‖², T and the scale of v automatic": ("ctn+bome:auto", {}),
}
"""Both barriers with η between 0.1 and 2 and with T between 1 and 5, but for those published; a constant λ; and
what this library adds to the paper."""

OFFLINE = _grid(theta_lr=(0.01, 0.03, 0.1))
REPLAY = _grid(theta_lr=(0.03, 0.1), inner_steps=(1, 2))
PROJECTED = _grid(theta_lr=(0.03, 0.1), inner_steps=(1, 2))
REPTILE = _grid(theta_lr=(0.1, 0.3), gamma_reptile=(0.3, 1.0), inner_steps=(2, 5))
ITD = (
    *_grid(inner_steps=(1, 2, 5), replay_from=("previous", "seen")),
    *_grid(inner_steps=(1, 2), updates=(5,), replay_from=("previous", "seen")),
    *_grid(inner_steps=(1, 2), theta_lr=(0.1,), replay_from=("previous", "seen")),
)
BVFSM = _grid(c_z=(0.001, 0.01), c_ln=(0.01, 0.1, 1.0, 10.0))
PENALTY = _grid(lam=(0.01, 0.1, 1.0, 10.0), gamma=(0.01, 0.1))
BOME = (
    *_grid(eta=(1.0, 2.0, 4.0), inner_steps=(1, 2, 5), geometry=("euclidean", "steps")),
    *_grid(eta=(1.0, 2.0, 4.0), inner_steps=(1, 2, 5), replay_from=("seen",)),
    *_grid(eta=(2.0, 4.0), inner_steps=(1,), updates=(5,), replay_from=("previous", "seen")),
    *_grid(eta=(2.0, 4.0), inner_steps=(1,), theta_lr=(0.1,), replay_from=("previous", "seen")),
)

ALL_SEEN: tuple[Values, ...] = ({"replay_from": "seen"},)
"""As one of the two published versions of the contextual network replays."""

NEAR: Mapping[str, Values] = {
    "mer": {"gamma_reptile": 0.5},
    "ctn+bvfsm": {"c_z": 0.01, "c_ln": 1.0},
    "ctn+penalty": {"lam": 0.02, "gamma": 0.01},
}
"""Settings that come near to the paper's rows on permuted MNIST, where the others do not."""

USUAL = (
    Candidate("offline", 1, "usual", _grid(theta_lr=(0.1,))),
    Candidate("mer", 1),
    Candidate("gem", 1, "usual"),
    Candidate("er", 1, "usual"),
    Candidate("ctn+itd", 1),
    Candidate("ctn+bvfsm", 1, TUNED, BVFSM),
    Candidate("ctn+penalty", 1, TUNED, PENALTY),
    Candidate("ctn+bome", 1),
)
"""Every strategy of the paper once, with the settings of its authors where they told them."""

FURTHER = (
    Candidate("offline", 5, TUNED, OFFLINE),
    Candidate("mer", 5, TUNED, REPTILE),
    Candidate("mer", 2, NEARER, (NEAR["mer"],)),
    Candidate("gem", 5, TUNED, PROJECTED),
    Candidate("er", 5, TUNED, REPLAY),
    Candidate("ctn+itd", 5, SEEN, ALL_SEEN),
    Candidate("ctn+itd", 5, TUNED, ITD),
    Candidate("ctn+itd:total", 5, "usual"),
    Candidate("ctn+bvfsm", 2, NEARER, (NEAR["ctn+bvfsm"],)),
    Candidate("ctn+penalty", 2, NEARER, (NEAR["ctn+penalty"],)),
    Candidate("ctn+bome", 5, SEEN, ALL_SEEN),
    Candidate("ctn+bome", 5, TUNED, BOME),
)
"""What tells more of them."""

COSTLY: Mapping[str, tuple[Values, ...]] = {
    "offline": OFFLINE,
    "ctn+bvfsm": _grid(c_z=(0.001,), c_ln=(0.1, 1.0, 10.0)),
    "ctn+penalty": _grid(lam=(0.1, 1.0, 10.0), gamma=(0.01,)),
}
"""The settings to choose from where a run takes an hour: along the one that decides on permuted MNIST."""


def _arranged(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """In the order of the paper."""
    names = [candidate.strategy for candidate in USUAL]
    return tuple(sorted(candidates, key=lambda candidate: names.index(candidate.strategy.partition(":")[0])))


PROTOCOLS: Mapping[Preset, tuple[Protocol, ...]] = {
    "smoke": (
        Protocol(
            "continual-digits",
            tuple(
                replace(c, seeds=2 if c.strategy == "ctn+bome" else 1, grid=c.grid[: 2 if c.strategy == "er" else 1])
                for c in _arranged((*USUAL, *FURTHER))
            ),
            dict(list(ABLATIONS.items())[:2]),
        ),
    ),
    "quick": (
        Protocol(
            "continual-pmnist",
            tuple(replace(c, seeds=2 if c.strategy in ("ctn+itd", "ctn+bome") else 1) for c in USUAL),
        ),
    ),
    "paper": (
        Protocol(
            "continual-pmnist",
            _arranged((*(replace(c, seeds=5) for c in USUAL if c.strategy != "offline"), *FURTHER)),
            ABLATIONS,
            ablation_seeds=2,
            tuning_seeds=3,
        ),
        Protocol(
            "continual-cifar",
            tuple(
                replace(
                    c,
                    seeds=3 if c.strategy in ("ctn+itd", "ctn+bome") else 1,
                    variant=TUNED if c.strategy in COSTLY else "usual" if c.strategy == "mer" else c.variant,
                    grid=COSTLY.get(c.strategy, c.grid),
                )
                for c in USUAL
            ),
        ),
    ),
}
