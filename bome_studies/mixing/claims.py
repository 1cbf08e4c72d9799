"""The aims of the mixing study, and its rows of numbers."""

from collections.abc import Iterator

from bome_studies.mixing.trials import BOME_NAME, EXTRA, F2SA_NAME, HELD_OUT, JUNK, OWN, UNIFORM, Results
from bome_studies.study import Claim, Preset, Row


def claims(results: Results) -> Iterator[Claim]:
    """Each aim, with what the trials show."""
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
        "; ".join(f"{name}: " + ", ".join(f"{100 * x:.1f} %" for x in shares) for name, shares in own.items()),
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


def rows_of(results: Results, preset: Preset, command: str) -> Iterator[Row]:
    """All numbers."""
    for method, metrics in results.metrics().items():
        for metric in metrics:
            mean, error = results.mean(method, metric)
            yield Row("mixture", method, "learned", metric, mean, error, results.seeds, preset, command)
