"""The mixture benchmark: weights of newsgroups and of junk for a small GPT that should do well on one newsgroup."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from bome_studies.learning.claims import decided
from bome_studies.learning.figures import drawing
from bome_studies.mixing import figures as figures
from bome_studies.mixing.trials import (
    BOME_NAME,
    EXTRA,
    F2SA_NAME,
    HELD_OUT,
    JUNK,
    OWN,
    UNIFORM,
    Protocol,
    Results,
    carry_out,
)
from bome_studies.page import BENCH, command
from bome_studies.study import Claim, Findings, Preset, Report, Row, Section

ABOUT = (
    "A small GPT over bytes is to do well on one newsgroup. Its sources are newsgroups, that one among them, and "
    "junk: text whose letters are shuffled. DataMixture learns a weight for each source with BOME, and with F2SA, the "
    "rule of ScaleBiO, at equal numbers of gradients. Then fresh models are trained on equally "
    "many tokens, drawn as the weights say, and judged on text of the target group that nothing has seen."
)

NOTES = (
    "Newsgroups: bodies of the training messages of 20 Newsgroups. The target and the held-out text are the two halves "
    "of the test messages of the target group. Junk: the letters of the target group's training text in random order.",
    "Both methods start from the same model, warmed up with equal weights. A step of BOME takes T + 2 gradients, one "
    "of F2SA 3T + 3. Adam moves the weights of both with step size 0.1, set after a look at the weights, not at "
    "held-out text: with 0.02, 0.05 and 0.2 and fewer steps they went the same way. Plain gradient descent on the "
    "weights, tried before with steps of 40, 120 and 180, let the weights of BOME jump to a single source, which was "
    "the one like the target with one seed of three: its multiplier is large now and then, and Adam "
    "bounds what comes of that.",
    "Preset quick has six newsgroups, preset paper all twenty.",
    "Extra memory: bytes of tensors alive at the same time during a step beyond those of a step of plain training, and "
    "the state kept between steps, in copies of the trainable parameters; counted for a wider model on a short text, "
    "where activations weigh little. Look-ahead by gradient descent, optimiser SGD.",
)

FEW = ("comp.graphics", "misc.forsale", "rec.sport.hockey", "sci.med", "sci.space", "talk.politics.mideast")
"""The newsgroups of preset quick; preset paper has all twenty."""

PROTOCOLS: Mapping[Preset, Protocol] = {
    "smoke": Protocol(text="package", target="methods", seeds=1, warmup=5, steps=3, train_steps=5, batch=1, width=8),
    "quick": Protocol(text="news", target="sci.space", seeds=3, groups=FEW),
    "paper": Protocol(
        text="news", target="sci.space", seeds=5, warmup=1000, steps=1000, train_steps=2000, batch=8, width=64, layers=2
    ),
}


class Mixing:
    """The benchmark of data mixtures, by one process."""

    name = f"{BENCH}mix"

    def carry_out(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; parts that are finished in `folder` are read, not run again."""
        results = carry_out(PROTOCOLS[preset], folder, report)
        return Findings(
            title="Learning a data mixture",
            about=ABOUT,
            sections=tuple(_sections(results)),
            claims=decided(_claims(results), preset),
            rows=tuple(_rows(results, preset, command(self.name, preset))),
            notes=NOTES,
        )


MIXING = Mixing()


def _claims(results: Results) -> Iterator[Claim]:
    junk = results.values(BOME_NAME, JUNK)
    yield Claim(
        "The weight of junk goes to nearly nothing: below a tenth of its equal share with every seed",
        "aim",
        BOME_NAME,
        "junk has " + ", ".join(f"{100 * x:.2f} %" for x in junk) + f"; equal weights: {100 / results.sources:.1f} %",
        max(junk) < 0.1 / results.sources,
    )
    own = {name: results.values(name, OWN) for name in (BOME_NAME, F2SA_NAME)}
    yield Claim(
        "The source like the target gets more than its equal share with every seed",
        "aim",
        BOME_NAME,
        "; ".join(f"{name}: " + ", ".join(f"{100 * x:.1f} %" for x in found) for name, found in own.items()),
        min(own[BOME_NAME]) > 1 / results.sources,
    )
    ours, equal = results.values(BOME_NAME, HELD_OUT), results.values(UNIFORM, HELD_OUT)
    yield Claim(
        "A fresh model trained with the learned weights beats one with equal weights at equal tokens, with every seed",
        "aim",
        BOME_NAME,
        "held-out loss " + ", ".join(f"{a:.3f} against {b:.3f}" for a, b in zip(ours, equal, strict=True)),
        all(a < b for a, b in zip(ours, equal, strict=True)),
    )
    other, error = results.mean(F2SA_NAME, HELD_OUT)
    mean, own_error = results.mean(BOME_NAME, HELD_OUT)
    yield Claim(
        "At equal gradients the weights of BOME are worth those of F2SA, within a standard error",
        "aim",
        f"{BOME_NAME}, {F2SA_NAME}",
        f"held-out loss {mean:.3f} ± {own_error or 0:.3f} against {other:.3f} ± {error or 0:.3f}",
        mean <= other + ((error or 0) ** 2 + (own_error or 0) ** 2) ** 0.5,
    )
    copies, others = results.mean(BOME_NAME, EXTRA)[0], results.mean(F2SA_NAME, EXTRA)[0]
    yield Claim(
        "BOME needs at most two copies of the trainable parameters beyond plain training, and fewer than F2SA",
        "aim",
        f"{BOME_NAME}, {F2SA_NAME}",
        f"{copies:.2f} copies against {others:.2f}",
        copies < 2.1 and copies < others,
    )


def _rows(results: Results, preset: Preset, told: str) -> Iterator[Row]:
    for method, metrics in results.metrics().items():
        for metric in metrics:
            mean, error = results.mean(method, metric)
            yield Row("mixture", method, "learned", metric, mean, error, results.seeds, preset, told)


def _sections(results: Results) -> Iterator[Section]:
    yield Section(
        "What the weights are worth",
        "Fresh models on the same number of tokens.",
        (
            drawing(
                "held-out",
                "Loss on held-out text of the target",
                f"Mean of the models of {results.seeds} seeds; a dot for each seed.",
                figures.losses(results),
            ),
        ),
    )
    yield Section(
        "The weights",
        "How they are learned, with seed 0, and where they end.",
        (
            drawing(
                "bome", "Weights over the steps of BOME", "Dashed: equal weights.", figures.path(results, BOME_NAME)
            ),
            drawing(
                "f2sa", "Weights over the steps of F2SA", "Dashed: equal weights.", figures.path(results, F2SA_NAME)
            ),
            drawing("weights", "Weights at the end", "Mean over the seeds.", figures.ends(results)),
        ),
    )
