"""A part is computed once, and what is damaged, or was made with other settings, is not believed."""

import itertools
import math
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from bome.errors import ProblemError, StorageError
from bome.storage import memo as module
from bome.storage.memo import Memo, digest
from tests.support.kills import killed_at

VALUE = {"loss": [0.5, math.nan, -math.inf], "rows": (1, "grün", None), "weights": torch.arange(6.0).reshape(2, 3)}
SPEC = {"seed": 0, "steps": 10, "lr": 0.1, "sizes": (1, 2)}


def same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b) and type(a) is type(b)


def test_a_part_is_computed_once(tmp_path: Path) -> None:
    calls: list[int] = []

    def compute() -> Any:
        calls.append(1)
        return VALUE

    for name in ("part", "toys/lr=0.1/seed0"):
        for _ in range(3):
            assert same(Memo(tmp_path).keep(name, SPEC, compute), VALUE)
    assert len(calls) == 2
    assert (tmp_path / "toys" / "lr=0.1" / "seed0.json").is_file()


def test_nothing_is_kept_without_a_folder() -> None:
    numbers = iter((1, 2))
    assert Memo(None).keep("part", SPEC, lambda: next(numbers)) == 1
    assert Memo(None).keep("part", SPEC, lambda: next(numbers)) == 2
    assert Memo(None).read("part", SPEC) is None


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3)], ids=str)
def test_arrays_come_back_as_arrays(tmp_path: Path, dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    array.flags.writeable = False
    Memo(tmp_path).write("part", None, {"a": [array.T], "t": torch.from_numpy(array.copy())})
    value = Memo(tmp_path).read("part", None)
    assert value is not None
    (found,) = value["a"]
    assert isinstance(found, np.ndarray)
    assert isinstance(value["t"], torch.Tensor)
    np.testing.assert_array_equal(found, array.T, strict=True)
    assert found.flags.writeable


@pytest.mark.parametrize(
    "spec",
    [
        {**SPEC, "seed": 1}, {**SPEC, "lr": 0.1 + 1e-17 + 1e-16}, {**SPEC, "steps": 10.0}, {**SPEC, "sizes": [1, 2]},
        {**SPEC, "more": None}, {"seed": 0}, None, "",
    ],
    ids=str,
)  # fmt: skip
def test_another_specification_is_not_believed(tmp_path: Path, spec: Any) -> None:
    memo = Memo(tmp_path)
    memo.write("part", SPEC, VALUE)
    assert memo.read("part", spec) is None
    assert memo.keep("part", spec, lambda: "other") == "other"
    assert memo.read("part", SPEC) is None  # there is one of a name


def test_the_order_of_keys_and_nan_do_not_count(tmp_path: Path) -> None:
    Memo(tmp_path).write("part", {"a": 1, "b": math.nan}, 7)
    assert Memo(tmp_path).read("part", {"b": math.nan, "a": 1}) == 7


@pytest.mark.parametrize("name", ["part.json", "part.safetensors"])
def test_any_flipped_bit_lets_a_part_be_computed_again(tmp_path: Path, name: str) -> None:
    memo = Memo(tmp_path)
    memo.write("part", SPEC, VALUE)
    good = (tmp_path / name).read_bytes()
    for position in range(0, 8 * len(good), 3):
        bad = bytearray(good)
        bad[position // 8] ^= 1 << position % 8
        (tmp_path / name).write_bytes(bad)
        assert memo.read("part", SPEC) is None, position
    assert memo.keep("part", SPEC, lambda: "again") == "again"
    assert memo.read("part", SPEC) == "again"


@pytest.mark.parametrize("name", ["part.json", "part.safetensors"])
def test_what_is_cut_grown_missing_or_foreign_is_not_there(tmp_path: Path, name: str) -> None:
    memo, path = Memo(tmp_path), tmp_path / name
    memo.write("part", SPEC, VALUE)
    good = path.read_bytes()
    for content in (*(good[:cut] for cut in range(len(good))), good + b" ", b"[]", b"null", b"[" * 200_000, b"\xff"):
        path.write_bytes(content)
        assert memo.read("part", SPEC) is None
    path.unlink()
    assert memo.read("part", SPEC) is None
    path.mkdir()
    assert memo.read("part", SPEC) is None
    with pytest.raises(StorageError, match="cannot write"):
        memo.write("part", SPEC, VALUE)
    path.rmdir()
    os.mkfifo(path)
    assert memo.read("part", SPEC) is None
    assert same(memo.keep("part", SPEC, lambda: VALUE), VALUE)
    assert same(memo.read("part", SPEC), VALUE)


def test_a_sealed_part_that_makes_no_sense_is_not_there(tmp_path: Path) -> None:
    memo = Memo(tmp_path)
    memo.write("part", SPEC, VALUE)
    spec = module._encoded(SPEC)
    for value, tensors in (({"$tensor": "t7"}, None), ({"$tuple": 1}, None), (1, []), (1, {"size": "x"})):
        body = {"format": module.FORMAT, "spec": spec, "value": value, "tensors": tensors}
        (tmp_path / "part.json").write_bytes(module._sealed(body))
        assert memo.read("part", SPEC) is None
    (tmp_path / "part.json").write_bytes(module._sealed({**body, "value": 5, "tensors": None}))
    assert memo.read("part", SPEC) == 5
    (tmp_path / "part.json").write_bytes(module._sealed({**body, "value": 5, "tensors": None, "format": 2}))
    assert memo.read("part", SPEC) is None


@pytest.mark.parametrize("value", [{1, 2}, np.array(["a"]), np.array([1j]), object()])
def test_other_values_are_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(ProblemError, match=r"value\['a'\] is an? \w+"):
        Memo(tmp_path).write("part", SPEC, {"a": value})
    assert list(tmp_path.iterdir()) == []


def test_a_specification_holds_no_arrays(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="no tensors and no arrays"):
        Memo(tmp_path).write("part", {"x": np.ones(2)}, 1)


@pytest.mark.parametrize("spec", [SPEC, {"other": 1}], ids=["the same part", "another part"])
def test_a_kill_at_any_moment_leaves_the_old_part_the_new_one_or_none(tmp_path: Path, spec: Any) -> None:
    other, outcomes = {"weights": torch.ones(4)}, []
    for n in itertools.count(1):
        memo = Memo(tmp_path / str(n))
        memo.write("part", SPEC, VALUE)
        killed = killed_at(n, partial(memo.write, "part", spec, other))
        old, new = memo.read("part", SPEC), memo.read("part", spec)
        assert new is None or same(new, other) or same(new, VALUE)
        outcomes.append("new" if same(new, other) else "old" if same(old, VALUE) else "none")
        assert same(memo.keep("part", spec, lambda: other), other) or same(new, VALUE)  # and life goes on
        if not killed:
            break
    counts = [outcomes.count(each) for each in ("old", "none", "new")]
    assert all(counts)  # none: between tensors and JSON
    assert outcomes == ["old"] * counts[0] + ["none"] * counts[1] + ["new"] * counts[2]


def test_the_digest_tells_any_two_inputs_apart() -> None:
    x = np.arange(6.0)
    inputs: list[Any] = [
        x, x.reshape(2, 3), x.astype(np.float32), -x, sparse.csr_matrix(x), sparse.csr_matrix(x[::-1]), 1, "1", None,
        np.array(["a", "bc"], dtype=object), np.array(["ab", "c"], dtype=object),
    ]  # fmt: skip
    assert len({digest([value]) for value in inputs}) == len(inputs)
    assert digest([x]) == digest([x.copy()])
