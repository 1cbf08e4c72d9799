"""The battery of checks for authors of methods, as scikit-learn's `check_estimator` is for estimators.

    from bome.testing import check_method
    check_method(MyMethod(GradientDescent(lr=0.1, steps=3)))     # one AssertionError that names the check, or nothing

A check of a method is a function of a `Make`: how to make the method for the settings of a problem. `METHOD_CHECKS`
lists them all, so that pytest can run each on its own:

    @pytest.mark.parametrize("check", METHOD_CHECKS)
    def test_my_method(check): run_check(check, MyMethod)

The checks run over every toy problem of `bome.tasks` that the method does not refuse, and over every oracle that gives
what it requires. Where they need more than a toy (several tensors, batches, a known solution) they use a test bed: a
quadratic problem, or for methods that only take min-max problems a quadratic saddle problem.

Here are the checks of what a method is; those of one step are in `step_checks`, those of runs in `behaviour_checks`.
"""

import ast
import copy
import math
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass, replace
from typing import Any, Literal, TypeAlias

from bome.errors import ProblemError
from bome.inner import AdamDescent, GradientDescent
from bome.methods.base import Method
from bome.oracles import Needs
from bome.testing import behaviour_checks, step_checks
from bome.testing.beds import BED_SETTINGS, Make, advance, bed_stepper, everything, maker, require, same

MethodCheck: TypeAlias = Callable[[Make], None]


def check_method(method: Method | type[Method] | Make) -> None:
    """Run all checks of `METHOD_CHECKS` on a method.

    Args:
        method: a method; or its class, whose fields are filled with the settings of each toy problem as those of a
            registered method are; or a function from `Settings` to a method.

    Raises:
        AssertionError: a check failed; the message names it.
    """
    for check in METHOD_CHECKS:
        run_check(check, method)


def run_check(check: MethodCheck, method: Method | type[Method] | Make) -> None:
    """Run one check on a method; an error of the check names it."""
    make = maker(method)
    name = make(BED_SETTINGS).name
    try:
        check(make)
    except AssertionError as error:
        raise AssertionError(f"{name} fails {check.__name__}: {error}") from None
    except Exception as error:
        raise AssertionError(f"{name} fails {check.__name__}: {type(error).__name__}: {error}") from error


def check_is_a_frozen_record(make: Make) -> None:
    """A method is a frozen dataclass: nothing changes its hyper-parameters."""
    method = make(BED_SETTINGS)
    require(is_dataclass(method), "it is not a dataclass")
    try:
        setattr(method, next((f.name for f in fields(method)), "anything"), None)  # type: ignore[arg-type]
    except FrozenInstanceError:
        return
    raise AssertionError("its fields can be changed: write @dataclass(frozen=True)")


def check_equality_and_hash(make: Make) -> None:
    """Two methods with the same hyper-parameters are equal and have the same hash."""
    one, other = make(BED_SETTINGS), make(BED_SETTINGS)
    require(one == other, "two with the same hyper-parameters differ")
    require(hash(one) == hash(other), "two with the same hyper-parameters have different hashes")


def check_repr_can_be_read_back(make: Make) -> None:
    """`repr` is an expression that makes the same method: it stands in reports and run directories."""
    method = make(BED_SETTINGS)
    kinds = {kind.__name__: kind for kind in (type(method), GradientDescent, AdamDescent)}
    try:
        back = _read(ast.parse(repr(method), mode="eval").body, kinds)
    except (KeyError, SyntaxError, ValueError) as error:
        raise AssertionError(f"{method!r} cannot be read back: {error}") from None
    require(back == method, f"{method!r} reads back as {back!r}")


