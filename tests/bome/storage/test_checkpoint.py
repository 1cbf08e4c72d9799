"""Checkpoints: what goes in comes out, and neither kills, full disks, rot nor malice get through.

The kills are real: this file, run as a program, forks savers and ends them with SIGKILL (see `main`). A process of its
own does that, because forking from a test runner with threads is asking for trouble.
"""

import errno
import itertools
import json
import math
import os
import pickle
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bome.errors import ProblemError, StorageError
from bome.storage import atomic, checkpoint
from bome.storage.atomic import write_atomic
from bome.storage.checkpoint import CheckpointWarning, load, load_latest, save
from bome.storage.encoding import entry

FILES = ("manifest.json", "state.json", "tensors.safetensors")
DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
)  # fmt: skip


def same(a: Any, b: Any) -> bool:
    """Equal in type, shape, order and every bit (any NaN outside of a tensor equals any other)."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and raw_bytes(a) == raw_bytes(b)
    if isinstance(a, float):
        return (math.isnan(a) and math.isnan(b)) or struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


def raw_bytes(tensor: torch.Tensor) -> bytes:
    return bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())


def state_at(step: int, version: int = 0) -> dict[str, Any]:
    """The state a test saves at a step: a function of the step, so that a mix-up shows."""
    generator = torch.Generator().manual_seed(1000 * step + version)
    weights = torch.randn(32, 32, generator=generator)
    return {"version": version, "weights": weights, "optimizer": {0: (step, math.inf, weights[0])}}


def assert_good(found: checkpoint.Checkpoint | None, step: int, version: int = 0) -> None:
    assert found is not None
    assert found.step == step
    assert same(found.state, state_at(step, version))


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


# --- round trips ------------------------------------------------------------------------------------------------------


def tensor_of(dtype: torch.dtype, shape: tuple[int, ...], seed: int, transposed: bool) -> torch.Tensor:
    """A tensor of arbitrary bits, NaN payloads included."""
    count = math.prod(shape) * dtype.itemsize
    high = 2 if dtype is torch.bool else 256
    data = torch.randint(high, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))
    tensor = data.view(dtype).reshape(shape)
    return tensor.mT if transposed and tensor.ndim >= 2 else tensor


shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
tensors = st.builds(tensor_of, st.sampled_from(DTYPES), shapes, st.integers(0, 99), st.booleans())
texts = st.text(st.characters(codec=None)) | st.sampled_from(["$tensor", "$dict", "__metadata__", ""])
keys = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts | st.binary(max_size=4)
states = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=8) | tensors,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(state=states, step=st.integers(0, 10**9))
def test_any_state_comes_back_as_it_was(state: Any, step: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder), step, state)
        found = load(path)
    assert found.step == step
    assert found.path == path
    assert same(found.state, state)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (5,), (2, 3), (2, 3, 4)], ids=str)
def test_tensors_of_every_type_and_shape(tmp_path: Path, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = tensor_of(dtype, shape, seed=3, transposed=True)
    assert same(load(save(tmp_path, 0, tensor)).state, tensor)


def test_shared_expanded_and_strided_tensors_come_back_without_sharing(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    state = {"a": base, "again": base, "row": base[1], "every": base[:, ::2], "wide": base[:1].expand(5, 4)}
    loaded = load(save(tmp_path, 0, state)).state
    assert same(loaded, state)
    pointers = {tensor.untyped_storage().data_ptr() for tensor in loaded.values()}
    assert len(pointers) == len(state)
    loaded["a"].zero_()
    assert same(loaded["again"], base)


def test_changing_the_state_afterwards_does_not_change_the_checkpoint(tmp_path: Path) -> None:
    state = state_at(1)
    save(tmp_path, 1, state)
    state["weights"].zero_()
    assert_good(load_latest(tmp_path), 1)


def test_subclasses_come_back_as_the_plain_types(tmp_path: Path) -> None:
    state = {
        "module": OrderedDict(w=torch.nn.Parameter(torch.ones(2))),
        "size": torch.Size([2, 3]),
        "number": np.float64("inf"),
    }
    loaded = load(save(tmp_path, 0, state)).state
    assert same(loaded, {"module": {"w": torch.ones(2)}, "size": (2, 3), "number": math.inf})


def test_random_number_generators_continue_equally(tmp_path: Path) -> None:
    generator, python = torch.Generator().manual_seed(5), random.Random(5)  # noqa: S311 the generator under test
    path = save(tmp_path, 0, {"torch": generator.get_state(), "python": python.getstate()})
    expected = [torch.rand(3, generator=generator).tolist(), python.random()]
    state = load(path).state
    generator.set_state(state["torch"])
    python.setstate(state["python"])
    assert [torch.rand(3, generator=generator).tolist(), python.random()] == expected


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
        lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.99)),
    ],
    ids=["sgd", "momentum", "adam", "adamw"],
)
def test_optimizers_continue_equally(tmp_path: Path, make: Callable[[Any], torch.optim.Optimizer]) -> None:
    def fresh() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
        groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.05}]
        return model, make(groups)

    model, optimizer = fresh()
    train(model, optimizer, range(5))
    path = save(tmp_path, 5, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    train(model, optimizer, range(5, 25))

    resumed, resumed_optimizer = fresh()
    state = load(path).state
    resumed.load_state_dict(state["model"])
    resumed_optimizer.load_state_dict(state["optimizer"])
    train(resumed, resumed_optimizer, range(5, 25))
    assert same(dict(resumed.state_dict()), dict(model.state_dict()))
    assert same(resumed_optimizer.state_dict(), optimizer.state_dict())


class Named(NamedTuple):
    field: int


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": [1, {2}]}, r"state\['a'\]\[1\] is a set"),
        ({"a": Named(1)}, r"state\['a'\] is a Named"),
        ({"a": np.ones(2)}, r"state\['a'\] is a ndarray"),
        ({(1, 2): 3}, r"state has the key \(1, 2\)"),
        ([torch.ones(2).to_sparse()], r"state\[0\] is a tensor that .*sparse"),
        ([torch.ones(2, device="meta")], r"state\[0\] is a tensor that .*meta"),
        ([torch.ones(2, dtype=torch.complex128)], r"state\[0\] is a tensor that .*complex128"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_things_are_refused_before_anything_is_written(tmp_path: Path, state: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        save(tmp_path / "new", 0, state)
    assert names(tmp_path) == []


def test_a_state_that_contains_itself_is_refused(tmp_path: Path) -> None:
    state: list[Any] = []
    state.append(state)
    with pytest.raises(ProblemError, match="contains itself"):
        save(tmp_path, 0, state)


@pytest.mark.parametrize(("step", "keep"), [(-1, 3), (0, 0)])
def test_bad_arguments(tmp_path: Path, step: int, keep: int) -> None:
    with pytest.raises(ProblemError, match="step >= 0 and keep >= 1"):
        save(tmp_path, step, {}, keep)


# --- the folder -------------------------------------------------------------------------------------------------------


def test_an_empty_or_missing_folder_has_no_latest(tmp_path: Path) -> None:
    assert load_latest(tmp_path) is None
    assert load_latest(tmp_path / "missing") is None


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(StorageError, match=r"cannot read .*file: Not a directory"):
        load_latest(file)
    with pytest.raises(StorageError, match=r"cannot write .*step_00000000: .* \(need about 0.0 MB\)"):
        save(file, 0, {})
    with pytest.raises(StorageError, match=r"cannot write .*config.json"):
        write_atomic(file / "config.json", "{}")
    assert file.read_text() == "x"


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in range(6):
        save(tmp_path, step, state_at(step), keep=2)
    assert names(tmp_path) == ["step_00000004", "step_00000005"]
    assert_good(load_latest(tmp_path), 5)


def test_newest_means_the_largest_number_not_the_last_name(tmp_path: Path) -> None:
    for step in (99_999_999, 100_000_000):
        save(tmp_path, step, state_at(step))
    assert_good(load_latest(tmp_path), 100_000_000)


def test_the_checkpoint_just_saved_is_never_pruned(tmp_path: Path) -> None:
    for step in (7, 8, 9, 3):
        path = save(tmp_path, step, state_at(step), keep=2)
    assert names(tmp_path) == ["step_00000003", "step_00000009"]
    assert_good(load(path), 3)


def test_the_same_step_again_replaces_it(tmp_path: Path) -> None:
    for version in range(3):
        path = save(tmp_path, 4, state_at(4, version))
        assert path == tmp_path / "step_00000004"
        assert_good(load_latest(tmp_path), 4, version)
        assert names(tmp_path) == ["step_00000004"]


def test_strays_of_dead_processes_are_removed_and_nothing_else(tmp_path: Path) -> None:
    dead = dead_pid()
    gone = [f"step_00000007.tmp-{dead}", f"step_00000001.old-{dead}", f"step_00000009.tmp-{os.getpid()}"]
    stay = [f"step_00000008.tmp-{os.getppid()}", f"notes.tmp-{dead}", "step_x", "notes"]
    for name in gone + stay:
        (tmp_path / name).mkdir()
        (tmp_path / name / "tensors.safetensors").write_bytes(b"half")
    assert load_latest(tmp_path) is None
    save(tmp_path, 0, state_at(0))
    assert names(tmp_path) == sorted([*stay, "step_00000000"])


def test_loading_a_checkpoint_that_was_renamed(tmp_path: Path) -> None:
    best = save(tmp_path, 3, state_at(3)).rename(tmp_path / "best")
    assert_good(load(best), 3)
    wrong = best.rename(tmp_path / "step_00000009")
    with pytest.raises(StorageError, match=r"manifest.json is of step 3$"):
        load(wrong)


# --- power loss: the order of writes, syncs and renames ---------------------------------------------------------------


class Recorder:
    """Stands for `os` in the module under test and notes what happens to which path."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []
        self._open: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, *args: Any) -> int:
        descriptor = os.open(path, *args)
        self._open[descriptor] = Path(path).name
        return descriptor

    def write(self, descriptor: int, data: bytes) -> int:
        self.events.append(("write", self._open[descriptor]))
        return os.write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self.events.append(("fsync", self._open[descriptor]))
        os.fsync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self.events.append(("rename", Path(target).name))
        os.rename(source, target)


