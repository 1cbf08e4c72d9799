r"""The multiplier λ of a step that projections cut short: it counts only what they leave of the step.

Where a bound is active, a part of the step ∇f + λ∇q̂ is undone by the projection P. BOME's λ counts that part too, and
then pushes too little or too much for the rest. So with P, the step sizes S and the point x,

    d(δ) = S⁻¹ (x − P(x − Sδ))                       what is left of a direction δ
    h(λ) = ⟨∇q̂, d(∇f + λ∇q̂)⟩                        how fast q̂ falls; it does not decrease in λ, as P is monotone
    λ    = the smallest λ ≥ 0 with h(λ) ≥ φ,         φ = η‖d(∇q̂)‖²  or  η q̂
    𝒦    = ‖d(∇f + λ∇q̂)‖² + q̂                       with the λ for φ = 0

Without a projection d(δ) = δ, and these are the formulas of `barrier`. The λ of 𝒦 is the minimiser of the convex
2⟨δ, d(δ)⟩ − ‖d(δ)‖² ≥ ‖d(δ)‖², δ = ∇f + λ∇q̂, whose derivative is 2h(λ): so 𝒦 = 0 exactly at stationary points.

*Search.* For boxes, first the λ that is right if no more bounds become active, which is the closed form where none is.
Else Newton's method within a bracket (for boxes as in Cominetti, Mascarenhas and Silva, 2014). Between two λ at which
bounds become active h is linear, so that it ends with the exact λ, for boxes after four rounds as a rule. The slope of
other sets is that of a secant.

*Bracket.* For boxes h is linear above all points at which they become active. For other sets the inequality of the
projection gives h(λ) ≥ r − ‖∇f − d‖²/4λ for d = d(τ∇q̂), r = ⟨∇q̂, d⟩ and every τ. A φ above what the sets allow is
lowered to it; that can be so if η > 1 or φ = η q̂, and it is where −∇q̂ leads out of the sets, where both are 0.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.core.barrier import Metric, Phi
from bome.core.ranks import layout, local, sharded_like
from bome.core.trees import Pair, in_blocks, number, over_ranks, products

Bounds = tuple[float | Tensor, float | Tensor]

FEW = 1 << 18
"""Up to so many entries of a tensor are kept in float64 while λ is searched."""
ROUNDS = 60
"""The most rounds of a search, which nearly always ends much earlier."""
NOISE, SETTLED = 1e-14, 1e-12
"""Rounding of h, relative to ‖∇q̂‖‖d‖; and the relative change of λ at which a search ends."""
LARGE = 1e150
"""A λ of which the square is finite."""
FAR = 1e3
"""τ: how far the bracket of other sets looks along ∇q̂, in units of the step that would reach φ."""
MOST, FLAT, ROUND = 0.99, 1e-9, 1e-4
"""A φ is lowered to this share of what other sets allow, less one of ‖∇q̂‖‖d(∇f)‖. Sets that are not made of linear
constraints reach what they allow only as λ grows to infinity, so theirs is larger."""
NEAR = 1e-6
"""How near h must be to φ, relative to ‖∇q̂‖‖d‖, for a λ that has settled by secants."""


class Sets(Protocol):
    """The sets that the tensors of a variable live in."""

    @property
    def flat(self) -> bool:
        """Whether they are made of linear constraints."""
        ...

    def bounds(self, leaves: Leaves) -> Sequence[Bounds | None]:
        """The bounds of each tensor, infinite where it is free; None where its set is no box."""
        ...

    def nearest(self, points: Leaves, leaves: Leaves) -> Leaves:
        """The projections of points in float64 that stand for the leaves, in the dtype they are computed in."""
        ...


class Left(NamedTuple):
    """What is left of a direction a∇f + b∇q̂, in inner products over all entries with the weights of their tensors.

    Attributes:
        fall: ⟨∇q̂, d⟩.
        square: ‖d‖².
        slope: by how much `fall` grows with b, as far as it is known.
        others: the part of `fall` whose slope is not known.
        noise: by how much rounding may change `fall`.
    """

    fall: Tensor
    square: Tensor
    slope: Tensor
    others: Tensor
    noise: Tensor


class Part(NamedTuple):
    """A tensor that is free or in a box.

    Attributes:
        q: ∇q̂.
        f: ∇f.
        x: the tensor.
        bounds: infinite where it is free.
        rate: its step size.
        weight: in inner products.
        kept: its blocks, where they are kept.
    """

    q: Tensor
    f: Tensor
    x: Tensor
    bounds: Bounds
    rate: float | Tensor
    weight: float | Tensor
    kept: tuple[tuple[Tensor, Tensor, Tensor, Tensor], ...] = ()

    def sums(self, of: Callable[[Tensor, Tensor, Tensor, Tensor], Leaves]) -> tuple[Any, Tensor]:
        """Numbers made of ∇q̂, ∇f and the least and the largest d, over the entries held here; and their layout."""
        return layout(self.q), torch.stack([torch.stack(of(*each)) for each in self.kept or self._blocks()]).sum(0)

    def keeping(self) -> "Part":
        """The same with its blocks kept in float64, if they are few: a search looks at them ten times."""
        return self._replace(kept=tuple(self._blocks())) if local(self.q).numel() <= FEW else self

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        q, f, x = local(self.q), local(self.f), local(self.x)
        low, high = (
            torch.as_tensor(local(y) if isinstance(y, Tensor) else y).to(x).expand(x.shape) for y in self.bounds
        )
        for dq, df, at, least, most in zip(*map(in_blocks, (q, f, x, low, high)), strict=True):
            place = at.double()
            yield dq.double(), df.double(), (place - most.double()) / self.rate, (place - least.double()) / self.rate


class Others(NamedTuple):
    """Those tensors of a variable, by their places, that are in other sets than boxes."""

    q: Leaves
    f: Leaves
    x: Leaves
    places: Sequence[int]
    sets: Sets
    rates: Sequence[float | Tensor]
    weights: Sequence[float | Tensor]

    def left(self, a: float, b: Tensor) -> Leaves:
        """⟨∇q̂, d⟩ and ‖d‖² of the direction a∇f + b∇q̂, and the square of the rounding of d."""
        steps = zip(self.q, self.f, self.x, self.rates, strict=True)
        points = (local(x).double() - rate * (a * local(f).double() + b * local(q).double()) for q, f, x, rate in steps)
        ends = self.sets.nearest(tuple(sharded_like(y, x) for y, x in zip(points, self.x, strict=True)), self.x)
        q, moved, rounding = tuple(self.q[i] for i in self.places), [], []
        for i in self.places:
            x, end = local(self.x[i]).double(), local(ends[i])
            moved.append(sharded_like((x - end) / self.rates[i], self.q[i]))
            rounding.append(sharded_like(x * (4 * torch.finfo(end.dtype).eps / self.rates[i]), self.q[i]))
        weights = [self.weights[i] for i in self.places]
        _, fall, square = products(q, tuple(moved), weights)
        return fall, square, products(q, tuple(rounding), weights)[2]


class Bounded:
    """Steps from a point, as the sets of its variables leave them.

    Args:
        point: (v, θ).
        f: ∇f there.
        q: ∇q̂ there.
        metric: the step sizes; a tensor that does not move counts with the step size of another.
        sets: those of v and those of θ.
        weights: of each tensor in inner products; by default 1.

    Attributes:
        of_f: what is left of ∇f.
    """

    def __init__(
        self, point: Pair, f: Pair, q: Pair, metric: Metric, sets: tuple[Sets, Sets], weights: Metric | None = None
    ) -> None:
        unit = next((rate for rate in metric.theta + metric.v if _moves(rate)), 1.0)
        free: list[Part] = []
        self._boxed: list[Part] = []
        self._others: list[Others] = []
        for side, rules in enumerate(sets):
            rates = [rate if _moves(rate) else unit for rate in metric[side]]
            shares = weights[side] if weights is not None else (1.0,) * len(rates)
            bounds = rules.bounds(point[side])
            for i, limits in enumerate(bounds):
                if limits is not None:
                    part = Part(q[side][i], f[side][i], point[side][i], limits, rates[i], shares[i])
                    (free if _infinite(limits) else self._boxed).append(part)
            places = [i for i, limits in enumerate(bounds) if limits is None]
            if places:
                self._others.append(Others(q[side], f[side], point[side], places, rules, rates, shares))
        self._boxed = [part.keeping() for part in self._boxed]
        self._end: tuple[Tensor, Tensor, Tensor] | None = None
        self._seen: tuple[Tensor, Left] | None = None
        self._zero = number(0.0, point.theta[0])
        self._free = products(tuple(x.f for x in free), tuple(x.q for x in free), [x.weight for x in free])
        flat = None if weights is None else weights.v + weights.theta
        self._f, _, self._q = (x.clamp(min=0).sqrt() for x in products(f.v + f.theta, q.v + q.theta, flat))
        self._slack = FLAT if all(rules.flat for rules in sets) else ROUND
        self.of_f, self._of_q = self._left(1.0, self._zero), self._left(0.0, self._zero + 1)

    def multiplier(self, kind: Phi, eta: float, gap: Tensor) -> Tensor:
        """λ for φ = η‖d(∇q̂)‖² or φ = η q̂."""
        return self._smallest(eta * self._of_q.square if kind == "norm" else eta * gap.clamp(min=0).double())

    def balance(self) -> tuple[Tensor, Tensor]:
        """The λ of 𝒦, and its first part."""
        lam = self._smallest(self._zero)
        return lam, self._at(lam).square

    def _left(self, a: float, b: Tensor) -> Left:
        """What is left of a∇f + b∇q̂."""

        def sums(q: Tensor, f: Tensor, least: Tensor, most: Tensor) -> Leaves:
            left = torch.clamp(a * f + b * q, least, most)
            between = torch.where((left > least) & (left < most), q, 0.0)
            return torch.dot(q, left), torch.dot(left, left), torch.dot(q, between)

        ff, fq, qq = self._free
        free = torch.stack([a * fq + b * qq, a * a * ff + 2 * a * b * fq + b * b * qq, qq])
        boxed = [(over, x.weight * each) for x in self._boxed for over, each in (x.sums(sums),)]
        fall, square, slope = over_ranks([(None, free), *boxed]).unbind()
        others, rounding = self._zero, self._zero
        for each in self._others:
            more, length, grain = each.left(a, b)
            others, square, rounding = others + more, square + length, rounding + grain
        noise = self._q * (NOISE * square.clamp(min=0).sqrt() + rounding.sqrt())
        return Left(fall + others, square, slope, others, noise)

    def _at(self, lam: Tensor) -> Left:
        """What is left of ∇f + λ∇q̂; that of the last λ is kept."""
        if self._seen is None or self._seen[0] is not lam:
            self._seen = lam, self._left(1.0, lam)
        return self._seen[1]

    def _smallest(self, phi: Tensor) -> Tensor:
        """The smallest λ ≥ 0 with h(λ) ≥ φ."""
        least = self.of_f.fall + self.of_f.noise
        if told(least >= phi):
            return torch.zeros_like(phi)
        if not self._others:
            new = _over(phi - self.of_f.fall, self.of_f.slope)
            then = self._at(new)
            if told((least < phi) & (new > 0) & ((then.fall - phi).abs() <= then.noise)):
                return new
        phi, upper = self._among_others(phi) if self._others else self._among_boxes(phi)
        return torch.where(least >= phi, 0.0, self._search(phi, upper))

    def _among_boxes(self, phi: Tensor) -> tuple[Tensor, Tensor]:
        """φ, or the largest h if that is smaller; and a λ that reaches it."""
        if self._end is None:
            self._end = self._last()
        last, most, slope = self._end
        rest = (phi - most).clamp(min=0)
        return torch.where(slope > 0, phi, phi - rest), last + _over(rest, slope)

    def _last(self) -> tuple[Tensor, Tensor, Tensor]:
        """A λ above which h is linear, h there, and its slope."""

        def ends(q: Tensor, f: Tensor, least: Tensor, most: Tensor) -> Leaves:
            """The squares of the λ above which entries are at a bound, or on and on; and the slope of the latter."""
            some, up = torch.where(q == 0, 1.0, q), q > 0
            begin, end = ((torch.where(side, most, least) - f) / some for side in (~up, up))
            on = end == torch.inf
            last = torch.where(q == 0, 0.0, torch.where(on, begin, end).clamp(0, LARGE))
            return torch.dot(last, last), torch.where(on & (q != 0), q * q, 0.0).sum()

        found = [(over, each[0], x.weight * each[1]) for x in self._boxed for over, each in (x.sums(ends),)]
        free = torch.stack([self._zero, self._free[2]])
        squares, slope = over_ranks([(None, free), *((over, torch.stack(each)) for over, *each in found)]).unbind()
        last = squares.sqrt() * (1 + SETTLED)
        return last, self._left(1.0, last).fall, slope

    def _among_others(self, phi: Tensor) -> tuple[Tensor, Tensor]:
        """φ, or a little less than the sets allow if that is smaller; and a λ that reaches it."""
        far = self._left(0.0, FAR * _over(phi, self._of_q.fall).clamp(min=1))
        slack = self._slack * self._q * self.of_f.square.sqrt() + self.of_f.noise
        phi = torch.minimum(phi, MOST * far.fall - slack)
        return phi, _over((self._f + far.square.sqrt()) ** 2, 4 * (far.fall - phi))

    def _search(self, phi: Tensor, upper: Tensor) -> Tensor:
        """The smallest λ > 0 with h(λ) ≥ φ, up to one that has it."""
        low, high, found = torch.zeros_like(phi), upper, upper
        at, now, secant = low, self.of_f, self._of_q.others
        done = torch.zeros_like(phi, dtype=torch.bool)
        for k in range(ROUNDS):
            slope = now.slope + secant.clamp(min=0)
            newton = at + _over(phi - now.fall, slope)
            inside = (slope > 0) & (newton > low) & (newton <= high) & (k % 3 < 2)
            new = torch.where(inside, newton, (torch.maximum(low, 1e-4 * high) * high).sqrt())
            then = self._left(1.0, new)
            reached, off = then.fall >= phi - then.noise, (then.fall - phi).abs()
            low, high = torch.where(reached, low, new), torch.where(reached, new, high)
            met = inside & reached & (now.fall < phi) & (off <= then.noise)
            if self._others:
                met = met | (
                    inside & ((new - at).abs() <= SETTLED * new) & (off <= NEAR * self._q * then.square.sqrt())
                )
            found = torch.where(done, found, torch.where(met, new, high))
            done = done | met | (high - low <= SETTLED * high) | then.fall.isnan()
            if told(done):
                break
            secant = _over(then.others - now.others, new - at)
            at, now = new, then
        return found


@torch.compiler.disable  # type: ignore[untyped-decorator]  # a search ends when it is done
def bounded_multiplier(
    phi: tuple[Phi, float, Tensor],
    point: Pair,
    f: Pair,
    q: Pair,
    metric: Metric,
    sets: tuple[Sets, Sets],
    weights: Metric | None,
) -> tuple[Tensor, Tensor]:
    """λ and the first part of 𝒦, which knows no weights; `phi` is the kind of φ, η and q̂, others as for `Bounded`."""
    plain = Bounded(point, f, q, metric, sets)
    weighted = plain if weights is None else Bounded(point, f, q, metric, sets, weights)
    return weighted.multiplier(*phi), plain.balance()[1]


def told(condition: Tensor) -> bool:
    """Whether a condition holds; within `vmap`, in all runs."""
    while torch._C._functorch.is_functorch_wrapped_tensor(condition):
        condition = torch._C._functorch.get_unwrapped(condition)
    return bool(condition.all())


def _over(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where b is 0."""
    return torch.where(b == 0, 0.0, a / torch.where(b == 0, 1.0, b))


def _moves(rate: float | Tensor) -> bool:
    return isinstance(rate, Tensor) or rate > 0


def _infinite(limits: Bounds) -> bool:
    return not any(isinstance(y, Tensor) for y in limits) and limits == (-torch.inf, torch.inf)
