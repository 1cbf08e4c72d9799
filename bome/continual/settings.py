"""What can be run on a stream of tasks: strategies by name, what can be set of them, and the usual values."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from bome._checks import check_count, check_nonnegative, check_positive, check_share, field_types, known, parse
from bome.continual.streams import STREAMS
from bome.core.barrier import Phi
from bome.errors import ProblemError
from bome.runs.names import METHODS, TASKS
from bome.runs.plan import BARRIER, variants

MOST = 1_000_000
"""Samples that may be kept of each task: more than any task has."""

CTN = "ctn+"
"""With what the names of strategies with a bilevel method begin."""


@dataclass(frozen=True)
class Settings:
    """The settings of a run; each strategy reads those that concern it.

    Attributes:
        batch: samples that come at a time.
        theta_lr: ξ_θ, step size of the base network.
        outer_lr: ξ_v, step size of the controller.
        inner_lr: α, step size of the look-ahead, with ctn+itd that of the base network; 0 for theta_lr.
        inner_steps: T of the bilevel methods; updates for each batch of er, gem and mer.
        updates: outer updates for each batch; the direction of v is divided by their number.
        eta: η of bome.
        phi: "norm" for φ = η‖∇q̂‖², "gap" for φ = η q̂.
        clip: the largest entry of the direction of v; 0 for no limit.
        memory: samples kept of each task.
        semantic: the share of them that serve f.
        replay: the most samples of a replay, which never has more than a memory keeps of one task.
        replay_from: whether a replay has samples of "previous" tasks only, or of all "seen" ones.
        strength: weight of the soft targets.
        temperature: of the soft targets.
        margin: of gem.
        gamma_reptile: γ of mer.
        epochs: of offline.
    """

    batch: int = 10
    theta_lr: float = 0.03
    outer_lr: float = 0.1
    inner_lr: float = 0.0
    inner_steps: int = 2
    updates: int = 2
    eta: float = 2.0
    phi: Phi = "norm"
    clip: float = 1.0
    memory: int = 50
    semantic: float = 0.2
    replay: int = 64
    replay_from: Literal["previous", "seen"] = "previous"
    strength: float = 100.0
    temperature: float = 5.0
    margin: float = 0.5
    gamma_reptile: float = 0.3
    epochs: int = 2

    def __post_init__(self) -> None:
        for name, least in (
            ("batch", 2),
            ("inner_steps", 1),
            ("updates", 1),
            ("memory", 2),
            ("replay", 1),
            ("epochs", 1),
        ):
            check_count(name, getattr(self, name), least)
        for name in ("theta_lr", "outer_lr", "temperature", "gamma_reptile"):
            check_positive(name, getattr(self, name))
        if self.memory > MOST:
            raise ProblemError(f"memory must be at most {MOST:,}, got {self.memory:,}")
        check_share("semantic", self.semantic)
        for name in ("inner_lr", "clip", "strength", "margin"):
            check_nonnegative(name, getattr(self, name))

    @property
    def semantic_slots(self) -> int:
        """Samples of each task that serve f of a contextual network; the others serve g."""
        slots = int(self.memory * self.semantic)
        if not 1 <= slots < self.memory:
            raise ProblemError(
                f"semantic={self.semantic!r} of memory={self.memory!r} leaves one of the two memories empty: both need "
                "a sample"
            )
        return slots


CONTEXTUAL = (
    "batch", "theta_lr", "outer_lr", "inner_lr", "inner_steps", "updates", "clip",
    "memory", "semantic", "replay", "replay_from", "strength", "temperature",
)  # fmt: skip
"""The settings of every contextual network."""


@dataclass(frozen=True)
class About:
    """What is known of a strategy by its name.

    Attributes:
        line: what it does.
        settings: the settings that it has.
        usual: their usual values where they differ from those of `Settings`.
    """

    line: str
    settings: tuple[str, ...] = CONTEXTUAL
    usual: Mapping[str, Any] = field(default_factory=dict)


ONE_UPDATE, NINE_REPLAYS = {"inner_steps": 1}, {"inner_steps": 9}

STRATEGIES: Mapping[str, About] = {
    "offline": About("all tasks at once, for two epochs: an upper bound", ("batch", "theta_lr", "epochs")),
    "er": About("experience replay from rings", ("batch", "theta_lr", "inner_steps", "memory", "replay"), ONE_UPDATE),
    "gem": About(
        "gradient episodic memory: no step may increase the loss on an earlier task",
        ("batch", "theta_lr", "inner_steps", "memory", "margin"),
        ONE_UPDATE,
    ),
    "mer": About(
        "meta-experience replay: Reptile over a reservoir, with minibatches",
        ("batch", "theta_lr", "inner_steps", "memory", "gamma_reptile"),
        NINE_REPLAYS,
    ),
    "ctn+itd": About("contextual transformation network as published, with the direct derivative only"),
    "ctn+bvfsm": About("the same with bvfsm"),
    "ctn+penalty": About("the same with penalty"),
    "ctn+pbgd": About("the same with pbgd, that is bome with a constant multiplier"),
    "ctn+bome": About("the same with bome", (*CONTEXTUAL, *BARRIER)),
}
"""What can be run on a stream of tasks."""

BY_STREAM: Mapping[str, Mapping[str, Any]] = {
    "continual-cifar": {"theta_lr": 0.01, "outer_lr": 0.05},
}
"""The usual settings of all strategies on a stream where they differ from `Settings`."""


def usual_settings(stream: str, strategy: str) -> dict[str, Any]:
    """The usual settings where they differ from `Settings`; those of variants are the same."""
    return {**BY_STREAM.get(stream, {}), **about(strategy).usual}


def about(strategy: str) -> About:
    """What is known of a strategy or of its variant; a name that there is not is refused."""
    name, _, variant = strategy.partition(":")
    known("strategy", name, STRATEGIES)
    if variant:
        known(f"variant of {name}", variant, strategy_variants(name))
    return STRATEGIES[name]


def strategy_variants(name: str) -> list[str]:
    """The named variants of a strategy: those of its method, but for `itd`, of which there is the total derivative."""
    if name == "ctn+itd":
        return ["total"]
    return variants(name.removeprefix(CTN)) if name.startswith(CTN) else []


def parse_settings(strategy: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings given as text as the values that their types want.

    Args:
        strategy: its name, or `name:variant`.
        given: settings by name: some of those that the strategy has, and of its bilevel method's own.
    """
    shared = field_types(Settings)
    types = {key: shared[key] for key in about(strategy).settings}
    if strategy.startswith(CTN):
        own = field_types(METHODS[strategy.removeprefix(CTN).partition(":")[0]])
        types |= {key: kind for key, kind in own.items() if key not in ("inner", "steps", *shared)}
    for key in given:
        if key in shared and key not in types:
            raise ProblemError(f"{strategy} has no setting {key!r}; it has {', '.join(types)}")
        known("setting", key, types)
    return {key: parse(key, value, types[key]) for key, value in given.items()}


def split(values: Mapping[str, Any]) -> tuple[Settings, dict[str, Any]]:
    """The settings of a run, and those of the bilevel method's own."""
    names = {each.name for each in fields(Settings)}
    settings = Settings(**{key: value for key, value in values.items() if key in names})
    return settings, {key: value for key, value in values.items() if key not in names}


def check_single_task(task: str, method: str) -> None:
    """Refuse a stream and a strategy where a task and a method are needed; a wrong name may be meant for either."""
    if task in STREAMS:
        raise ProblemError(
            f"{task} is a stream of tasks, which 'bome run {task}' learns with a strategy such as ctn+bome"
        )
    known("task", task, (*TASKS, *STREAMS))
    name = method.partition(":")[0]
    if name in STRATEGIES:
        raise ProblemError(f"{name} is a strategy for streams of tasks such as continual-pmnist, {task} is a task")
