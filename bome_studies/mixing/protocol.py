"""What the mixing study runs: texts, models, and how much of both methods."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from bome_studies.study import Preset


@dataclass(frozen=True)
class MixingProtocol:
    """How much is run.

    Attributes:
        text: the 20 Newsgroups, or for tests the files of this package.
        target: the name of the source that the target is like.
        seeds: 0, 1, ...
        groups: of the newsgroups; none for all.
        warmup: steps of training with equal weights before the weights are learned.
        steps: outer steps of BOME; F2SA takes as many gradients.
        train_steps: of the fresh models.
        batch: sequences of each source in a step.
        length: tokens in a sequence.
        width: of the model.
        layers: of the model.
        inner_steps: T.
        inner_lr: α.
        theta_lr: of AdamW, for the model under BOME.
        outer_lr: of Adam, for the weights.
    """

    text: Literal["news", "package"]
    target: str
    seeds: int
    groups: tuple[str, ...] = ()
    warmup: int = 200
    steps: int = 400
    train_steps: int = 200
    batch: int = 8
    length: int = 32
    width: int = 32
    layers: int = 1
    inner_steps: int = 5
    inner_lr: float = 0.15
    theta_lr: float = 2e-3
    outer_lr: float = 0.1


FEW = ("comp.graphics", "misc.forsale", "rec.sport.hockey", "sci.med", "sci.space", "talk.politics.mideast")
"""The newsgroups of preset quick; preset paper has all twenty."""

PROTOCOLS: Mapping[Preset, MixingProtocol] = {
    "smoke": MixingProtocol(
        text="package", target="methods", seeds=1, warmup=5, steps=3, train_steps=5, batch=1, width=8
    ),
    "quick": MixingProtocol(text="news", target="sci.space", seeds=3, groups=FEW),
    "paper": MixingProtocol(
        text="news", target="sci.space", seeds=5, warmup=1000, steps=1000, train_steps=2000, batch=8, width=64, layers=2
    ),
}
