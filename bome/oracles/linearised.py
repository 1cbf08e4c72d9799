"""Constraints as c ≤ 0, linearised: rows of their Jacobian are kept for as long as they tell the truth.

    c(x') ≈ J x' + o,   o = c(x) − J x

A row is computed again only where a value contradicts it, so that affine constraints cost one Jacobian in a whole run.
An equality e = 0 is e ≤ 0 and −e ≤ 0.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from bome._typing import Array
from bome.constraints import Level
from bome.core.trees import Pair, joined, times
from bome.oracles.base import Eval, Oracle
from bome.problem import Batches

Rows = tuple[Tensor, Array]
"""J and o of some point."""


class Linearised(NamedTuple):
    """c near a point.

    Attributes:
        values: c there.
        rows: J by all entries of v and θ, a row for each entry of c.
        offset: o.
        inner: how many entries, the first ones, belong to the inner problem.
    """

    values: Array
    rows: Tensor
    offset: Array
    inner: int


def linearised(
    oracle: Oracle, point: Pair, batches: Batches, level: Level, beside: Eval, kept: Rows | None
) -> Linearised:
    """The constraints at a point; as many evaluations as rows that were not kept.

    Args:
        oracle: what evaluates.
        point: (v, θ).
        batches: the first inner one is for inner constraints, the first outer one for the others.
        level: "inner" for those of the inner problem only.
        beside: an evaluation at this very point, beside which the values are free.
        kept: J and o of an earlier point.
    """
    x = joined(point)
    if not oracle.problem.constraints:
        return Linearised(np.zeros(0), x.new_zeros(0, len(x)), np.zeros(0), 0)
    found = oracle.constraints(*point, batches, (), level, beside=beside)
    number, sign, inner = _arranged(found.sizes.equalities, found.sizes.inner)
    c = sign * _numbers(found.values)[number]
    rows, offset = kept if kept is not None else (x.new_zeros(len(c), len(x)), np.full(len(c), np.inf))
    truth = max(1e-9, 32 * torch.finfo(x.dtype).eps)
    stale = ~(np.abs(_numbers(times(rows, x)) + offset - c) <= truth * np.maximum(1.0, np.abs(c)))
    if stale.any() and np.isfinite(c).all():
        asked = np.unique(number[stale])
        fresh = torch.stack([joined(row) for row in oracle.constraints(*point, batches, asked.tolist(), level).rows])
        places = np.flatnonzero(np.isin(number, asked))
        signs = torch.from_numpy(sign[places]).to(fresh)
        rows, offset = rows.clone(), offset.copy()
        rows[places] = signs[:, None] * fresh[np.searchsorted(asked, number[places])]
        offset[places] = c[places] - _numbers(times(rows[places], x))
    return Linearised(c, rows, offset, inner)


def _arranged(equalities: tuple[bool, ...], inner: int) -> tuple[Array, Array, int]:
    """The number and the sign of the constraint that each entry of c is, and how many are of the inner problem."""
    entries = [(i, sign) for i, both in enumerate(equalities) for sign in ((1.0, -1.0) if both else (1.0,))]
    number, sign = (np.array(column) for column in zip(*entries, strict=True)) if entries else (np.zeros(0, int),) * 2
    return number, sign, int((number < inner).sum())


def _numbers(x: Tensor) -> Array:
    numbers: Array = x.detach().double().cpu().numpy()
    return numbers
