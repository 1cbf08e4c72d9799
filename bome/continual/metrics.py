"""What is measured of continual learning, from the matrix of accuracies.

Row τ, column s of the matrix is a^s_τ: the test accuracy in per cent on task s after training on task τ; NaN where it
was not measured (s > τ). With t tasks:

    ACC = (1/t) Σ_s a^s_t               the accuracy on all tasks at the end
    FT  = (1/t) Σ_s a^s_s               the accuracy on each task right after it was learned
    NBT = FT − ACC                      negative backward transfer
    FM  = mean over s < t of max_{τ<t} a^s_τ − a^s_t      the forgetting measure of the contextual network's code

The paper prints FT as (1/t) Σ a^τ_t, which is ACC; but its tables have FT = ACC + NBT. NBT of its main table is
FT − ACC; that of its appendix is larger in every row and fits FM. Of a strategy that learns all tasks at once the
matrix has one row, which gives ACC only.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = Sequence[Sequence[float]]
"""Rows of accuracies."""

METRICS = ("acc", "ft", "nbt", "fm")


def metrics(matrix: Matrix) -> dict[str, float]:
    """ACC, FT, NBT and FM in per cent; NaN for what the matrix does not tell."""
    a: NDArray[np.float64] = np.asarray(matrix, dtype=np.float64)
    acc = float(a[-1].mean())
    if a.shape[0] != a.shape[1]:
        return {"acc": acc, "ft": math.nan, "nbt": math.nan, "fm": math.nan}
    ft = float(a.diagonal().mean())
    earlier = a[:-1, :-1]
    best = earlier.max(axis=0, where=~np.isnan(earlier), initial=-np.inf)
    fm = float((best - a[-1, :-1]).mean()) if len(earlier) else math.nan
    return {"acc": acc, "ft": ft, "nbt": ft - acc, "fm": fm}