def test_everything_is_on_disk_before_the_rename_and_the_name_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(atomic, "os", recorder)
    save(tmp_path / "run", 5, state_at(5))
    temporary = f"step_00000005.tmp-{os.getpid()}"
    files = [("write", name) for name in FILES] + [("fsync", name) for name in FILES]
    assert recorder.events[0] == ("fsync", tmp_path.name)  # the new folder itself
    assert sorted(recorder.events[1:7]) == sorted(files)
    assert recorder.events[7:] == [("fsync", temporary), ("rename", "step_00000005"), ("fsync", "run")]
    for name in FILES:
        assert recorder.events.index(("write", name)) < recorder.events.index(("fsync", name))

    recorder.events.clear()
    save(tmp_path / "run", 5, state_at(5, version=1))
    moves = [event for event in recorder.events if event[0] == "rename" or event[1] == "run"]
    assert moves == [
        ("rename", "step_00000005.new"),
        ("fsync", "run"),
        ("rename", f"step_00000005.old-{os.getpid()}"),
        ("rename", "step_00000005"),
        ("fsync", "run"),
    ]


# --- full and failing disks -------------------------------------------------------------------------------------------


class Failing:
    """Stands for `os` in the module under test; its n-th change to the disk fails."""

    CHANGES = ("mkdir", "write", "fsync", "rename", "replace")

    def __init__(self, n: int, code: int) -> None:
        self.left, self.code = n, code

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if name not in self.CHANGES:
            return real

        def counted(*args: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise OSError(self.code, os.strerror(self.code))
            return real(*args)

        return counted


def failures(monkeypatch: pytest.MonkeyPatch, code: int) -> Iterator[int]:
    """Let the first, second, ... change to the disk fail, until all have had their turn."""
    for n in itertools.count(1):
        failing = Failing(n, code)
        monkeypatch.setattr(atomic, "os", failing)
        yield n
        monkeypatch.setattr(atomic, "os", os)
        if failing.left > 0:
            assert n > 4, "nothing was counted"
            return


def refusal(folder: Path, step: int) -> str:
    """Save and return the message of the error, if any."""
    try:
        save(folder, step, state_at(step, version=1))
    except StorageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT], ids=os.strerror)
