"""How often verdicts are right: what refutes an answer near by, and how it is counted."""

import torch

from bome.tasks.bolib import RECORDS, Record
from bome_studies.bolib.verdicts import Ended, ended, refutation, table


def _found(x: float, y: float, name: str = "follower") -> str:
    return refutation(MADE[name], *(torch.tensor([z], dtype=torch.float64) for z in (x, y)))


MADE = {
    "follower": Record(
        "follower", "", "free", lambda x, y: (y[0] - 1) ** 2 + x[0] ** 2, lambda x, y: (y[0] - x[0]) ** 2,
        ((0.0,), (0.0,)), 0.5, ((0.5,), (0.5,)),
    ),
    "wells": Record(
        "wells", "", "free", lambda x, y: x[0] ** 2 + 0 * y[0], lambda x, y: (y[0] ** 2 - 1) ** 2,
        ((0.0,), (0.0,)), 0.0, ((0.0,), (1.0,)),
    ),
    "flat": Record(
        "flat", "", "free", lambda x, y: (y[0] - x[0]) ** 2 + x[0] ** 2, lambda x, y: 0 * y[0] * x[0],
        ((0.0,), (0.0,)), 0.0, ((0.0,), (0.0,)),
    ),
}  # fmt: skip


def test_a_solution_is_not_refuted() -> None:
    assert _found(0.5, 0.5) == ""
    assert _found(0.0, -1.0, "wells") == ""
    assert _found(0.0, 0.0, "flat") == ""


def test_what_is_lower_near_by_refutes() -> None:
    assert _found(0.7, 0.7).startswith("v = [0.6")
    assert _found(0.5, 0.6).startswith("where a descent of g from θ ends f is 0.5, not 0.41")
    assert _found(0.0, 0.0, "wells").startswith("from θ, pushed by 0.001, g falls from 1 to ")
    assert _found(0.5, 0.5, "flat").startswith("v = [")


def test_the_known_optima_are_not_refuted() -> None:
    for name in ("bolib-henrionsurowiec2011", "bolib-mitsosbarton2006ex317"):
        record = RECORDS[name]
        x, y = (torch.tensor(z, dtype=torch.float64) for z in record.solution)
        assert refutation(record, x, y) == ""


def test_a_run_is_judged() -> None:
    found = ended(("bolib-henrionsurowiec2011", "aid-cg"))
    assert found.solved
    assert found.claim is True
    assert found.verdict.startswith("stationary")
    assert found.refuted == ""


def test_the_table_counts() -> None:
    runs = [
        Ended("a", "bome", True, "", solved=True),
        Ended("b", "bome", True, "", refuted="lower"),
        Ended("c", "itd", False, "", solved=True),
        Ended("d", "itd", None, "", solved=True),
        Ended("e", "itd", None, "diverged"),
    ]
    assert table(runs).splitlines()[1:] == [
        "bome | 2 | 1 | 1 | 1 | 0 | 0",
        "itd | 0 | 0 | 0 | 2 | 1 | 1",
        "all | 2 | 1 | 1 | 3 | 1 | 1",
    ]
