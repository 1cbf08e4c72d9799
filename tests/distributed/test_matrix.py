"""A step is the same wherever a model is trained: every cell of the matrix against one process in float32."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from bome_studies.matrix.cells import CELLS, METHODS, Attempt, attempt
from bome_studies.matrix.launch import launch
from bome_studies.matrix.measures import LAYERS, T, precision
from tests.distributed import started

FIRST_ORDER = ("bome", "bome-z", "probe", "f2sa", "darts")
SECOND_ORDER = ("itd", "aid-cg")
ALONE = [name for name, cell in CELLS.items() if cell.ranks == 1]
TOGETHER = [name for name, cell in CELLS.items() if cell.ranks == 2]
TAKES_SECOND_ORDER = {"plain", "bf16", "accumulation", "lora"}


Found = Callable[[str, int], Any]


@pytest.fixture(scope="session")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What the worker of the matrix finds, by what it does and the number of ranks; started once for all tests."""

    def of(what: str, ranks: int) -> Any:
        if (what, ranks) == ("cells", 2):
            return json.loads((started.fast(tmp_path_factory) / "cells.json").read_text())
        place = started.folder(tmp_path_factory, f"{what}-{ranks}")
        with started.once(place) as first:
            out = place / "found.json"
            return launch(what, ranks, out, timeout=600) if first else json.loads(out.read_text())

    return of


def check_same_step(found: Attempt) -> None:
    assert found.works, found.message
    assert found.error <= CELLS[found.cell].tolerance
    assert found.same


def among(found: Any, cell: str, method: str) -> Attempt:
    return next(Attempt(**o) for o in found["attempts"] if (o["cell"], o["method"]) == (cell, method))


@pytest.mark.parametrize("method", FIRST_ORDER)
@pytest.mark.parametrize("cell", ALONE)
def test_a_first_order_step_is_the_plain_one(cell: str, method: str) -> None:
    check_same_step(attempt(cell, method))


@pytest.mark.parametrize("method", SECOND_ORDER)
@pytest.mark.parametrize("cell", ALONE)
def test_a_second_order_method_makes_the_plain_step_or_refuses_before_it(cell: str, method: str) -> None:
    found = attempt(cell, method)
    if cell in TAKES_SECOND_ORDER:
        check_same_step(found)
    else:
        assert not found.works
        assert found.message.startswith(f"{method} needs ")
        assert "first-order method" in found.message


@pytest.mark.parametrize("method", FIRST_ORDER)
@pytest.mark.parametrize("cell", TOGETHER)
def test_a_first_order_step_of_two_ranks_is_that_of_one_process(cell: str, method: str, found: Found) -> None:
    check_same_step(among(found("cells", 2), cell, method))


@pytest.mark.parametrize("method", SECOND_ORDER)
@pytest.mark.parametrize("cell", TOGETHER)
def test_a_second_order_method_refuses_wrapped_modules(cell: str, method: str, found: Found) -> None:
    refused = among(found("cells", 2), cell, method)
    assert not refused.works
    assert f"{method} needs" in refused.message
    assert "use AutogradOracle, or a first-order method such as bome" in refused.message


@pytest.mark.slow
@pytest.mark.parametrize("method", FIRST_ORDER)
def test_a_first_order_step_of_four_ddp_ranks_is_that_of_one_process(method: str, found: Found) -> None:
    check_same_step(among(found("cells", 4), "ddp-4", method))


@pytest.mark.slow
@pytest.mark.parametrize("method", SECOND_ORDER)
def test_a_second_order_method_refuses_four_ddp_ranks(method: str, found: Found) -> None:
    assert f"{method} needs" in among(found("cells", 4), "ddp-4", method).message


def test_ddp_gradients_averaged_after_the_multiplier_fail_the_comparison(found: Found) -> None:
    assert found("cells", 2)["measures"]["late_average"] > 1e-4  # a hundred times the tolerance


def test_an_fsdp_step_sends_what_its_evaluations_send_and_one_sum_of_a_few_numbers(found: Found) -> None:
    """Each evaluation that asks for ∇_v sends it with the loss in one message; at θ^(T) a loss on the way goes, too."""
    told = found("cells", 2)["measures"]["messages"]
    assert told["step"] == told["evaluations"]
    assert any("gather" in name for name in told["step"])
    assert any("scatter" in name for name in told["step"])
    assert told["evaluation_sums"] == []
    v, products = told["v"], 3
    assert told["step_sums"] == [v + 1, v + 2, v + 1, products]


def test_ddp_rows_of_samples_stay_on_their_rank_and_equal_those_of_one_process(found: Found) -> None:
    told = found("cells", 2)["measures"]["rows"]
    assert told["same"]
    assert told["moved"] > 0.01
    assert told["v"] <= 1e-6
    assert told["theta"] <= 1e-6


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_nan_on_one_rank_stops_all_of_them_and_moves_nothing(kind: str, found: Found) -> None:
    told = found("cells", 2)["measures"]["unshared_nan"][kind]
    assert told["everywhere"], json.dumps(told)
    assert told["message"].startswith("step 0: f at (v, θ) is not finite")


def test_bfloat16_keeps_the_multiplier_and_the_length_of_the_direction() -> None:
    told = precision()
    assert T >= 5
    assert told["lam"] > 0
    assert told["lam_change"] <= 1e-2
    assert told["length_change"] <= 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2])
def test_a_step_needs_two_more_copies_of_the_parameters_whatever_the_number_of_inner_steps(
    ranks: int, found: Found
) -> None:
    """Copies of what a rank holds, and blocks of float64 for the inner products.

    FSDP2 gathers one layer after the other, and when it lets go of one is its own affair.
    """
    told, gathered = found("memory", ranks), ranks / LAYERS if ranks > 1 else 0.0
    assert told["T = 1"] <= 2.1 + gathered
    assert told["T = 8"] <= 2.1 + gathered
    assert told["T = 8"] - told["T = 1"] <= 0.1


def test_every_method_of_the_matrix_is_asked_for() -> None:
    assert set(FIRST_ORDER + SECOND_ORDER) == set(METHODS)