@pytest.mark.parametrize("step", [2, 3], ids=["same step again", "next step"])
def test_any_failing_call_leaves_a_good_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, step: int
) -> None:
    refused = 0
    for n in failures(monkeypatch, code):
        folder = tmp_path / str(n)
        with monkeypatch.context() as healthy:
            healthy.setattr(atomic, "os", os)
            for old in range(3):
                save(folder, old, state_at(old))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            message = refusal(folder, step)
        if message:
            refused += 1
            expected = f"cannot write {folder}/step_0000000{step}: {os.strerror(code)} (need about 0.0 MB)"
            assert message == expected
        assert not any(".tmp-" in name for name in names(folder))
        assert all(str(item.message).startswith("cannot remove") for item in caught)
        found = load_latest(folder)
        assert found is not None
        is_new = same(found.state, state_at(step, version=1))
        assert is_new or (message and same(found.state, state_at(2)))
    assert refused >= 9  # mkdir, 3 writes, 4 syncs and a rename at the least


def test_an_old_checkpoint_that_cannot_be_removed_is_no_reason_to_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 0, state_at(0))
    monkeypatch.setattr(atomic, "os", Failing(11, errno.EACCES))  # the first change after the save itself
    with pytest.warns(CheckpointWarning, match=r"cannot remove .*step_00000000: Permission denied"):
        save(tmp_path, 1, state_at(1), keep=1)
    assert_good(load_latest(tmp_path), 1)


