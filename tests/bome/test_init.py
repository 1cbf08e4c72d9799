"""What `import bome` gives, and what it leaves alone until it is asked for."""

import inspect
import subprocess
import sys
from types import ModuleType

import pytest

import bome
from bome import errors, methods, stopping

NAMES = {
    "problem": "Problem PerSample MicroBatches Batches Indexed gather_rows",
    "sets": "box ball simplex nonnegative half_space polyhedron affine product joint",
    "method": "BOME GradientDescent AdamDescent TorchOptim Solver AutogradOracle FuncOracle BackwardOracle",
    "solving": "Stepper run solve Record Result Solution Certificate History Tuner RowSGD RankSampler Data Minibatches",
    "worth": "refit Refit Start Trained",
    "stopping": "MaxSteps MaxEvaluations MaxSeconds Stationary FirstOf Stop Progress",
    "errors": (
        "BilevelError ProblemError UnsupportedError NonFiniteError StorageError RankError WorkerError "
        "RunInterruptedError"
    ),
    "applications": "HyperCleaner LearnedRegularization LearnedRegularizationRegressor DataMixture",
    "checks": "hypergradcheck",
    "names": "register",
    "modules": "data methods tasks testing",
}
"""Every public name by what it is for; a name that comes or goes is a change for users."""

FUNCTIONS = {"gather_rows", *NAMES["sets"].split(), "run", "solve", "refit", "register", "hypergradcheck"}

HEAVY = (
    *("bome.tasks", "bome.testing", "bome.runs", "bome.estimators", "bome.mixture", "bome.continual", "bome.apps"),
    *("sklearn", "matplotlib", "pandas", "scipy", "joblib", "pooch", "rich", "typer", "jinja2"),
)


def test_the_public_names_are_these() -> None:
    expected = {name for names in NAMES.values() for name in names.split()}
    assert set(bome.__all__) == expected
    assert expected <= set(dir(bome))


@pytest.mark.parametrize("name", bome.__all__)
def test_every_public_name_is_there_and_says_what_it_is(name: str) -> None:
    thing = getattr(bome, name)
    if name in NAMES["modules"].split():
        assert isinstance(thing, ModuleType)
        assert thing.__name__ == f"bome.{name}"
    else:
        assert inspect.isfunction(thing) if name in FUNCTIONS else inspect.isclass(thing)
    assert thing.__doc__


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'bome' has no attribute 'optimise'"):
        _ = bome.optimise


def test_all_errors_and_stop_rules_are_public() -> None:
    kinds = {name for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, Exception)}
    assert kinds == set(NAMES["errors"].split())
    rules = {name for name, kind in vars(stopping).items() if getattr(kind, "__module__", "") == stopping.__name__}
    assert rules == set(NAMES["stopping"].split())


def test_importing_bome_loads_neither_tasks_nor_test_batteries_nor_anything_heavy() -> None:
    code = f"import sys, bome; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_what_is_imported_later_is_there_when_it_is_asked_for() -> None:
    code = "import bome; print(len(bome.tasks.TASKS) > 0, bome.HyperCleaner.__name__, bome.hypergradcheck.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "HyperCleaner", "hypergradcheck"]


def test_a_method_can_be_written_with_the_names_of_one_module() -> None:
    assert sorted(methods.__all__) == sorted(set(methods.__all__))
    needed = "Method Step Info Metric Batches State Leaves Pair Oracle Needs InnerMap Problem multiplier barrier"
    assert set(needed.split()) <= set(methods.__all__)
    assert all(hasattr(methods, name) for name in methods.__all__)
