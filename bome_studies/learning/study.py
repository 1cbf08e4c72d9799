"""An experiment that compares all methods on learning tasks: what hyper-cleaning and regularisation have in common."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bome.core.barrier import Phi
from bome_studies.learning.claims import decided, rows_of, sections
from bome_studies.learning.comparison import Ablation, Comparison, Numbers, Protocol, compare
from bome_studies.page import command
from bome_studies.study import Claim, Findings, Preset, Report

METHODS = (
    "bome", "bsg1", "bvfsm", "penalty", "itd", "reverse", "aid-cg", "aid-fp", "stocbio", "vrbo", "mrbo",
    "f2sa", "pbgd", "soba", "saba", "meha", "darts", "sama",
)  # fmt: skip
"""All but those for minimax games."""

CHOICE = (
    "Every method has its T and its step size of v chosen on seed 0: a short search, then the best step size of each T "
    "for the full budget. The lowest loss on a second validation set wins; test samples only report. All runs have the "
    "same budget of gradient-equivalents, but end after a number of outer steps before it where steps are cheap; each "
    "seed has its own split and start."
)
"""What every such experiment says about itself."""

SMOKE = " Preset smoke only shows that everything runs: a few steps of each on scikit-learn's digits."


@dataclass(frozen=True)
class LearningExperiment:
    """Every method on some learning tasks, beside models that learn without an outer problem.

    Attributes:
        name: as on the command line.
        title: for people.
        about: what the tasks are.
        lines: the reference models in the figures, and what they are called there.
        protocols: how much each preset runs.
        references: the reference models of a task for a seed, and what they reach.
        claims: what is claimed, and what was found on a task.
        notes: what a reader should know, beside how the settings were chosen.
        cleaning: whether v marks samples, so that there are precision and recall.
    """

    name: str
    title: str
    about: str
    lines: Mapping[str, str]
    protocols: Mapping[Preset, Protocol]
    references: Callable[[str, int, Preset], dict[str, Numbers]]
    claims: Callable[[Comparison], Iterator[Claim]]
    notes: tuple[str, ...]
    cleaning: bool

    def carry_out(self, preset: Preset, folder: Path, report: Report, workers: int = 1) -> Findings:
        """Run it; what is finished in `folder` is read, not run again."""
        protocol = self.protocols[preset]
        if preset == "paper":
            protocol = replace(protocol, workers=workers)
        found = compare(protocol, lambda task, seed: self.references(task, seed, preset), folder, report)
        made_by = command(self.name, preset)
        return Findings(
            title=self.title,
            about=f"{self.about} {CHOICE}{SMOKE if preset == 'smoke' else ''}",
            sections=tuple(
                part for each in found for part in sections(each, self.lines, [*protocol.extra], cleaning=self.cleaning)
            ),
            claims=decided((claim for each in found for claim in self.claims(each)), preset),
            rows=tuple(row for each in found for row in rows_of(each, preset, made_by, [*protocol.extra])),
            notes=(search_note(protocol), *(edge_note(each, protocol) for each in found), *self.notes),
        )


def search_note(protocol: Protocol) -> str:
    """How the settings of each method were chosen, in words."""
    inner_steps, outer_lrs = (
        ", ".join(f"{x:g}" for x in values) for values in (protocol.inner_steps, protocol.outer_lrs)
    )
    return (
        f"Search on seed 0: T = {inner_steps}, step sizes of v {outer_lrs}, {protocol.search:g} gradient-equivalents "
        f"for each. The best step size of each T then runs on seed 0 for {protocol.budget:g} (at most "
        f"{protocol.most_steps} outer steps), and the lowest loss on validation set 2 wins. Where none of them holds "
        "up (it diverges, or ends above the loss that its search ended with), the next ones of the search follow one "
        f"by one until one does. Seeds of the winner: {protocol.seeds[0]}; of that of BOME: {protocol.seeds[1]}."
    )


def edge_note(found: Comparison, protocol: Protocol) -> str:
    """Whose step size of v lies at an end of the grid, so that one beyond it might have been better."""
    ends = {name: pick(protocol.outer_lrs) for name, pick in (("smallest", min), ("largest", max))}
    told = [
        f"the {name} ({end:g}): {', '.join(sorted(e.method for e in found.entries if e.values['outer_lr'] == end))}"
        for name, end in ends.items()
        if any(entry.values["outer_lr"] == end for entry in found.entries)
    ]
    if not told:
        return f"No method chose a step size of v at an end of the grid on {found.task}."
    return f"Step sizes of v at an end of the grid on {found.task}: {'; '.join(told)}."


def settings_in_words(values: Mapping[str, Any]) -> str:
    """Settings with their values."""
    return ", ".join(f"{key} = {value}" for key, value in values.items())


def smoke(
    task: str, samples: tuple[int, int], ablations: tuple[Ablation, ...], extra: Mapping[str, Mapping[str, Any]]
) -> Protocol:
    """Every part of a comparison for a few steps, on a small task."""
    return Protocol(
        tasks=(task,),
        twin=task,
        methods=METHODS,
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

    def made(
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
