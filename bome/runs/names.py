"""Names: which methods and tasks there are, those of other packages and of a notebook too."""

import re
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib.metadata import entry_points
from inspect import isfunction
from typing import Any, TypeGuard, TypeVar

from bome import methods, tasks
from bome.errors import ProblemError
from bome.methods import Method
from bome.tasks.task import Task

Thing = TypeVar("Thing")


def plugins(
    group: str, taken: Collection[str] = (), fits: Callable[[Any], bool] = lambda thing: True
) -> dict[str, Any]:
    """What other packages offer, by name.

    Whatever is of no use is left out, with a warning in one line that names its package.

    Args:
        group: of entry points.
        taken: names that no other package can have.
        fits: whether something is what the group is for.
    """
    things: dict[str, Any] = {}
    for entry in entry_points(group=group):
        try:
            _check_free(entry.name, (*taken, *things))
            thing = entry.load()
            if not fits(thing):
                raise ProblemError(f"{thing!r} cannot be one of {group}")
            things[entry.name] = thing
        except Exception as error:  # whatever is wrong with one package, the others are of use
            package = entry.value if entry.dist is None else entry.dist.name
            reason = str(error) if isinstance(error, ProblemError) else f"{type(error).__name__}: {error}"
            text = f"{entry.name!r} of the package {package} is left out: {reason}"
            warnings.warn(" ".join(text.split()), stacklevel=2)
    return things


def _check_free(name: str, taken: Collection[str]) -> None:
    if name in taken:
        raise ProblemError(f"the name {name!r} is taken: choose another one")


class Names(Mapping[str, Thing]):
    """Things by name: the built-in ones, those of plug-ins and those that are registered.

    Plug-ins are imported when a name is looked up that is not built in, or when all names are listed.

    Args:
        group: the entry points of plug-ins.
        built_in: what there is without them; no plug-in can replace it.
        fits: whether something may be listed here.

    Attributes:
        registered: what was registered in this process.
    """

    def __init__(self, group: str, built_in: Mapping[str, Thing], fits: Callable[[Any], TypeGuard[Thing]]) -> None:
        self._group, self._built_in, self._fits = group, built_in, fits
        self._plugged: dict[str, Thing] | None = None
        self.registered: dict[str, Thing] = {}

    def __getitem__(self, name: str) -> Thing:
        return self._built_in[name] if name in self._built_in else self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def register(self, name: str, thing: Thing) -> None:
        """Add something under a name that is free, or that the same definition had when it was run before."""
        if name not in self.registered or _place(self[name]) != _place(thing):
            _check_free(name, self)
        self.registered[name] = thing

    def _all(self) -> dict[str, Thing]:
        if self._plugged is None:
            self._plugged = plugins(self._group, self._built_in, self._fits)
        return {**self._built_in, **self._plugged, **self.registered}


def _place(thing: Any) -> tuple[str, str]:
    return thing.__module__, thing.__qualname__


def _is_method(thing: Any) -> TypeGuard[type[Method]]:
    return isinstance(thing, type) and issubclass(thing, Method)


def _is_task(thing: Any) -> TypeGuard[Callable[..., Task]]:
    return isfunction(thing)


METHODS: Names[type[Method]] = Names(
    "bome.methods",
    {
        "bome": methods.BOME,
        "bome-z": methods.BOMEZ,
        "bome-qp": methods.BOMEQP,
        "probe": methods.Probe,
        "bsg1": methods.BSG1,
        "bvfsm": methods.BVFSM,
        "penalty": methods.Penalty,
        "itd": methods.ITD,
        "reverse": methods.Reverse,
        "aid-cg": methods.AIDCG,
        "aid-fp": methods.AIDFP,
        "stocbio": methods.StocBiO,
        "vrbo": methods.VRBO,
        "mrbo": methods.MRBO,
        "ogda": methods.OGDA,
        "gda": methods.GDA,
        "f2sa": methods.F2SA,
        "pbgd": methods.PBGD,
        "soba": methods.SOBA,
        "saba": methods.SABA,
        "meha": methods.MEHA,
        "darts": methods.DARTS,
        "sama": methods.SAMA,
    },
    _is_method,
)
"""Every method by its name on the command line."""

TASKS: Names[Callable[..., Task]] = Names("bome.tasks", tasks.TASKS, _is_task)
"""Every task by its name on the command line: a function that makes it."""


def register(name: str, thing: type[Method] | Callable[..., Task]) -> None:
    """Add a method or a task under a name, for this process and the workers that it starts.

    Args:
        name: small letters, digits, + and -.
        thing: a subclass of `Method`, or a function that returns a `Task`.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9+-]*", name):
        raise ProblemError(f"a name has small letters, digits, + and - only and starts with a letter, got {name!r}")
    if _is_method(thing):
        METHODS.register(name, thing)
    elif _is_task(thing):
        TASKS.register(name, thing)
    else:
        raise ProblemError(f"only a subclass of Method or a function that returns a Task has a name, got {thing!r}")


def registered() -> list[tuple[str, Any]]:
    """What was registered in this process, which its workers do not know, under which names."""
    return [*METHODS.registered.items(), *TASKS.registered.items()]
