"""Damaged and hostile checkpoints: neither rot nor malice get through."""

import os
import pickle
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bome.errors import StorageError
from bome.storage import checkpoint
from bome.storage.checkpoint import CheckpointWarning, load, load_latest, save
from bome.storage.encoding import entry
from tests.support.states import FILES, assert_good, state_at

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
