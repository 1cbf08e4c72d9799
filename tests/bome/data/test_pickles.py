"""The restricted reader of pickles: plain data comes back, anything else is refused and nothing runs."""

import builtins
import collections
import os
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bome.data import pickles
from bome.data.pickles import Array, read_pickle
from bome.errors import StorageError


@pytest.mark.parametrize("protocol", [3, 4])
def test_plain_data_comes_back(protocol: int) -> None:
    plain = {"a": [1, 2.5, "text", b"bytes", None, True], "b": ({"c": 2**70}, (), {1, 2} if protocol == 4 else 0)}
    assert read_pickle(pickle.dumps(plain, protocol), "file") == plain


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
        np.linspace(0, 1, 5, dtype=">f4"),
        np.array(["alt.atheism", "sci.space"]),
        np.empty((0, 3), np.float64),
    ],
    ids=lambda array: str(array.dtype),
)
def test_arrays_come_back(array: np.ndarray[Any, Any], protocol: int) -> None:
    found = read_pickle(pickle.dumps([array], protocol), "file")[0]
    assert isinstance(found, Array)
    np.testing.assert_array_equal(found.value, array)
    assert found.value.dtype == array.dtype


def test_an_array_of_python_2_is_read() -> None:
    """Written out by hand: the text of Python 2 holds the bytes 1, 255, 3 of an array of shape (3,)."""
    written = (
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"  # _reconstruct(...)
        b"(K\x01K\x03\x85cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"  # (1, (3,), dtype("u1", 0, 1) ...
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"  # ... with its state
        b"\x89U\x03\x01\xff\x03tb."  # False, "\x01\xff\x03")
    )
    np.testing.assert_array_equal(read_pickle(written, "file").value, np.array([1, 255, 3], np.uint8))


class Call:
    """Pickles as a call."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = function, arguments

    def __reduce__(self) -> Any:
        return self.reduced


def _evil(canary: str) -> dict[str, bytes]:
    command = f"touch {canary}"
    calls: dict[str, Any] = {
        "os.system": Call(os.system, command),
        "eval": Call(builtins.eval, f"open({canary!r}, 'w')"),
        "exec": Call(builtins.exec, f"open({canary!r}, 'w')"),
        "open": Call(open, canary, "w"),
        "getattr": Call(getattr, os, "system"),
        "nested": {"data": [Call(os.system, command)]},
        "in an array": np.array([Call(os.system, command)], dtype=object),
        "other class": collections.OrderedDict(a=1),
        "path": Path(canary),
        "numpy function": Call(np.fromfile, canary),
        "scalar": np.float64(1.0),
        "array of objects": np.array(["a", None], dtype=object),
        "records": np.zeros(2, [("a", "i4")]),
        "dates": np.zeros(2, "M8[s]"),
    }
    made = {name: pickle.dumps(value, 4) for name, value in calls.items() if name != "getattr"}
    here = canary.encode()
    return made | {
        "protocol 0": b"cposix\nsystem\n(S'touch " + here + b"'\ntR.",
        "instance": b"(S'touch " + here + b"'\nios\nsystem\n.",
        "attribute of an allowed name": b"cnumpy\nndarray.tofile\n(S'" + here + b"'\ntR.",
        "array called": b"cnumpy\nndarray\n(K\x05tR.",
        "array made without being called": b"\x80\x02cnumpy\nndarray\n)\x81.",
        "huge array called": b"\x80\x02cnumpy\nndarray\n(J\xff\xff\xff\x7ftR.",
        "attributes of a stand-in": b"\x80\x02cnumpy\nndarray\n(N}X\x03\x00\x00\x00bad\x94K\x01stb.",
        "attributes of the reader": b"\x80\x02csklearn.utils._bunch\nBunch\n(N}X\x03\x00\x00\x00badK\x01stb.",
        "persistent": b"Pid\n.",
        "extension": b"\x80\x02\x82\x01.",
        "import": b"cantigravity\nfly\n.",
        "buffer": b"\x80\x05\x97.",
        "dtype of objects": b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00O8K\x00K\x01\x87R.",
        "wrong length": pickle.dumps(np.arange(4), 4).replace(b"\x04\x85", b"\x05\x85"),
    }


@pytest.mark.parametrize("name", _evil("x"))
def test_an_evil_pickle_is_refused_and_nothing_runs(name: str, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    with pytest.raises(StorageError, match="file is refused: "):
        read_pickle(_evil(str(canary))[name], "file")
    assert not canary.exists()
    assert not any(hasattr(kind, "bad") for kind in pickles._ALLOWED.values())


def test_the_evil_pickles_would_run_elsewhere(tmp_path: Path) -> None:
    """They are what they claim to be: calls of the names they are called by."""
    text = {name: [str(arg) for _, arg, _ in pickletools.genops(raw)] for name, raw in _evil("x").items()}
    assert {"system", "posix"} <= set(text["os.system"])
    assert {"exec", "builtins"} <= set(text["exec"])


def test_a_pickle_that_ends_anywhere_before_its_end_is_refused() -> None:
    whole = pickle.dumps({"data": np.arange(9), "names": ["a", "b"]}, 4)
    for cut in range(len(whole)):
        with pytest.raises(StorageError, match="file is refused"):
            read_pickle(whole[:cut], "file")


def test_a_pickle_with_any_changed_byte_gives_data_or_is_refused() -> None:
    whole = pickle.dumps({"data": np.arange(9, dtype=np.uint8), "names": ["a", "b"]}, 4)
    refused = 0
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 0x15
        try:
            read_pickle(bytes(changed), "file")
        except StorageError:
            refused += 1
    assert refused > len(whole) // 3