def test_the_message_of_a_full_disk_says_how_much_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic, "os", Failing(2, errno.ENOSPC))
    with pytest.raises(StorageError, match=r"No space left on device \(need about 4\.0 MB\)$"):
        save(tmp_path, 0, torch.zeros(1_000_000))
    assert names(tmp_path) == []


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic, "sync_folder", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path, 0, state_at(0))
    assert names(tmp_path) == []


# --- damaged checkpoints ----------------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A folder with checkpoints of steps 1 and 2; the tests damage the second."""
    for step in (1, 2):
        save(tmp_path, step, state_at(step))
    return tmp_path


def assert_refused(folder: Path, message: str) -> None:
    """The checkpoint of step 2 is refused with one line, and step 1 is used with a warning."""
    with pytest.raises(StorageError, match=message) as refusal:
        load(folder / "step_00000002")
    assert "\n" not in str(refusal.value)
    with pytest.warns(CheckpointWarning, match=f"step_00000002: {message}.*; using step_00000001 instead") as caught:
        assert_good(load_latest(folder), 1)
    assert len(caught) == 1


def flips(size: int, count: int, seed: int) -> list[int]:
    """Positions of bits: all of a small file, some of a large one."""
    return [int(position) for position in np.random.default_rng(seed).permutation(8 * size)[:count]]


