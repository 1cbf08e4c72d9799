"""What a comparison on learning tasks runs: methods, settings to choose from, budgets, seeds and ablations."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bome.core.barrier import Phi

METHODS = (
    "bome", "bome-z", "probe", "bsg1", "bvfsm", "penalty", "itd", "reverse", "aid-cg", "aid-fp", "stocbio",
    "vrbo", "mrbo", "f2sa", "pbgd", "soba", "saba", "meha", "darts", "sama",
)  # fmt: skip
"""All but those for minimax games, and the one for constraints."""


@dataclass(frozen=True)
class Ablation:
    """BOME, or another method, with one setting varied.

    Attributes:
        name: what is varied, for people.
        method: which method.
        fixed: settings of all its runs.
        varied: the label and the settings of each run.
        steps: outer steps.
        seeds: how many.
    """

    name: str
    method: str
    fixed: Mapping[str, Any]
    varied: Mapping[str, Mapping[str, Any]]
    steps: int
    seeds: int

    def first(self, count: int) -> "Ablation":
        """Only some of the runs."""
        return replace(self, varied=dict(list(self.varied.items())[:count]))


@dataclass(frozen=True)
class LearningProtocol:
    """How much is run; as in preset quick where nothing else is said.

    Attributes:
        tasks: on which tasks.
        twin: a small task on which the cost of a step is counted.
        outer_lrs: the step sizes of v.
        samples: training and validation samples, to weigh minibatches.
        methods: which methods.
        inner_steps: the values of T.
        search: the budget of the search on seed 0, in gradient-equivalents.
        budget: the budget of a run.
        most_steps: the most outer steps of a run.
        seeds: seeds of every method, and of BOME.
        ablations: for each task.
        extra: further configurations of BOME by name, run on all its seeds.
        workers: processes for runs that do not go as a batch.
    """

    tasks: tuple[str, ...]
    twin: str
    outer_lrs: tuple[float, ...]
    samples: tuple[int, int]
    methods: tuple[str, ...] = METHODS
    inner_steps: tuple[int, ...] = (1, 10)
    search: float = 300
    budget: float = 1500
    most_steps: int = 500
    seeds: tuple[int, int] = (3, 5)
    ablations: tuple[Ablation, ...] = ()
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    workers: int = 1


def smoke(
    task: str, samples: tuple[int, int], ablations: tuple[Ablation, ...], extra: Mapping[str, Mapping[str, Any]]
) -> LearningProtocol:
    """Every part of a comparison for a few steps, on a small task."""
    return LearningProtocol(
        tasks=(task,),
        twin=task,
        inner_steps=(1,),
        outer_lrs=(10.0,),
        search=15,
        budget=30,
        most_steps=20,
        seeds=(1, 2),
        samples=samples,
        ablations=tuple(each.first(2) for each in ablations),
        extra=extra,
    )


def paper(quick: LearningProtocol, budget: float, most_steps: int, **further: Any) -> LearningProtocol:
    """The full protocol, where it differs from the quick one."""
    return replace(
        quick, inner_steps=(1, 5, 10, 20), search=budget, budget=budget, most_steps=most_steps, seeds=(5, 5), **further
    )


@dataclass(frozen=True)
class Ablations:
    """What is varied on a task.

    Attributes:
        fixed: settings of all runs.
        bome: further settings of BOME.
        inner_lr: the α that factors multiply.
        etas: the values of η for each φ.
        c_z: the values of this coefficient of BVFSM.
    """

    fixed: Mapping[str, Any]
    bome: Mapping[str, Any]
    inner_lr: float
    etas: Mapping[Phi, tuple[float, ...]]
    c_z: tuple[float, ...]

    def of(
        self, all_t: tuple[int, ...], seeds: int, steps: int, bvfsm_steps: int, penalty_steps: int
    ) -> tuple[Ablation, ...]:
        """T, α, η and φ of BOME on some seeds, and the coefficients of BVFSM and Penalty on one."""
        bome = {**self.fixed, **self.bome}
        factors = (0.01, 0.1, 1.0)
        signs = {"gap": "ηq̂", "norm": "η‖∇q̂‖²"}
        by_t = {f"T = {t}": {"inner_steps": t} for t in all_t}
        by_lr = {f"α = {a:g} × {self.inner_lr:g}": {"inner_lr": self.inner_lr * a} for a in (0.25, 0.5, 1, 2)}
        by_eta = {
            f"η = {eta:g}, φ = {signs[phi]}": {"eta": eta, "phi": phi}
            for phi, etas in self.etas.items()
            for eta in etas
        }
        by_c = {f"c_z {c:g}, c_ln {ln:g}": {"c_z": c, "c_ln": ln} for c in self.c_z for ln in factors}
        by_lam = {
            f"λ {lam:g}, γ {gamma:g}": {"lam": lam, "gamma": gamma} for lam in (0.001, 0.01, 0.1) for gamma in factors
        }
        return (
            Ablation("T", "bome", bome, by_t, steps, seeds),
            Ablation("α", "bome", bome, by_lr, steps, seeds),
            Ablation("η and φ", "bome", bome, by_eta, steps, seeds),
            Ablation("coefficients of BVFSM", "bvfsm", self.fixed, by_c, bvfsm_steps, 1),
            Ablation("coefficients of Penalty", "penalty", self.fixed, by_lam, penalty_steps, 1),
        )
