"""Results of the mixing study, made up."""

from bome_studies.mixing.trials import BOME_NAME, EXTRA, F2SA_NAME, GRADIENTS, HELD_OUT, JUNK, SECONDS, UNIFORM, Results


def results(
    *, junk: float = 0.01, own: float = 0.5, ours: float = 2.0, theirs: float = 2.1, copies: float = 2.0
) -> Results:
    """Two seeds with three sources, one of them junk; the loss with equal weights is 2.5."""

    def learned(own: float, loss: float, copies: float) -> dict[str, float]:
        weights = {"weight/space": own, f"weight/{JUNK}": junk, "weight/medicine": 1 - own - junk}
        return {**weights, HELD_OUT: loss, EXTRA: copies, GRADIENTS: 70.0, SECONDS: 1.0}

    numbers = {
        **{(seed, BOME_NAME): learned(own, ours, copies) for seed in range(2)},
        **{(seed, F2SA_NAME): learned(0.4, theirs, 7.0) for seed in range(2)},
        **{(seed, UNIFORM): {HELD_OUT: 2.5} for seed in range(2)},
    }
    path = [{"step": step, "weight/space": 0.4, f"weight/{JUNK}": 0.2, "weight/medicine": 0.4} for step in range(3)]
    return Results(numbers, {BOME_NAME: path, F2SA_NAME: path, UNIFORM: []}, 2, "space")