@pytest.mark.parametrize(
    ("name", "count"), [("manifest.json", 4000), ("state.json", 1000), ("tensors.safetensors", 1500)]
)
def test_a_flipped_bit_is_refused(two: Path, name: str, count: int) -> None:
    path = two / "step_00000002" / name
    good = path.read_bytes()
    for position in flips(len(good), count, seed=1):
        bad = bytearray(good)
        bad[position // 8] ^= 1 << position % 8
        path.write_bytes(bad)
        with pytest.raises(StorageError, match=r"damaged|checksum|format version"):
            load(path.parent)
    assert_refused(two, ".")
    path.write_bytes(good)
    assert_good(load_latest(two), 2)


@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_short_grown_or_missing_is_refused(two: Path, name: str) -> None:
    path = two / "step_00000002" / name
    good = path.read_bytes()
    for size in {0, 1, 7, 8, 9, len(good) // 2, len(good) - 1}:
        path.write_bytes(good[:size])
        with pytest.raises(StorageError, match=r"damaged|has .* bytes instead of"):
            load(path.parent)
    for more in (b"\0", b"\n", b" ", good):
        path.write_bytes(good + more)
        with pytest.raises(StorageError, match=r"damaged|has .* bytes instead of"):
            load(path.parent)
    assert_refused(two, ".")
    path.unlink()
    assert_refused(two, f"cannot read {name}: No such file or directory")


def test_files_of_another_checkpoint_are_refused(two: Path) -> None:
    for name in ("state.json", "tensors.safetensors"):
        save(two / "other", 2, state_at(2, version=1))
        shutil.copy(two / "other" / "step_00000002" / name, two / "step_00000002")
        with pytest.raises(StorageError, match=r"checksum mismatch in|bytes instead of"):
            load(two / "step_00000002")


def test_an_empty_directory_is_refused(two: Path) -> None:
    shutil.rmtree(two / "step_00000002")
    (two / "step_00000002").mkdir()
    assert_refused(two, "cannot read manifest.json")


def test_no_good_checkpoint_at_all_is_an_error(two: Path) -> None:
    for step in (1, 2):
        (two / f"step_0000000{step}" / "state.json").write_text("{}")
    with pytest.raises(
        StorageError, match=r"none of 2 checkpoints is good; the newest: .*step_00000002: state.json has"
    ):
        load_latest(two)


def test_every_damaged_checkpoint_has_its_warning(two: Path) -> None:
    save(two, 3, state_at(3))
    for step in (2, 3):
        (two / f"step_0000000{step}" / "state.json").unlink()
    with pytest.warns(CheckpointWarning) as caught:
        assert_good(load_latest(two), 1)
    assert [str(item.message).split(":")[0][-13:] for item in caught] == ["step_00000003", "step_00000002"]


# --- hostile checkpoints ----------------------------------------------------------------------------------------------


def forge(path: Path, files: dict[str, bytes], /, **changes: Any) -> None:
    """Put files into a checkpoint together with a manifest that fits them."""
    for name, data in files.items():
        (path / name).write_bytes(data)
    contents = {name: (path / name).read_bytes() for name in ("state.json", "tensors.safetensors")}
    records = {name: entry(data) for name, data in contents.items()}
    body = {"format": checkpoint.FORMAT, "step": 2, "files": records, **changes}
    (path / "manifest.json").write_bytes(checkpoint._seal(body))


def header(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def test_forging_works(two: Path) -> None:
    """Otherwise the tests below would show nothing."""
    forge(two / "step_00000002", {"state.json": b'{"a": [1]}'})
    assert load(two / "step_00000002").state == {"a": [1]}


def test_another_format_version_is_named(two: Path) -> None:
    forge(two / "step_00000002", {}, format=2)
    assert_refused(two, "format version 2; this version of bome reads 1")


@pytest.mark.parametrize(
    "changes",
    [
        {"step": "2"}, {"step": None}, {"files": []}, {"files": {}}, {"files": {"../../x": {}}},
        {"files": {"state.json": 1, "tensors.safetensors": 2}},
        {"files": {"state.json": {"size": "1"}, "tensors.safetensors": {}}},
    ],
    ids=str,
)  # fmt: skip
def test_a_sealed_but_senseless_manifest_is_refused(two: Path, changes: dict[str, Any]) -> None:
    forge(two / "step_00000002", {}, **changes)
    assert_refused(two, "manifest.json is malformed")


@pytest.mark.parametrize("content", [b"", b"[]", b"1", b"null", b"{}", b"\xff\xfe", b"[" * 60_000, b"1" * 9_999])
def test_a_senseless_manifest_is_refused(two: Path, content: bytes) -> None:
    (two / "step_00000002" / "manifest.json").write_bytes(content)
    assert_refused(two, "manifest.json is damaged")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"\xff", b"[" * 100_000, b"1" * 9_999,
        b'{"$tensor": "t99"}', b'{"$tensor": []}', b'[{"$tensor": "t0"}, {"$tensor": "t0"}]',
        b'{"$tuple": 1}', b'{"$dict": [1]}', b'{"$dict": [[[], 1]]}', b'{"$dict": [[1, 2, 3]]}',
        b'{"$float": "x"}', b'{"$float": []}', b'{"$bytes": "*"}', b'{"$bytes": 1}',
    ],
)  # fmt: skip
def test_a_forged_state_is_refused(two: Path, content: bytes) -> None:
    forge(two / "step_00000002", {"state.json": content})
    assert_refused(two, "the content is malformed")


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\0" * 7, struct.pack("<Q", 2**63) + b"{}", header("{"), header("[]"), header("null"),
        header('{"t0": {"dtype": "F32", "shape": [1000000000000], "data_offsets": [0, 4000000000000]}}'),
        header('{"t0": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}}'),
        header('{"t0": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}'),
        header('{"t0": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}') + b"more",
        header('{"t0": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 0]}}'),
        header('{"t0": {"dtype": "object", "shape": [0], "data_offsets": [0, 0]}}'),
    ],
    ids=range(12),
)  # fmt: skip
def test_forged_tensors_are_refused(two: Path, content: bytes) -> None:
    forge(two / "step_00000002", {"tensors.safetensors": content})
    assert_refused(two, "the content is malformed")


