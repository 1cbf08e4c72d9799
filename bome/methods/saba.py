r"""SABA: SOBA with variance reduced by tables (SAGA; Dagréou, Ablin, Vaiter, Moreau; NeurIPS 2022).

    g = (1/N) Σ_i g_i,   f = (1/M) Σ_j f_j,   tables of the last ∇_θ g_i, H_i z, B_i z and ∇_θ f_j, ∇_v f_j
    for k = 0, 1, ...            (all of it evaluated at (v_k, θ_k, z_k))
        1:  draw i and j
        2:  for each of the five quantities q:   D_q = q_i − table_q[i] + mean(table_q),   then table_q[i] = q_i
        3:  θ_{k+1} = θ_k − ρ D_{∇_θ g},   z_{k+1} = z_k − ρ(D_{Hz} + D_{∇_θ f})
            v_{k+1} = v_k − ξ_v(D_{∇_v f} + D_{Bz})

| symbol | here | symbol | here |
|---|---|---|---|
| N, M | `inner_parts`, `outer_parts` | i, j | `batches.inner[0].id`, `batches.outer[0].id` |
| z | `state["z"]`; tends to −H⁻¹ ∇_θ f | ρ | ξ_θ, the learning rate of each leaf of θ |

Cost per step: 1 evaluation of g, 1 of f, 1 Hessian-vector and 1 cross product. State: z, the tables and their means:
(N + 1)(2n + m) + (M + 1)(n + m) numbers, n and m the sizes of θ and v.

The batches must be those of a *fixed* partition, as `bome.data.streams.FixedBatches(..., parts=N)` gives them: other
batches are refused. With N = M = 1 any full batch will do, and SABA is SOBA. g is the mean over the parts.

Step sizes are constant; on strongly convex finite sums the convergence is linear. Tables start at 0, where the authors'
start with a pass over all parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from bome._checks import check_count
from bome._typing import Leaves, State
from bome.core.barrier import Metric
from bome.core.trees import Pair, add, axpy, sub, zeros_like
from bome.errors import ProblemError
from bome.methods.base import Batches, Info, Method, Step, second_order
from bome.methods.free import Free, refuse_other_sets
from bome.methods.soba import descended
from bome.methods.stocbio import refuse_per_sample
from bome.oracles.base import Needs, Oracle
from bome.problem import Problem


@dataclass(frozen=True)
class SABA(Method):
    """One step each for θ, z and v, with a table entry for each part of the data.

    Attributes:
        inner_parts: N, the number of fixed batches of g.
        outer_parts: M, the number of fixed batches of f.
    """

    inner_parts: int = 1
    outer_parts: int = 1

    name: ClassVar[str] = "saba"
    requires: ClassVar[Needs] = Needs.FIRST_ORDER | Needs.HVP
    settles = "solution"

    def __post_init__(self) -> None:
        check_count("inner_parts", self.inner_parts)
        check_count("outer_parts", self.outer_parts)

    def refusal(self, problem: Problem) -> str | None:
        """The tables are of all of v; and it knows which entries of θ are free in a box."""
        return refuse_per_sample(problem) or refuse_other_sets(problem)

    @property
    def cost(self) -> Mapping[str, int]:
        """The evaluations of a step."""
        return {"g": 1, "f": 1, "hvp": 1, "xvp": 1}

    def init(self, oracle: Oracle, point: Pair) -> State:
        """z = 0 and tables of zeros."""
        v, theta = zeros_like(point.v), zeros_like(point.theta)
        inner, outer = theta + theta + v, theta + v
        return {
            "z": theta,
            "inner": inner * self.inner_parts,
            "inner_mean": inner,
            "outer": outer * self.outer_parts,
            "outer_mean": outer,
        }

    def step(self, oracle: Oracle, point: Pair, state: State, batches: Batches, metric: Metric) -> Step:
        """One outer step."""
        (v, theta), n, free = point, len(point.theta), Free(oracle.problem, point.theta)
        z = free(state["z"])  # without bounds all entries are
        i = _part("inner", batches.inner[0], self.inner_parts)  # line 1
        j = _part("outer", batches.outer[0], self.outer_parts)
        g = second_order(oracle).gradient_map(v, theta, batches.inner[0])
        products = g.pull(z)
        f = oracle.outer(v, theta, batches.outer[0])
        inner = (*g.value, *products.theta, *products.v)
        of_g, table, mean = saga(state["inner"], state["inner_mean"], i, inner)  # line 2
        of_f, outer_table, outer_mean = saga(state["outer"], state["outer_mean"], j, f.grad.theta + f.grad.v)
        d_theta, d_z, d_v = of_g[:n], free(add(of_g[n : 2 * n], of_f[:n])), add(of_f[n:], of_g[2 * n :])
        after: State = {"z": descended(z, d_z, metric), "inner": table, "inner_mean": mean}
        after |= {"outer": outer_table, "outer_mean": outer_mean}
        return Step(Pair(d_v, d_theta), after, Info(f.value))  # line 3


def saga(table: Leaves, mean: Leaves, i: int, new: Leaves) -> tuple[Leaves, Leaves, Leaves]:
    """new − table[i] + mean; the table with `new` as its i-th entry; its mean. Entries stand end to end in it."""
    size = len(new)
    change = sub(new, table[i * size : (i + 1) * size])
    replaced = table[: i * size] + new + table[(i + 1) * size :]
    return add(change, mean), replaced, axpy(size / len(table), change, mean)


def _part(kind: Literal["inner", "outer"], batch: Any, parts: int) -> int:
    """The number of a batch within the fixed partition of `parts`; a batch that is none of ours is the whole."""
    given = getattr(batch, "parts", 1)
    if given != parts:
        what = f"one of {given} fixed parts" if given else "drawn anew in every epoch"
        raise ProblemError(
            f"saba keeps a table entry for each of {kind}_parts={parts} fixed batches, but this batch is {what}: "
            f"use FixedBatches(tensors, parts=N) and {kind}_parts=N"
        )
    return getattr(batch, "id", 0)