def _read(node: ast.expr, kinds: Mapping[str, Any]) -> Any:
    """The value of an expression of literals and of calls of known classes."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        arguments = [_read(x, kinds) for x in node.args]
        return kinds[node.func.id](*arguments, **{str(k.arg): _read(k.value, kinds) for k in node.keywords})
    if isinstance(node, ast.Name) and node.id in ("nan", "inf"):
        return float(node.id)
    return ast.literal_eval(node)


def check_can_be_copied(make: Make) -> None:
    """A deep copy is equal to the original."""
    method = make(BED_SETTINGS)
    require(copy.deepcopy(method) == method, "a deep copy differs")


def check_declares_itself(make: Make) -> None:
    """Name, needs, promise and number of batches are of the right kind."""
    method = make(BED_SETTINGS)
    require(re.fullmatch(r"[a-z][a-z0-9+-]*", method.name) is not None, f"name {method.name!r} is no name of a method")
    require(Needs.FIRST_ORDER in method.requires, "requires does not include FIRST_ORDER")
    require(method.settles in ("solution", "penalty", "elsewhere"), f"settles is {method.settles!r}")
    for what in ("inner_batches", "outer_batches", "period"):
        number = getattr(method, what)
        require(isinstance(number, int) and number >= 1, f"{what} is {number!r}, not a whole number of at least 1")
    names = {f.name for f in fields(method)}  # type: ignore[arg-type]
    for name, values in method.variants.items():
        require(set(values) <= names, f"variant {name!r} sets {sorted(set(values) - names)}, which are no fields")


def check_refuses_nonsense(make: Make) -> None:
    """NaN for a number and an unknown word for a choice are refused by a ProblemError when the method is made."""
    method = make(BED_SETTINGS)
    hints = typing.get_type_hints(type(method))
    for field in fields(method):  # type: ignore[arg-type]
        kinds = (hints[field.name], *typing.get_args(hints[field.name]))
        choice = any(typing.get_origin(kind) is Literal for kind in kinds)
        if not choice and float not in kinds and int not in kinds:
            continue
        bad: Any = "nonsense" if choice else math.nan
        try:
            other = replace(method, **{field.name: bad})  # type: ignore[type-var]
        except ProblemError:
            continue
        raise AssertionError(f"{field.name}={bad!r} is accepted: {other!r}")


def check_variants_step(make: Make) -> None:
    """Every named variant can be made and steps, twice the same."""
    method = make(BED_SETTINGS)
    run = {f.name: getattr(BED_SETTINGS, f.name, None) for f in fields(method)}  # type: ignore[arg-type]
    for name, values in method.variants.items():
        missing = {key: value for key, value in run.items() if value is not None and getattr(method, key) is None}
        variant = replace(method, **{**missing, **values})  # type: ignore[type-var]
        ends = []
        for _ in range(2):
            stepper = bed_stepper(maker(variant))
            advance(stepper)
            ends.append(everything(stepper))
        require(same(*ends), f"variant {name!r} gives different results in two runs")


METHOD_CHECKS: tuple[MethodCheck, ...] = (
    check_is_a_frozen_record,
    check_equality_and_hash,
    check_repr_can_be_read_back,
    check_can_be_copied,
    check_declares_itself,
    check_refuses_nonsense,
    check_variants_step,
    step_checks.check_direction_has_the_form_of_the_variables,
    step_checks.check_info_is_scalars_without_graph,
    step_checks.check_state_keeps_its_form,
    step_checks.check_state_has_memory_of_its_own,
    step_checks.check_two_runs_are_equal,
    step_checks.check_a_step_can_be_repeated,
    step_checks.check_arguments_are_left_alone,
    step_checks.check_live_tensors_stay_clean,
    step_checks.check_random_numbers_are_left_alone,
    step_checks.check_gradient_mode_does_not_matter,
    step_checks.check_graphs_are_freed,
    step_checks.check_resuming_changes_nothing,
    step_checks.check_precisions,
    behaviour_checks.check_cost_is_the_same_in_every_period,
    behaviour_checks.check_oracles_agree,
    behaviour_checks.check_a_poor_oracle_is_refused,
    behaviour_checks.check_fused_attention,
    behaviour_checks.check_compiled_module,
    behaviour_checks.check_nan_is_reported_and_undone,
    behaviour_checks.check_outer_loss_without_gradient,
    behaviour_checks.check_inner_solution_as_start,
    behaviour_checks.check_projections_hold,
    behaviour_checks.check_wrong_number_of_batches_is_refused,
    behaviour_checks.check_form_of_variables_does_not_matter,
    behaviour_checks.check_settles_where_it_says,
)
"""All checks of a method, the quick ones first."""