class Bomb:
    """Creates a file when unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = canary

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.canary),))


@pytest.mark.parametrize("name", FILES)
def test_a_pickle_is_never_executed(two: Path, name: str) -> None:
    canary = two / "canary"
    pickled = pickle.dumps(Bomb(canary))
    pickle.loads(pickled)  # noqa: S301 shows that the bomb is live
    canary.rmdir()

    torch.save(Bomb(canary), two / "bomb.pt")
    for bomb in (pickled, (two / "bomb.pt").read_bytes()):
        path = two / "step_00000002"
        (path / name).write_bytes(bomb)
        assert_refused(two, ".")
        if name != "manifest.json":
            forge(path, {name: bomb})
            assert_refused(two, "the content is malformed")
    assert not canary.exists()


@pytest.mark.parametrize("name", FILES)
def test_a_huge_file_is_refused_before_it_is_read(two: Path, name: str) -> None:
    os.truncate(two / "step_00000002" / name, 1 << 40)  # a hole: takes no space on disk
    assert_refused(two, f"{name} has 1099511627776 bytes")


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_device_or_directory_in_the_place_of_a_file_is_refused(two: Path, name: str) -> None:
    path = two / "step_00000002" / name
    path.unlink()
    os.mkfifo(path)
    assert_refused(two, f"{name} is not a regular file")
    path.unlink()
    path.symlink_to("/dev/zero")
    assert_refused(two, f"{name} is not a regular file")
    path.unlink()
    path.mkdir()
    assert_refused(two, f"cannot read {name}: Is a directory|{name} is not a regular file")


# --- write_atomic -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["grün λ\n", b"\x00\xff", ""])
def test_write_atomic_writes(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "new" / "summary.json"
    for _ in range(2):
        write_atomic(path, content)
        assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert names(path.parent) == ["summary.json"]


def test_write_atomic_keeps_the_old_content_when_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    for n in itertools.count(1):
        path.write_text("old")
        failing = Failing(n, errno.ENOSPC)
        monkeypatch.setattr(atomic, "os", failing)
        if n == 5:  # all of write, fsync, replace and fsync have failed once
            break
        with pytest.raises(StorageError, match=r"cannot write .*report.html: No space left on device \(need about"):
            write_atomic(path, "new")
        assert path.read_text() == ("old" if n < 4 else "new")
        assert names(tmp_path) == ["report.html"]
    write_atomic(path, "new")


def test_write_atomic_removes_its_own_strays_only(tmp_path: Path) -> None:
    dead = dead_pid()
    for name in (f"a.json.tmp-{dead}", f"b.json.tmp-{dead}", f"a.json.tmp-{os.getppid()}"):
        (tmp_path / name).write_text("half")
    write_atomic(tmp_path / "a.json", "{}")
    assert names(tmp_path) == sorted(["a.json", f"a.json.tmp-{os.getppid()}", f"b.json.tmp-{dead}"])


# --- kills ------------------------------------------------------------------------------------------------------------

Saver = Callable[[Path, int, Any], object]


def naive_save(folder: Path, step: int, state: Any) -> None:
    """The negative control: the same files, written in place."""
    target = folder / "step_00000000"
    target.mkdir(parents=True, exist_ok=True)
    for name, data in checkpoint._pack(0, {"step": step, "state": state}).items():
        with (target / name).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file)


def in_child(work: Callable[[], None]) -> int:
    """Fork, do the work in the child and return its pid; the child never returns."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:  # the child must end here whatever happens
            os.write(2, f"child: {error!r}\n".encode())
            os._exit(1)
        os._exit(0)
    return pid


def save_until_killed(save: Saver, folder: Path, start: int, acknowledge: int) -> None:
    checkpoint._pack(start, state_at(start))  # the first time after a fork is slow
    os.write(acknowledge, struct.pack("<q", -1))  # ready
    for step in itertools.count(start):
        save(folder, step, state_at(step))
        os.write(acknowledge, struct.pack("<q", step))
        if step % 3 == 0:
            save(folder, step, state_at(step))


