"""Which part may import which, as `docs/architecture.md` lists them, and what none may use."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STUDIES = "bome_studies"

UNITS = tuple(
    unit
    for block in re.findall(r"```layers\n(.*?)```", (ROOT / "docs" / "architecture.md").read_text(), re.DOTALL)
    for line in block.splitlines()
    for unit in re.split(r" {2,}", line)[0].split()
)
"""Every unit of `bome`, each of which may import those before it."""

THIRD_PARTIES: dict[str, set[str]] = {
    "rich": {"cli", "data"},
    "typer": {"cli"},
    "jinja2": {"reports"},
    "matplotlib": {"reports", "mixture", "apps"},
    "safetensors": {"apps", "storage"},
    "pooch": {"data"},
    "requests": {"data"},
    "sklearn": {"estimators", "data", "tables", "apps"},
    "joblib": {"core"},
    "threadpoolctl": {"core"},
    "ray": {"core"},
    "dask": {"core"},
    "cleanlab": {"estimators"},
    "PIL": {"tables"},
    "pyarrow": {"tables", "apps"},
    "filelock": {"storage"},
}
"""Who in `bome` may import them; torch and numpy are everybody's."""

FORBIDDEN_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "yaml", "imp"}
MAY_READ_PICKLES = "bome/data/pickles.py"
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


def _files(package: str = "bome") -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


ALL = [*_files(), *_files(STUDIES)]


def _place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _unit(path: Path) -> str:
    return path.relative_to(ROOT / "bome").parts[0].removesuffix(".py")


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


def _upward(unit: str, name: str) -> bool:
    """Whether a unit imports what does not stand before it; `import bome` and names of the package are `__init__`."""
    parts = name.split(".")
    if parts[0] == STUDIES:
        return True
    if parts[0] != "bome":
        return False
    target = parts[1] if len(parts) > 1 and parts[1] in UNITS else "__init__"
    return target != unit and UNITS.index(target) > UNITS.index(unit)


def _violations(unit: str, tree: ast.AST) -> set[str]:
    """What a module of a unit of `bome` imports and may not."""
    wrong = set()
    for name in _imports(tree):
        top = name.split(".")[0]
        barred = top in FORBIDDEN_MODULES or (top in THIRD_PARTIES and unit not in THIRD_PARTIES[top])
        if barred or _upward(unit, name):
            wrong.add(name)
    return wrong


def _forbidden_calls(tree: ast.AST) -> set[str]:
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return called & FORBIDDEN_CALLS


def test_every_unit_has_its_layer() -> None:
    assert {_unit(path) for path in _files()} <= set(UNITS)
    assert len(UNITS) == len(set(UNITS))


@pytest.mark.parametrize("path", _files(), ids=_place)
def test_a_module_imports_only_what_stands_above_it(path: Path) -> None:
    excused = {"pickle"} if _place(path) == MAY_READ_PICKLES else set()
    assert _violations(_unit(path), ast.parse(path.read_text())) == excused


@pytest.mark.parametrize("path", ALL, ids=_place)
def test_no_module_runs_code_from_data(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert _forbidden_calls(tree) == set()
    if _place(path) != MAY_READ_PICKLES:
        assert not {name.split(".")[0] for name in _imports(tree)} & FORBIDDEN_MODULES


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports inside functions count, and a room's own `__init__` too where it is asked for names."""
    modules = {_module(path): path for path in ALL}
    arrows = {}
    for name, path in modules.items():
        told = {found for found in _named(ast.parse(path.read_text())) if found in modules}
        arrows[name] = told - {name}
    while arrows:
        ready = {name for name, targets in arrows.items() if not targets & set(arrows)}
        assert ready, f"a circle among {sorted(_on_a_circle(arrows))}"
        arrows = {name: targets for name, targets in arrows.items() if name not in ready}


def _module(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


def _named(tree: ast.AST) -> Iterator[str]:
    """Modules that are imported: of `from a.b import c` both `a.b` and `a.b.c`, of which one is a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            modules = {name for name in inner if _is_module(ROOT / name.replace(".", "/"))}
            yield from modules
            if len(modules) < len(inner):
                yield node.module


def _is_module(place: Path) -> bool:
    return place.with_suffix(".py").exists() or (place / "__init__.py").exists()


def _on_a_circle(arrows: dict[str, set[str]]) -> set[str]:
    """Those left that others of them import, too."""
    left = dict(arrows)
    while True:
        imported = set().union(*left.values())
        rest = {name: targets for name, targets in left.items() if name in imported}
        if len(rest) == len(left):
            return set(left)
        left = rest


def test_no_study_imports_another() -> None:
    """What studies share lies at the root of their package."""
    rooms = {path.name for path in (ROOT / STUDIES).iterdir() if path.is_dir()}
    for path in _files(STUDIES):
        room = path.relative_to(ROOT / STUDIES).parts[0]
        for name in _imports(ast.parse(path.read_text())):
            parts = name.split(".")
            if room in rooms and parts[0] == STUDIES and len(parts) > 1:
                assert parts[1] == room or parts[1] not in rooms, f"{_place(path)} imports {name}"


@pytest.mark.parametrize(
    ("unit", "line"),
    [
        ("core", "from bome.problem import Problem"),
        ("methods", "from bome.stepper import Stepper"),
        ("methods", "import bome.data.streams"),
        ("oracles", "from bome import methods"),
        ("cli", "import bome"),
        ("cli", "from bome_studies import page"),
        ("loop", "import matplotlib.pyplot as plt"),
        ("stepper", "from rich.table import Table"),
        ("storage", "import pickle"),
        ("data", "import pickle"),
        ("tasks", "import pooch"),
    ],
)
def test_the_check_of_imports_can_fail(unit: str, line: str) -> None:
    assert _violations(unit, ast.parse(line))


@pytest.mark.parametrize("line", ["eval('1')", "exec('x = 1')", "torch.load(path)", "os.system('ls')", "np.load(path)"])
def test_the_check_of_calls_can_fail(line: str) -> None:
    assert _forbidden_calls(ast.parse(line))
