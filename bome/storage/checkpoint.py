"""Checkpoints that survive a kill at any moment and are never trusted unread.

A checkpoint is one directory per step, `step_00000123/`, with three files:

- `tensors.safetensors`: every tensor of the state, named `t0`, `t1`, ...;
- `state.json`: the rest of the state; `{"$tensor": "t0"}` stands where a tensor was;
- `manifest.json`: format version, step, size and SHA-256 of the other two, and a seal over itself.

It is written under another name beside its place, forced to disk and then renamed, so that a directory with the
final name is complete. The loader checks sizes before it reads and digests before it parses, and nothing in a
checkpoint can run code.

Its folder may hold `step_00000123`, a checkpoint; `step_00000123.new`, one of the same step, complete, about to take
the place of the other; and strays of dead processes (`bome.storage.atomic`).

One process and one thread at a time may save into a folder; any number may read it. POSIX file systems only. Ranks that
train one model together save one checkpoint (`bome.storage.together`).
"""

import hashlib
import json
import os
import re
import shutil
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch

from bome.errors import ProblemError, StorageError
from bome.storage.atomic import (
    beside,
    make_folder,
    publish,
    read_regular,
    remove_strays,
    replace_by,
    retire,
    unwritable,
    write_folder,
)
from bome.storage.encoding import MALFORMED, Encoder, decode, entry, sha256, tensor_file

FORMAT = 1

MANIFEST, STATE, TENSORS = "manifest.json", "state.json", "tensors.safetensors"
_MANIFEST_LIMIT = 1 << 16  # bytes; a real one has about 400
_NAME = re.compile(r"step_(\d{8,})(\.new)?")
_BLOCK = 1 << 20  # bytes read at a time where a file is only hashed


class CheckpointWarning(UserWarning):
    """A damaged checkpoint was passed over, or an old one could not be removed."""


class Checkpoint(NamedTuple):
    """A checkpoint read from disk and verified.

    Attributes:
        step: the step it was saved at.
        state: what was given to `save`; tensors are on the CPU and own their memory.
        path: the directory it came from.
        ranks: how many ranks saved it together.
    """

    step: int
    state: Any
    path: Path
    ranks: int = 1


def save(folder: Path, step: int, state: Any, keep: int = 3) -> Path:
    """Write the checkpoint of a step; when this returns it is on disk and outlives a crash.

    A checkpoint of the same step is replaced, and at every moment on the way one of the two is complete.

    Args:
        folder: holds the checkpoints of one run; created if missing.
        step: non-negative; the newest checkpoint is the one with the largest step.
        state: nested dict, list and tuple of str, int, float (also inf and nan), bool, None, bytes and tensors; keys
            of a dict may be str, int, float, bool, None or bytes. Subclasses come back as these types (`OrderedDict`
            as dict, `Parameter` as tensor); named tuples are refused, since they would lose their names.
        keep: number of checkpoints to keep, this one and the newest others.

    Returns:
        The directory of the checkpoint.

    Raises:
        ProblemError: the state holds something else; nothing has been written.
        StorageError: the disk is full, read-only or otherwise unwilling; earlier checkpoints are intact.
    """
    if step < 0 or keep < 1:
        raise ProblemError(f"a checkpoint needs step >= 0 and keep >= 1, not step={step} and keep={keep}")
    files = _pack(step, state)
    target = folder / f"step_{step:08d}"
    temporary = beside(target, "tmp")
    try:
        tidy(folder)
        write_folder(temporary, files)
        publish(temporary, target)
    except OSError as error:
        raise unwritable(target, error, sum(map(len, files.values()))) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    prune(folder, target, keep)
    return target


def load(path: Path, rank: int = 0) -> Checkpoint:
    """Read one checkpoint after verifying it.

    The bytes that are hashed are the bytes that are parsed. Peak memory is about twice the size of the files. One that
    several ranks saved together is hashed as a stream instead, and its tensors are mapped from the file.

    Args:
        path: the directory of the checkpoint, as returned by `save`.
        rank: of several ranks that saved it together the one whose own state is wanted beside the shared one; if they
            were fewer, the first one's.

    Raises:
        StorageError: it is missing, incomplete, damaged or of another format version; the message says which.
    """
    step, records, ranks = _read_manifest(path)
    rank = rank if rank < ranks else 0
    parts = [(STATE, TENSORS)] if ranks == 1 else [(STATE, TENSORS), (f"rank{rank}.json", f"rank{rank}.safetensors")]
    try:
        state = [_read_part(path, records, *part) for part in parts]
    except MALFORMED as error:
        # The digests fit, so this was written so: by a defect or by somebody else.
        raise StorageError(f"{path}: the content is malformed ({type(error).__name__})") from error
    return Checkpoint(step, state[0] if ranks == 1 else {**state[0], **state[1]}, path, ranks)


def _read_part(path: Path, records: dict[str, dict[str, Any]], text: str, tensors: str) -> Any:
    """Verify and decode a pair of files; tensors of several ranks are mapped, since each rank reads them."""
    encoded = _read_verified(path / text, records[text])
    if len(records) == 2:
        loaded = safetensors.torch.load(_read_verified(path / tensors, records[tensors]))
    else:
        _verify(path / tensors, records[tensors])
        loaded = safetensors.torch.load_file(path / tensors)
    return decode(json.loads(encoded), loaded)