def kill_while_saving(save: Saver, folder: Path, start: int, delay: float) -> int:
    """Let a child save until it is killed after the delay; return the last step it acknowledged, or -1."""
    reading, writing = os.pipe()
    pid = in_child(lambda: save_until_killed(save, folder, start, writing))
    os.close(writing)
    with open(reading, "rb") as pipe:
        pipe.read(8)
        time.sleep(delay)
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), "the child ended before it was killed"
        acknowledged = pipe.read()
    return struct.unpack("<q", acknowledged[-8:])[0] if acknowledged else -1


def window(folder: Path) -> float:
    """The time in which to kill: that of some eight saves as fast as they are now, so that load does not matter."""
    start = time.perf_counter()
    for step in range(4):
        save(folder, step, state_at(step))
    shutil.rmtree(folder)
    return max(0.025, 2 * (time.perf_counter() - start))


def random_kills(folder: Path, kills: int) -> dict[str, int]:
    """Kill savers that each continue where the one before was killed, and count what must not happen."""
    counts = {"kills": 0, "saves": 0, "unreadable": 0, "lost": 0, "different": 0, "most_strays": 0}
    rng = np.random.default_rng()
    step = -1
    for kill in range(kills):
        if kill % 25 == 0:
            longest = window(folder.with_name("window"))
        acknowledged = kill_while_saving(save, folder, step + 1, rng.uniform(0, longest))
        counts["kills"] += 1
        counts["most_strays"] = max(counts["most_strays"], sum(".tmp-" in n or ".old-" in n for n in names(folder)))
        try:
            found = load_latest(folder)
        except StorageError:
            counts["unreadable"] += 1
            continue
        reached = -1 if found is None else found.step
        counts["lost"] += reached < max(acknowledged, step)
        counts["different"] += found is not None and not same(found.state, state_at(found.step))
        counts["saves"] += reached - step
        step = reached
    save(folder, step + 1, state_at(step + 1))
    counts["strays_after_the_next_save"] = sum(not n[5:].isdigit() for n in names(folder))
    return counts


def naive_kills(folder: Path, kills: int) -> dict[str, int]:
    counts = {"kills": 0, "unreadable": 0}
    rng = np.random.default_rng()
    longest = window(folder.with_name("window"))
    for index in range(kills):
        acknowledged = kill_while_saving(naive_save, folder / str(index), 0, rng.uniform(0, longest))
        counts["kills"] += 1
        try:
            found = load_latest(folder / str(index))
        except StorageError:
            counts["unreadable"] += 1
        else:
            assert found is not None or acknowledged < 0
    return counts


CHANGES = ("mkdir", "open", "write", "fsync", "rename", "replace", "unlink", "rmdir")


