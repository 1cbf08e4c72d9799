"""Sets to project on: the point of a set that is nearest to a tensor, exactly.

A set is a function `Tensor -> Tensor`; any such function of yours will do in its place. Those made of linear
constraints also tell them (`rows`). All work in float64 inside and return the dtype they are given.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from bome._checks import check_count, check_nonnegative
from bome._typing import Leaves, Projection
from bome.core.active import ActiveRows
from bome.core.ranks import is_sharded, local, shard_of, whole
from bome.errors import ProblemError

Bound = float | Tensor
Entries = Any
"""Numbers as a tensor, an array or nested lists."""


class Rows(NamedTuple):
    """Linear constraints A x ≤ b and E x = e on the entries x of a tensor, one after the other; all in float64."""

    A: Tensor
    b: Tensor
    E: Tensor
    e: Tensor


class Set:
    """A set that knows its nearest points, and its linear constraints if it is made of them."""

    def __call__(self, x: Tensor) -> Tensor:
        """The point of the set that is nearest to x; of a sharded x all ranks see the whole for a moment."""
        return shard_of(self.nearest(whole(x)), x) if is_sharded(x) else self.nearest(x)

    def nearest(self, x: Tensor) -> Tensor:
        """The same for a tensor that is not sharded."""
        raise NotImplementedError

    def rows(self, like: Tensor) -> Rows | None:
        """The linear constraints on a tensor of this shape; None if others are needed to describe the set."""
        return None


@dataclass(frozen=True, eq=False)
class Box(Set):
    """Entries between two bounds, which are numbers or tensors."""

    low: Bound
    high: Bound

    def __call__(self, x: Tensor) -> Tensor:
        """Entry by entry, so that a sharded tensor need not be gathered."""
        low, high = self.bounds(x)
        return x.clamp(low, high)  # type: ignore[arg-type]

    def bounds(self, like: Tensor) -> tuple[Bound, Bound]:
        """Both bounds, for the entries of such a tensor."""
        if not isinstance(self.low, Tensor) and not isinstance(self.high, Tensor):
            return self.low, self.high
        return _beside(self.low, like), _beside(self.high, like)

    def rows(self, like: Tensor) -> Rows:
        """x ≤ high and −x ≤ −low where these are finite; x = low where they are equal."""
        unit = torch.eye(like.numel(), dtype=torch.float64, device=like.device)
        bounds = (torch.as_tensor(x, dtype=torch.float64) for x in self.bounds(like))
        low, high = (_flat(x.expand(like.shape)).to(like.device) for x in bounds)
        fixed, above, below = low == high, (low < high) & high.isfinite(), (low < high) & low.isfinite()
        A, b = torch.cat([unit[above], -unit[below]]), torch.cat([high[above], -low[below]])
        return Rows(A, b, unit[fixed], low[fixed])


@dataclass(frozen=True)
class Ball(Set):
    """Tensors of Euclidean norm at most `radius`; the norm is taken in float64, where no square overflows."""

    radius: float

    def __call__(self, x: Tensor) -> Tensor:
        """x, shortened; no gathering is needed."""
        norm = torch.linalg.vector_norm(x, dtype=torch.float64)
        return (x * torch.where(norm > self.radius, self.radius / norm, 1.0)).to(x.dtype)


@dataclass(frozen=True)
class Simplex(Set):
    """Rows (the last dimension) of entries of at least `floor` that sum to 1, by sorting (Held, Wolfe, Crowder, 1974).

    Relative to the largest entry of each row: the projection of x + c is that of x, and with entries of 2^53 the sum of
    a row no longer feels the 1 that is taken from it.
    """

    floor: float = 0.0

    def nearest(self, x: Tensor) -> Tensor:
        """Row by row; the part of 1 above the floor is shared out as it would be without one."""
        y, left = x.double(), 1 - self.floor * x.shape[-1]
        if left <= 0:
            raise ProblemError(f"simplex(floor={self.floor}) has no room for rows of {x.shape[-1]} entries")
        y = y - y.amax(dim=-1, keepdim=True)
        u = y.sort(dim=-1, descending=True).values
        excess = u.cumsum(dim=-1) - left
        count = torch.arange(1, x.shape[-1] + 1, device=x.device, dtype=torch.float64)
        support = (u * count > excess).sum(dim=-1, keepdim=True)
        shift = excess.gather(-1, support - 1) / support
        return ((y - shift).clamp(min=0) + self.floor).to(x.dtype)

    def rows(self, like: Tensor) -> Rows:
        """−x ≤ −floor, and a sum for each row."""
        n, width = like.numel(), like.shape[-1]
        unit = torch.eye(n, dtype=torch.float64, device=like.device)
        sums = unit.reshape(n // width, width, n).sum(1)
        return Rows(-unit, unit.new_full((n,), -self.floor), sums, unit.new_ones(n // width))


@dataclass(frozen=True, eq=False)
class Polyhedron(Set):
    """Tensors whose entries x satisfy A x ≤ b and E x = e."""

    constraints: Rows

    def nearest(self, x: Tensor) -> Tensor:
        """The foot of the perpendicular on the constraints that hold with equality there; differentiable in x."""
        A, b, E, e = (part.to(x.device) for part in self.constraints)
        C, c = torch.cat([E, A]), torch.cat([e, b])
        if x.numel() != C.shape[1]:
            raise ProblemError(f"the set has {C.shape[1]} columns, but the tensor {x.numel()} entries")
        y = _flat(x)
        M: Tensor = ActiveRows.apply(y, C, c, len(E)) if len(A) else torch.linalg.pinv(E)  # type: ignore[no-untyped-call]
        for _ in range(2):  # the second time for the rounding of the first
            y = y - M @ (C @ y - c)
        return y.reshape(x.shape).to(x.dtype)

    def rows(self, like: Tensor) -> Rows:
        """As given."""
        return Rows(*(part.to(like.device) for part in self.constraints))


@dataclass(frozen=True)
class Product(Set):
    """A set, or none, for each of some blocks of consecutive entries of the last dimension."""

    sizes: tuple[int, ...]
    sets: tuple[Projection | None, ...]

    def nearest(self, x: Tensor) -> Tensor:
        """Block by block."""
        if x.dim() == 0 or x.shape[-1] != sum(self.sizes):
            raise ProblemError(f"product has {sum(self.sizes)} entries, but the tensor has shape {tuple(x.shape)}")
        parts = zip(torch.split(x, list(self.sizes), dim=-1), self.sets, strict=True)
        return torch.cat([part if rule is None else rule(part) for part, rule in parts], dim=-1)

    def rows(self, like: Tensor) -> Rows | None:
        """Those of all blocks, if all of them tell theirs."""
        places = torch.split(torch.arange(like.numel(), device=like.device).view_as(like), list(self.sizes), dim=-1)
        return _joined(self.sets, torch.split(like, list(self.sizes), dim=-1), places, like.numel())


@dataclass(frozen=True)
class Joint:
    """One set for all tensors of a variable, side by side as one vector."""

    rule: Projection

    def __call__(self, leaves: Leaves) -> Leaves:
        """All tensors, projected together."""
        flat = self.rule(torch.cat([whole(x).reshape(-1) if is_sharded(x) else x.reshape(-1) for x in leaves]))
        parts = torch.split(flat, [x.numel() for x in leaves])
        return tuple(shard_of(part.reshape(x.shape).to(x.dtype), x) for part, x in zip(parts, leaves, strict=True))


@dataclass(frozen=True)
class Rules:
    """The sets that the tensors of a variable live in: one, or none, for each of them, or one for all together.

    Attributes:
        each: for each tensor.
        joint: the one for all of them; `each` has no set then.
    """

    each: tuple[Projection | None, ...]
    joint: Joint | None = None

    def __bool__(self) -> bool:
        return self.joint is not None or any(rule is not None for rule in self.each)

    def __call__(self, leaves: Leaves) -> Leaves:
        """The leaves, projected."""
        return self.joint(leaves) if self.joint is not None else tuple(self._one_by_one(leaves))

    def write(self, leaves: Leaves) -> None:
        """Project in place, so that at most one leaf exists twice unless all are projected together."""
        for x, y in zip(
            leaves, self.joint(leaves) if self.joint is not None else self._one_by_one(leaves), strict=True
        ):
            if x is not y:
                x.copy_(y)

    def enter(self, leaves: Leaves) -> None:
        """Project in place what lies outside; what is inside but for rounding stays as it is, bit for bit."""
        for x, y in zip(leaves, self(leaves) if self else leaves, strict=True):
            rounding = 100 * torch.finfo(x.dtype).eps * (1 + local(x).abs())
            if is_sharded(x) or bool(((local(y) - local(x)).abs() > rounding).any()):
                x.copy_(y)

    @property
    def flat(self) -> bool:
        """Whether the sets are known to be made of linear constraints."""
        return _flat_sided(self.joint.rule) if self.joint is not None else all(map(_flat_sided, self.each))

    def bounds(self, leaves: Leaves) -> tuple[tuple[Bound, Bound] | None, ...]:
        """The bounds of each leaf, infinite where it is free; None where its set is no box."""
        if self.joint is not None:
            return (None,) * len(leaves)
        free = Box(-torch.inf, torch.inf)
        sets = (free if rule is None else rule for rule in self.each)
        return tuple(x.bounds(leaf) if isinstance(x, Box) else None for x, leaf in zip(sets, leaves, strict=True))

    def nearest(self, points: Leaves, leaves: Leaves) -> Leaves:
        """The projections of points in float64 that stand for the leaves; rules of yours see them in their dtype."""
        rules = (self.joint.rule,) * len(leaves) if self.joint is not None else self.each
        known = (isinstance(rule, Set) for rule in rules)
        given = (y if own else y.to(x.dtype) for own, y, x in zip(known, points, leaves, strict=True))
        return self(tuple(given))

    def rows(self, leaves: Leaves) -> Rows | None:
        """The linear constraints on the entries of all leaves, one after the other; None if that is not all."""
        sizes = [x.numel() for x in leaves]
        places = torch.arange(sum(sizes), device=leaves[0].device)
        if self.joint is not None:
            return _joined([self.joint.rule], [leaves[0].new_empty(sum(sizes))], [places], sum(sizes))
        return _joined(self.each, leaves, torch.split(places, sizes), sum(sizes))

    def _one_by_one(self, leaves: Leaves) -> Iterator[Tensor]:
        return (x if rule is None else rule(x) for x, rule in zip(leaves, self.each, strict=True))


def left(x: Leaves, direction: Leaves, rates: Sequence[float], rules: Rules) -> Leaves:
    """What projections leave of a direction: (x − P(x − ξδ)) / ξ, and δ itself where a tensor does not move."""
    moved = rules(tuple(y - rate * delta for y, rate, delta in zip(x, rates, direction, strict=True)))
    pairs = zip(x, moved, rates, direction, strict=True)
    return tuple((y - end) / rate if rate else delta for y, end, rate, delta in pairs)


def box(low: Bound, high: Bound) -> Box:
    """Entries between `low` and `high`: numbers, or tensors with a bound for each entry.

    Equal bounds fix an entry, infinite ones leave it free.
    """
    least, most = (torch.as_tensor(x, dtype=torch.float64) for x in (low, high))
    if not bool((least <= most).all()) or bool((least == torch.inf).any()) or bool((most == -torch.inf).any()):
        raise ProblemError(f"box needs low <= high, got [{low}, {high}]")
    return Box(low, high)


def nonnegative() -> Box:
    """Entries of at least 0."""
    return Box(0.0, torch.inf)


def ball(radius: float) -> Ball:
    """Tensors of Euclidean norm at most `radius`."""
    if not radius > 0:
        raise ProblemError(f"ball needs a positive radius, got {radius}")
    return Ball(radius)


def simplex(floor: float = 0.0) -> Simplex:
    """Rows (the last dimension) of entries of at least `floor` that sum to 1.

    Args:
        floor: a small share that every entry keeps, so that none is switched off for good: at 0 an entry has no effect
            on θ any more, and noise can take it there.
    """
    check_nonnegative("the floor of a simplex", floor)
    return Simplex(floor)


def half_space(a: Entries, b: float) -> Polyhedron:
    """Tensors x with ⟨a, x⟩ ≤ b; `a` has an entry for each of x."""
    return polyhedron(_matrix(a).reshape(1, -1), [b])


def polyhedron(A: Entries, b: Entries) -> Polyhedron:
    """Tensors whose entries x satisfy A x ≤ b: a row of A, and an entry of b, for each inequality."""
    return _polyhedron("polyhedron", A, b, equal=False)


def affine(A: Entries, b: Entries) -> Polyhedron:
    """Tensors whose entries x satisfy A x = b."""
    return _polyhedron("affine", A, b, equal=True)


def product(*parts: tuple[int, Projection | None]) -> Product:
    """A set for each block of entries along the last dimension, such as (2, box(0, 1)); None leaves a block free."""
    for size, rule in parts:
        check_count("the size of a block of product", size)
        if rule is not None and not callable(rule):
            raise ProblemError(f"product takes pairs such as (2, box(0, 1)), got {rule!r} for a set")
    return Product(tuple(size for size, _ in parts), tuple(rule for _, rule in parts))


def joint(rule: Projection) -> Joint:
    """One set for all tensors of a variable, side by side as one vector: project_theta=joint(simplex())."""
    if not callable(rule):
        raise ProblemError(f"joint takes a projection such as simplex(), got {rule!r}")
    return Joint(rule)


def _polyhedron(name: str, A: Entries, b: Entries, equal: bool) -> Polyhedron:
    A, b = _matrix(A), _matrix(b).reshape(-1)
    if A.dim() != 2 or len(A) != len(b) or not bool(A.isfinite().all()) or bool(b.isnan().any()):
        raise ProblemError(
            f"{name}(A, b) needs a finite matrix and an entry of b for each row, got {tuple(A.shape)} and {len(b)}"
        )
    used = b < torch.inf
    A, b = A[used], b[used]
    norms = A.norm(dim=1)
    length = torch.where(norms > 0, norms, 1.0)
    A, b, none = A / length[:, None], b / length, (A[:0], b[:0])
    rule = Polyhedron(Rows(*none, A, b) if equal else Rows(A, b, *none))
    start = A.new_zeros(A.shape[1])
    with np.errstate(all="ignore"):
        reached = rule.nearest(start) if bool(b.isfinite().all()) else start
    over = A @ reached - b
    if bool(((over.abs() if equal else over) > 1e-9 * (1 + b.abs())).any()):
        raise ProblemError(f"{name}(A, b) has no point: no x satisfies all rows")
    return rule


def _joined(
    sets: Sequence[Projection | None], likes: Sequence[Tensor], places: Sequence[Tensor], n: int
) -> Rows | None:
    """The constraints of several blocks as constraints on all n entries; None if a block does not tell its own."""
    blocks = []
    for rule, like, place in zip(sets, likes, places, strict=True):
        if rule is None:
            continue
        own = rule.rows(like) if isinstance(rule, Set) else None
        if own is None:
            return None
        A, E = (matrix.new_zeros(len(matrix), n).index_copy(1, place.reshape(-1), matrix) for matrix in (own.A, own.E))
        blocks.append(Rows(A, own.b, E, own.e))
    empty = torch.zeros(0, n, dtype=torch.float64, device=places[0].device)
    none = Rows(empty, empty[:, :0].reshape(0), empty, empty[:, :0].reshape(0))
    return Rows(*(torch.cat(parts) for parts in zip(none, *blocks, strict=True)))


def _flat_sided(rule: Projection | None) -> bool:
    if isinstance(rule, Product):
        return all(map(_flat_sided, rule.sets))
    return rule is None or isinstance(rule, (Box, Simplex, Polyhedron))


def _matrix(entries: Entries) -> Tensor:
    return torch.as_tensor(np.asarray(entries) if not isinstance(entries, Tensor) else entries).detach().double()


def _flat(x: Tensor) -> Tensor:
    return x.double().reshape(-1)


def _beside(bound: Bound, x: Tensor) -> Tensor:
    """A bound on the device, in the dtype and in the layout of a tensor."""
    bound = bound if isinstance(bound, Tensor) else torch.tensor(bound, dtype=torch.float64)
    if bound.dim() > x.dim() or any(m not in (1, n) for m, n in zip(bound.shape[::-1], x.shape[::-1], strict=False)):
        raise ProblemError(f"the bounds of box have shape {tuple(bound.shape)}, the tensor {tuple(x.shape)}")
    bound = bound.to(x.device, x.dtype)
    return shard_of(bound.expand(x.shape), x) if is_sharded(x) else bound
