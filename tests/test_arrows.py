"""Which part of the package may import which, and what none may use."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import bome

ROOT = Path(bome.__file__).parent

CORE = {"_typing", "barrier", "distributed", "errors", "inner", "microbatches", "oracles", "problem", "trees"}
RUNS = CORE | {
    "checkpoint",
    "data",
    "history",
    "loop",
    "methods",
    "metrics",
    "projections",
    "rows",
    "stepper",
    "stopping",
    "tuner",
    "watch",
}
ARROWS: dict[str, set[str]] = {
    # the core
    "_typing": set(),
    "errors": set(),
    "distributed": {"errors"},
    "microbatches": {"errors"},
    "trees": {"_typing", "distributed"},
    "projections": {"_typing", "errors"},
    "inner": {"_typing", "errors"},
    "barrier": {"trees"},
    "problem": {"_typing", "distributed", "errors", "microbatches", "trees"},
    "rows": {"errors", "inner"},
    "oracles": {"_typing", "distributed", "errors", "inner", "microbatches", "problem", "trees"},
    "linalg": {"_typing", "oracles", "trees"},
    # methods see no optimiser, loader, device, rank, log or file
    "methods": CORE - {"distributed"} | {"linalg"},
    "hypergradients": CORE - {"distributed"} | {"linalg", "methods"},
    # files and data
    "checkpoint": {"distributed", "errors"},
    "watch": {"distributed", "errors"},
    "history": {"checkpoint", "errors"},
    "data": {"checkpoint", "errors", "problem"},
    # steps and runs
    "metrics": CORE - {"distributed", "errors"},
    "stopping": {"errors", "inner", "methods"},
    "stepper": CORE | {"methods", "rows"},
    "tuner": CORE | {"methods", "stepper"},
    "loop": RUNS - {"loop", "projections"},
    # named problems and methods, and what is made of them
    "tasks": {"_typing", "barrier", "data", "errors", "problem", "projections", "trees"},
    "registry": {"errors", "inner", "methods", "tasks", "tuner"},
    "solve": RUNS | {"registry", "tasks"},
    "rundir": RUNS | {"", "registry", "solve", "tasks"},
    "sweep": RUNS | {"registry", "rundir", "solve", "tasks"},
    "testing": RUNS | {"hypergradients", "registry", "tasks"},
    "experiments": RUNS | {"", "estimators", "mixture", "registry", "reports", "rundir", "solve", "sweep", "tasks"},
    "estimators": RUNS | {"", "reports", "rundir"},
    "mixture": RUNS | {"", "reports", "rundir"},
    "reports": {"", "checkpoint", "errors", "rundir"},
    "cli": RUNS
    | {"", "estimators", "experiments", "mixture", "registry", "reports", "rundir", "solve", "sweep", "tasks"},
    "": RUNS | {"estimators", "hypergradients", "mixture", "registry", "solve", "tasks", "testing"},
}
"""For each module or subpackage, what it may import beside itself; "" is the package itself."""

THIRD_PARTIES: dict[str, set[str]] = {
    "rich": {"cli", "data"},
    "typer": {"cli"},
    "jinja2": {"reports"},
    "matplotlib": {"reports", "experiments", "estimators", "mixture"},
    "safetensors": {"estimators", "checkpoint", "mixture"},
    "pooch": {"data"},
    "requests": {"data"},
    "sklearn": {"estimators", "data", "experiments"},
    "joblib": {"sweep", "experiments"},
    "threadpoolctl": {"estimators"},
    "ray": {"sweep"},
    "dask": {"sweep"},
    "cleanlab": {"estimators", "experiments"},
    "PIL": {"estimators"},
    "pyarrow": {"estimators"},
}
"""Who may import them; torch and numpy are everybody's."""

FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "imp"}
MAY_READ_PICKLES = "data/pickles.py"
"""The restricted reader, for the data sets that are published in this form."""
FORBIDDEN_CALLS = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "torch.load",
    "np.load",
    "numpy.load",
    "os.system",
    "os.popen",
}


def _files() -> list[Path]:
    return sorted(ROOT.rglob("*.py"))


def _unit(path: Path) -> str:
    first = path.relative_to(ROOT).parts[0]
    return "" if first == "__init__.py" else first.removesuffix(".py")


def _imports(tree: ast.AST) -> Iterator[str]:
    """The full names of imported modules; of `from bome import x` it is `bome.x`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are written in full"
            assert node.module is not None
            if node.module == "bome":
                yield from (f"bome.{alias.name}" for alias in node.names)
            else:
                yield node.module


def _target(name: str) -> str:
    """The unit a full name lies in; names of the package itself lie in "" (`bome.__version__`)."""
    parts = name.split(".")
    known = len(parts) > 1 and ((ROOT / f"{parts[1]}.py").exists() or (ROOT / parts[1]).is_dir())
    return parts[1] if known else ""


def _violations(unit: str, tree: ast.AST) -> set[str]:
    wrong = set()
    for name in _imports(tree):
        top = name.split(".")[0]
        if top == "bome" and _target(name) not in ARROWS[unit] | {unit}:
            wrong.add(name)
        if top in FORBIDDEN_MODULES or (top in THIRD_PARTIES and unit not in THIRD_PARTIES[top]):
            wrong.add(name)
    return wrong


def _forbidden_calls(tree: ast.AST) -> set[str]:
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return called & FORBIDDEN_CALLS


@pytest.mark.parametrize("path", _files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_imports_only_what_it_may(path: Path) -> None:
    unit, tree = _unit(path), ast.parse(path.read_text())
    assert unit in ARROWS, f"{unit} is new: say in ARROWS what it may import"
    excused = {"pickle"} if path == ROOT / MAY_READ_PICKLES else set()
    assert _violations(unit, tree) == excused


@pytest.mark.parametrize("path", _files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_runs_code_from_data(path: Path) -> None:
    assert _forbidden_calls(ast.parse(path.read_text())) == set()


def test_the_arrows_have_no_circle() -> None:
    """Parts can be read in an order in which each stands on those before it; the package itself comes last."""
    left = {unit: set(targets) - {""} for unit, targets in ARROWS.items() if unit}
    while left:
        ready = {unit for unit, targets in left.items() if not targets & set(left)}
        assert ready, f"a circle among {sorted(left)}"
        left = {unit: targets for unit, targets in left.items() if unit not in ready}


@pytest.mark.parametrize(
    ("unit", "line"),
    [
        ("trees", "from bome.errors import ProblemError"),
        ("methods", "from bome.stepper import Stepper"),
        ("methods", "import bome.data.streams"),
        ("oracles", "from bome import methods"),
        ("loop", "import matplotlib.pyplot as plt"),
        ("stepper", "from rich.table import Table"),
        ("checkpoint", "import pickle"),
        ("data", "import pickle"),
        ("tasks", "import pooch"),
    ],
)
def test_the_check_of_imports_can_fail(unit: str, line: str) -> None:
    assert _violations(unit, ast.parse(line))


@pytest.mark.parametrize("line", ["eval('1')", "exec('x = 1')", "torch.load(path)", "os.system('ls')", "np.load(path)"])
def test_the_check_of_calls_can_fail(line: str) -> None:
    assert _forbidden_calls(ast.parse(line))