def die_at(n: int, torn: bool) -> None:
    """Make this process kill itself just before its n-th change to the disk, or half-way through its n-th write.

    Just before a change is also just after the one before.
    """
    left = itertools.count(n - 1, -1)

    def fatal(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            if next(left) != 0:
                return real(*args, **options)
            if torn:
                real(args[0], args[1][: len(args[1]) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("unreachable")

        return call

    for name in ("write",) if torn else CHANGES:
        setattr(os, name, fatal(getattr(os, name)))


SCENES = [("empty", 0), ("normal", 3), ("normal", 2), ("crashed", 2), ("crashed", 3)]


def prepare(folder: Path, scene: str) -> tuple[int, int]:
    """Build the folder before the save; return the step and version of its latest checkpoint (-1: none)."""
    if scene == "empty":
        return -1, 0
    for step in range(3):
        save(folder, step, state_at(step))
    if scene == "crashed":  # a replacement of step 2 was cut off, and so was a removal
        shutil.copytree(folder / "step_00000001", folder / f"step_00000001.old-{2**22 + 1}")
        save(folder / "other", 2, state_at(2, version=1))
        (folder / "other" / "step_00000002").rename(folder / "step_00000002.new")
        (folder / "other").rmdir()
        return 2, 1
    return 2, 0


def boundary_kills(folder: Path, scene: str, step: int) -> dict[str, int]:
    """Kill one save at each of its changes to the disk; whatever is found must be the state before or after it."""
    counts = {"kills": 0, "bad": 0, "before": 0, "after": 0}
    template, place = folder / f"{scene}-{step}", folder / "place"
    template.mkdir()
    before = prepare(template, scene)

    def kill(n: int, torn: bool) -> bool:
        def work() -> None:
            state = state_at(step, version=2)
            die_at(n, torn)
            save(place, step, state)

        shutil.copytree(template, place)
        _, status = os.waitpid(in_child(work), 0)
        assert status in (0, signal.SIGKILL)
        return status == signal.SIGKILL

    for torn in (False, True):
        for n in itertools.count(1):
            killed = kill(n, torn)
            counts["kills"] += killed
            try:
                found = load_latest(place)
                now = (-1, 0) if found is None else (found.step, found.state["version"])
                counts["bad"] += found is not None and not same(found.state, state_at(*now))
                counts["before"] += killed and now == before
                counts["after"] += killed and now == (step, 2)
                save(place, step + 1, state_at(step + 1))  # and life goes on
                assert_good(load_latest(place), step + 1)
                counts["bad"] += not all(name[5:].isdigit() for name in names(place))
            except (StorageError, Warning, AssertionError):
                counts["bad"] += 1
            shutil.rmtree(place)
            if not killed:
                break
    return counts


def size_limits(folder: Path) -> dict[str, int]:
    """Save under a limit on the size of files, as on a full disk, from nothing to one byte too few."""
    path = save(folder, 1, state_at(1))
    needed = max(file.stat().st_size for file in path.iterdir())
    limits = [*range(0, needed, 499), needed - 1]

    def work(limit: int) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(StorageError, match=r"cannot write .*step_00000002: File too large \(need about 0.0 MB\)$"):
            save(folder, 2, state_at(2))
        assert names(folder) == ["step_00000001"]
        assert_good(load_latest(folder), 1)

    wrong = 0
    for limit in limits:
        _, status = os.waitpid(in_child(lambda limit=limit: work(limit)), 0)  # type: ignore[misc]
        wrong += status != 0
    save(folder, 2, state_at(2))
    return {"limits": len(limits), "wrong": wrong}


def main(task: str, folder: str, *args: str) -> None:
    """Run one of the functions above and print its counts."""
    torch.set_num_threads(1)
    warnings.simplefilter("error")
    tasks: dict[str, Callable[[Path], Any]] = {
        "random": lambda place: random_kills(place, int(args[0])),
        "naive": lambda place: naive_kills(place, int(args[0])),
        "boundary": lambda place: [boundary_kills(place, scene, step) for scene, step in SCENES],
        "limits": size_limits,
    }
    sys.stdout.write(json.dumps(tasks[task](Path(folder))))


def run_main(*args: str | Path, seconds: float = 120) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(Path(checkpoint.__file__).parents[2])}
    done = subprocess.run(
        [sys.executable, __file__, *map(str, args)], capture_output=True, text=True, timeout=seconds, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_no_random_kill_loses_an_acknowledged_step(tmp_path: Path) -> None:
    counts = run_main("random", tmp_path, "200")
    assert counts["saves"] >= 40  # some 500
    assert counts["most_strays"] <= 1
    assert counts["strays_after_the_next_save"] == 0
    assert (counts["kills"], counts["unreadable"], counts["lost"], counts["different"]) == (200, 0, 0, 0)


@pytest.mark.slow
def test_no_random_kill_loses_an_acknowledged_step_in_many(tmp_path: Path) -> None:
    counts = run_main("random", tmp_path, "2000", seconds=900)
    assert (counts["kills"], counts["unreadable"], counts["lost"], counts["different"]) == (2000, 0, 0, 0)


def test_random_kills_do_spoil_files_written_in_place(tmp_path: Path) -> None:
    counts = run_main("naive", tmp_path, "40")
    assert counts["unreadable"] >= 4


def test_a_kill_at_any_change_to_the_disk_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    for scene, counts in zip(SCENES, run_main("boundary", tmp_path), strict=True):
        assert counts["bad"] == 0, scene
        assert counts["kills"] >= 18, scene
        assert counts["before"] >= 12, scene
        assert counts["after"] >= 1, scene
        assert counts["before"] + counts["after"] == counts["kills"], scene


def test_a_full_disk_is_an_error_that_spares_the_checkpoint_before(tmp_path: Path) -> None:
    counts = run_main("limits", tmp_path)
    assert counts["limits"] >= 10
    assert counts["wrong"] == 0


if __name__ == "__main__":
    main(*sys.argv[1:])