def load_latest(folder: Path) -> Checkpoint | None:
    """Read the newest good checkpoint of a folder; None if it holds none at all.

    Damaged ones are passed over with a `CheckpointWarning` each.

    Raises:
        StorageError: there are checkpoints, but none of them is good, or the folder cannot be read.
    """
    failures: list[StorageError] = []
    for path in _checkpoints(folder):
        try:
            checkpoint = load(path)
        except StorageError as error:
            failures.append(error)
            continue
        for failure in failures:
            warnings.warn(f"{failure}; using {path.name} instead", CheckpointWarning, stacklevel=2)
        return checkpoint
    if failures:
        raise StorageError(f"{folder}: none of {len(failures)} checkpoints is good; the newest: {failures[0]}")
    return None


# --- writing ----------------------------------------------------------------------------------------------------------


def contents(state: Any, text: str, tensors: str) -> dict[str, bytes]:
    """Return the content of the two files that hold a state."""
    encoder = Encoder()
    encoded = encoder.text(state, "state")
    return {tensors: tensor_file(encoder.tensors), text: encoded}


def manifest(step: int, records: dict[str, dict[str, Any]], **more: int) -> bytes:
    """Return the content of the manifest; equal records give equal bytes."""
    return _seal({"format": FORMAT, "step": step, "files": records, **more})


def _seal(body: dict[str, Any]) -> bytes:
    """Return the manifest with the digest of itself; equal bodies give equal bytes."""
    seal = sha256(json.dumps(body, sort_keys=True).encode())
    return json.dumps({**body, "seal": seal}, sort_keys=True, indent=1).encode() + b"\n"


def _pack(step: int, state: Any) -> dict[str, bytes]:
    """Return the content of each file; the manifest comes last."""
    files = contents(state, STATE, TENSORS)
    return {**files, MANIFEST: manifest(step, {name: entry(data) for name, data in files.items()})}


def tidy(folder: Path) -> None:
    """Make the folder, or remove what a crash left in it and finish what it cut off."""
    make_folder(folder)
    remove_strays(folder, _NAME)
    for path in _checkpoints(folder):
        if path.suffix == ".new":
            replace_by(path)


def prune(folder: Path, saved: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints; never the one just saved, which may not have the largest step."""
    others = [path for path in _checkpoints(folder) if path != saved]
    for path in others[keep - 1 :]:
        try:
            retire(path)
        except OSError as error:
            warnings.warn(f"cannot remove {path}: {error.strerror}", CheckpointWarning, stacklevel=3)


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_manifest(path: Path) -> tuple[int, dict[str, dict[str, Any]], int]:
    """Return the step, the record (size, sha256) of each file of a checkpoint, and how many ranks saved it."""
    raw = _read_file(path / MANIFEST, range(_MANIFEST_LIMIT + 1))
    try:
        body = dict(json.loads(raw))
        del body["seal"]
        version = body["format"]
        # The same bytes again, and nothing else: this also refuses changes that mean nothing in JSON.
        genuine = _seal(body) == raw
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise StorageError(f"{path}: {MANIFEST} is damaged") from error
    if version != FORMAT:
        raise StorageError(f"{path}: format version {version!r}; this version of bome reads {FORMAT}")
    if not genuine:
        raise StorageError(f"{path}: {MANIFEST} is damaged")
    step, records, ranks = body.get("step"), body.get("files"), body.get("ranks", 1)
    if not (isinstance(step, int) and isinstance(records, dict) and set(records) == _names(ranks)):
        raise StorageError(f"{path}: {MANIFEST} is malformed")
    named = _NAME.fullmatch(path.name)
    if named and int(named[1]) != step:
        raise StorageError(f"{path}: {MANIFEST} is of step {step}")
    return step, records, ranks


def _names(ranks: Any) -> set[str]:
    """The files beside the manifest of a checkpoint that so many ranks saved; none if that is no number of ranks."""
    if not isinstance(ranks, int) or not 1 <= ranks <= _MANIFEST_LIMIT:
        return set()
    own = range(ranks if ranks > 1 else 0)
    return {STATE, TENSORS} | {f"rank{rank}.{end}" for rank in own for end in ("json", "safetensors")}


def _read_verified(path: Path, record: Any) -> bytes:
    """Read a file whose size and digest must be those of its record."""
    if not (isinstance(record, dict) and isinstance(record.get("size"), int)):
        raise StorageError(f"{path.parent}: {MANIFEST} is malformed")
    size = record["size"]
    data = _read_file(path, range(size, size + 1))
    if sha256(data) != record.get("sha256"):
        raise StorageError(f"{path.parent}: checksum mismatch in {path.name}")
    return data


def _verify(path: Path, record: Any) -> None:
    """Check size and digest of a file without holding it in memory."""
    try:
        size = path.stat().st_size
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
    except OSError as error:
        raise StorageError(f"{path.parent}: cannot read {path.name}: {error.strerror}") from error
    if not isinstance(record, dict) or size != record.get("size") or digest.hexdigest() != record.get("sha256"):
        raise StorageError(f"{path.parent}: checksum mismatch in {path.name}")


def _read_file(path: Path, sizes: range) -> bytes:
    try:
        return read_regular(path, sizes)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(f"{path.parent}: cannot read {path.name}: {error.strerror}") from error


def _checkpoints(folder: Path) -> list[Path]:
    """Return what carries the name of a checkpoint, newest first."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"cannot read {folder}: {error.strerror}") from error
    steps = [(int(match[1]), bool(match[2]), match[0]) for name in names if (match := _NAME.fullmatch(name))]
    return [folder / name for _, _, name in sorted(steps, reverse=True)]
