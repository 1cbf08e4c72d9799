"""Checkpoints that survive a kill at any moment and are never trusted unread.

A checkpoint is one directory per step, `step_00000123/`, with three files:

- `tensors.safetensors`: every tensor of the state, named `t0`, `t1`, ...;
- `state.json`: the rest of the state; `{"$tensor": "t0"}` stands where a tensor was;
- `manifest.json`: format version, step, size and SHA-256 of the other two, and a seal over itself.

It is written under another name beside its place, forced to disk and then renamed, so that a directory with the
final name is complete. The loader checks sizes before it reads and digests before it parses, and nothing in a
checkpoint can run code.

The names a folder may hold, and what they mean after a crash:

=========================  ====================================================================================
`step_00000123`            a checkpoint
`step_00000123.new`        a checkpoint of the same step, complete, about to take the place of the one above
`step_00000123.tmp-<pid>`  being written by that process; a stray once the process is gone
`step_00000123.old-<pid>`  being removed by that process; a stray once the process is gone
=========================  ====================================================================================

One process and one thread at a time may save into a folder; any number may read it. POSIX file systems only.

Ranks that train one model together save one checkpoint (`save_together`), into a folder that all of them see. What they
share is written by the first of them as whole tensors, leaf by leaf: at any time one leaf exists as a whole, on every
rank. So any number of ranks can read it. What is a rank's own goes to its `rank0.json`, `rank0.safetensors`, ...; the
first rank writes the manifest after all these files are on disk, and then gives the directory its name.
"""

import base64
import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import torch

from bome.core.ranks import Ranks, whole
from bome.errors import ProblemError, StorageError

FORMAT = 1

_MANIFEST, _STATE, _TENSORS = "manifest.json", "state.json", "tensors.safetensors"
_MANIFEST_LIMIT = 1 << 16  # bytes; a real one has about 400
_CHECKPOINT_NAME = re.compile(r"step_(\d{8,})(\.new)?")
_STRAY_NAME = re.compile(r"(.+)\.(?:tmp|old)-([1-9]\d*)")
# Those that safetensors both writes and reads back; some other types it accepts one way only.
_DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
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
    temporary = _beside(target, "tmp")
    try:
        _make_folder(folder)
        _remove_strays(folder, _CHECKPOINT_NAME)
        _finish_replacements(folder)
        _write_folder(temporary, files)
        _publish(temporary, target)
    except OSError as error:
        raise _unwritable(target, error, sum(map(len, files.values()))) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _prune(folder, target, keep)
    return target


def save_together(folder: Path, step: int, shared: dict[str, Any], own: dict[str, Any], ranks: Ranks) -> Path:
    """Write one checkpoint of all ranks, each of which calls this; it is on disk when this returns.

    Args:
        folder: as for `save`; all ranks must see the same.
        step: likewise, and the same on all ranks.
        shared: what is the same on all ranks, or sharded over them; of each leaf the first rank writes the whole.
        own: what belongs to this rank alone.
        ranks: those that save.

    Raises:
        StorageError: some rank could not write, on all ranks; earlier checkpoints are intact.
    """
    target = folder / f"step_{step:08d}"
    tensors: dict[str, torch.Tensor] = {}
    encoded = json.dumps(_encode(shared, tensors, "state"), allow_nan=False).encode()
    files = _content(own, f"rank{ranks.rank}.json", f"rank{ranks.rank}.safetensors")
    temporary = target.with_name(f"{target.name}.tmp-{ranks.largest(os.getpid() if ranks.rank == 0 else 0)[0]}")
    first = ranks.rank == 0
    try:
        with _together(ranks, target):
            if first:
                _make_folder(folder)
                _remove_strays(folder, _CHECKPOINT_NAME)
                _finish_replacements(folder)
                os.mkdir(temporary)
        digest = _Sink(temporary / _TENSORS if first else None)
        with _together(ranks, target):
            try:
                for name, data in files.items():
                    _write_file(temporary / name, data)
            finally:  # all ranks must take part in gathering, whatever happens to their own files
                digest.write_all(tensors)
            digest.close()
        mine = {name: (len(data), _digest(data)) for name, data in files.items()}
        records = _gathered(mine, ranks)
        with _together(ranks, target):
            if first:
                records[_TENSORS] = digest.record
                records[_STATE] = {"size": len(encoded), "sha256": _digest(encoded)}
                manifest = _seal({"format": FORMAT, "step": step, "files": records, "ranks": ranks.size})
                for name, data in ((_STATE, encoded), (_MANIFEST, manifest)):
                    _write_file(temporary / name, data)
                _sync_folder(temporary)
                _publish(temporary, target)
    finally:
        if first:
            shutil.rmtree(temporary, ignore_errors=True)
    if first:
        _prune(folder, target, keep=3)
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
    parts = (
        [(_STATE, _TENSORS)] if ranks == 1 else [(_STATE, _TENSORS), (f"rank{rank}.json", f"rank{rank}.safetensors")]
    )
    try:
        state = [_read_part(path, records, *part) for part in parts]
    except (
        ValueError, LookupError, TypeError, AttributeError, RuntimeError, AssertionError, safetensors.SafetensorError,
    ) as error:  # fmt: skip
        # The digests fit, so this was written so: by a defect or by somebody else.
        raise StorageError(f"{path}: the content is malformed ({type(error).__name__})") from error
    return Checkpoint(step, state[0] if ranks == 1 else {**state[0], **state[1]}, path, ranks)


def _read_part(path: Path, records: dict[str, dict[str, Any]], text: str, tensors: str) -> Any:
    """Verify and decode a pair of files; tensors of several ranks are mapped, since each rank reads them."""
    encoded = _read_verified(path / text, records[text])
    if len(records) == 2:
        found = safetensors.torch.load(_read_verified(path / tensors, records[tensors]))
    else:
        _verify(path / tensors, records[tensors])
        found = safetensors.torch.load_file(path / tensors)
    return _decode(json.loads(encoded), found)


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


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file so that whoever looks sees the old content or the new one, even after a crash.

    Args:
        path: its folder is created if missing.
        content: text is written as UTF-8.

    Raises:
        StorageError: it cannot be written; the old content is intact.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = _beside(path, "tmp")
    try:
        _make_folder(path.parent)
        _remove_strays(path.parent, re.compile(re.escape(path.name)))
        _write_file(temporary, data)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise _unwritable(path, error, len(data)) from error
    finally:
        _unlink(temporary)


# --- state to bytes ---------------------------------------------------------------------------------------------------


def _pack(step: int, state: Any) -> dict[str, bytes]:
    """Return the content of each file; the manifest comes last."""
    files = _content(state, _STATE, _TENSORS)
    records = {name: {"size": len(data), "sha256": _digest(data)} for name, data in files.items()}
    return {**files, _MANIFEST: _seal({"format": FORMAT, "step": step, "files": records})}


def _content(state: Any, text: str, tensors: str) -> dict[str, bytes]:
    """Return the content of the two files that hold a state."""
    found: dict[str, torch.Tensor] = {}
    try:
        encoded = _encode(state, found, "state")
    except RecursionError:
        raise ProblemError("state is nested too deeply for a checkpoint, or contains itself") from None
    copies = {name: _plain_copy(tensor) for name, tensor in found.items()}
    return {tensors: safetensors.torch.save(copies), text: json.dumps(encoded, allow_nan=False).encode()}


def _encode(value: Any, tensors: dict[str, torch.Tensor], place: str) -> Any:
    """Turn a value into JSON, moving its tensors into `tensors`; `place` names it in errors."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": float.__repr__(value)}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, torch.Tensor):
        name = f"t{len(tensors)}"
        tensors[name] = _storable(value, place)
        return {"$tensor": name}
    if isinstance(value, dict):
        return _encode_dict(value, tensors, place)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        items = [_encode(item, tensors, f"{place}[{index}]") for index, item in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}
    raise ProblemError(
        f"{place} is a {type(value).__name__}; a checkpoint holds dict, list, tuple, str, int, float, bool, None, "
        "bytes and tensors"
    )


def _encode_dict(value: dict[Any, Any], tensors: dict[str, torch.Tensor], place: str) -> Any:
    for key in value:
        if not (key is None or isinstance(key, (str, int, float, bytes))):
            raise ProblemError(f"{place} has the key {key!r}; keys may be str, int, float, bool, None or bytes")
    items = {key: _encode(item, tensors, f"{place}[{key!r}]") for key, item in value.items()}
    if all(isinstance(key, str) and not key.startswith("$") for key in items):
        return items
    # JSON knows only text as key, and "$" is ours: any other dict becomes a list of pairs.
    return {"$dict": [[_encode(key, tensors, place), item] for key, item in items.items()]}


def _storable(tensor: torch.Tensor, place: str) -> torch.Tensor:
    """Return the tensor if a file can hold it."""
    if tensor.layout is not torch.strided or tensor.is_meta or tensor.dtype not in _DTYPES:
        kind = f"{tensor.dtype}, {tensor.layout}, {tensor.device}"
        raise ProblemError(f"{place} is a tensor that a checkpoint cannot hold ({kind})")
    return tensor.detach()


def _plain_copy(tensor: torch.Tensor) -> torch.Tensor:
    """Return a dense CPU copy that shares memory with nothing, as safetensors demands."""
    return tensor.to("cpu", copy=True, memory_format=torch.contiguous_format)


def _decode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Undo `_encode`; raises one of the built-in errors if the value was not made by it."""
    match value:
        case {"$tensor": name}:
            return tensors.pop(name)  # each is used once, so that no two places share memory
        case {"$tuple": items}:
            return tuple(_decode(item, tensors) for item in items)
        case {"$dict": pairs}:
            return {_decode(key, tensors): _decode(item, tensors) for key, item in pairs}
        case {"$float": text}:
            return float(text)
        case {"$bytes": text}:
            return base64.b64decode(text, validate=True)
        case dict():
            return {key: _decode(item, tensors) for key, item in value.items()}
        case list():
            return [_decode(item, tensors) for item in value]
    return value


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _seal(body: dict[str, Any]) -> bytes:
    """Return the manifest with the digest of itself; equal bodies give equal bytes."""
    seal = _digest(json.dumps(body, sort_keys=True).encode())
    return json.dumps({**body, "seal": seal}, sort_keys=True, indent=1).encode() + b"\n"


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_manifest(path: Path) -> tuple[int, dict[str, dict[str, Any]], int]:
    """Return the step, the record (size, sha256) of each file of a checkpoint, and how many ranks saved it."""
    raw = _read_file(path / _MANIFEST, range(_MANIFEST_LIMIT + 1))
    try:
        body = dict(json.loads(raw))
        del body["seal"]
        found = body["format"]
        # The same bytes again, and nothing else: this also refuses changes that mean nothing in JSON.
        genuine = _seal(body) == raw
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise StorageError(f"{path}: {_MANIFEST} is damaged") from error
    if found != FORMAT:
        raise StorageError(f"{path}: format version {found!r}; this version of bome reads {FORMAT}")
    if not genuine:
        raise StorageError(f"{path}: {_MANIFEST} is damaged")
    step, records, ranks = body.get("step"), body.get("files"), body.get("ranks", 1)
    if not (isinstance(step, int) and isinstance(records, dict) and set(records) == _names(ranks)):
        raise StorageError(f"{path}: {_MANIFEST} is malformed")
    named = _CHECKPOINT_NAME.fullmatch(path.name)
    if named and int(named[1]) != step:
        raise StorageError(f"{path}: {_MANIFEST} is of step {step}")
    return step, records, ranks


def _names(ranks: Any) -> set[str]:
    """The files beside the manifest of a checkpoint that so many ranks saved; none if that is no number of ranks."""
    if not isinstance(ranks, int) or not 1 <= ranks <= _MANIFEST_LIMIT:
        return set()
    own = range(ranks if ranks > 1 else 0)
    return {_STATE, _TENSORS} | {f"rank{rank}.{end}" for rank in own for end in ("json", "safetensors")}


def _read_verified(path: Path, record: Any) -> bytes:
    """Read a file whose size and digest must be those of its record."""
    if not (isinstance(record, dict) and isinstance(record.get("size"), int)):
        raise StorageError(f"{path.parent}: {_MANIFEST} is malformed")
    size = record["size"]
    data = _read_file(path, range(size, size + 1))
    if _digest(data) != record.get("sha256"):
        raise StorageError(f"{path.parent}: checksum mismatch in {path.name}")
    return data


def _verify(path: Path, record: Any) -> None:
    """Check size and digest of a file without holding it in memory."""
    try:
        size = path.stat().st_size
        found = hashlib.sha256()
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                found.update(block)
    except OSError as error:
        raise StorageError(f"{path.parent}: cannot read {path.name}: {error.strerror}") from error
    if not isinstance(record, dict) or size != record.get("size") or found.hexdigest() != record.get("sha256"):
        raise StorageError(f"{path.parent}: checksum mismatch in {path.name}")


def _read_file(path: Path, sizes: range) -> bytes:
    """Read a regular file whose size is in `sizes`; the size is checked before anything is allocated."""
    try:
        # A pipe in the place of the file would otherwise block here for ever.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise StorageError(f"{path.parent}: {path.name} is not a regular file")
            if info.st_size not in sizes:
                raise StorageError(f"{path.parent}: {path.name} has {info.st_size} bytes instead of {sizes[-1]}")
            return file.read(info.st_size)
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
    found = [(int(match[1]), bool(match[2]), match[0]) for name in names if (match := _CHECKPOINT_NAME.fullmatch(name))]
    return [folder / name for _, _, name in sorted(found, reverse=True)]


# --- writing ----------------------------------------------------------------------------------------------------------


def _beside(path: Path, role: str) -> Path:
    """Return a name beside `path` that tells which process it belongs to."""
    return path.with_name(f"{path.name}.{role}-{os.getpid()}")


def _unwritable(path: Path, error: OSError, size: int) -> StorageError:
    reason = error.strerror or str(error)
    return StorageError(f"cannot write {path}: {reason} (need about {size / 1e6:.1f} MB)")


def _make_folder(folder: Path) -> None:
    """Create a folder and its parents so that they, too, outlive a crash."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        _sync_folder(place.parent)


def _write_folder(folder: Path, files: dict[str, bytes]) -> None:
    os.mkdir(folder)
    for name, data in files.items():
        _write_file(folder / name, data)
    _sync_folder(folder)


def _write_file(path: Path, data: bytes) -> None:
    """Create a file and force it to disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        rest = memoryview(data)
        while rest:  # one call writes at most 2 GB on Linux, and less on a disk that is filling up
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _Sink:
    """Writes whole tensors to a safetensors file one after the other; without a path it only takes part.

    Attributes:
        record: size and digest of what was written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self._digest, self._size = path, hashlib.sha256(), 0
        self._file: int | None = None
        self.record: dict[str, Any] = {}

    def write_all(self, tensors: dict[str, torch.Tensor]) -> None:
        """All of them; every rank gathers every leaf, whatever happens to the file."""
        failure: OSError | None = None
        try:
            if self._path is not None:
                self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
            self._write(_header(tensors))
        except OSError as error:
            failure = error
        for tensor in tensors.values():
            leaf = whole(tensor)
            if failure is None and self._path is not None:
                try:
                    flat = leaf.to("cpu").contiguous().reshape(-1)
                    self._write(flat.view(torch.uint8).numpy().data)
                except OSError as error:
                    failure = error
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Force it to disk."""
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None
        self.record = {"size": self._size, "sha256": self._digest.hexdigest()}

    def _write(self, data: Any) -> None:
        if self._file is None:
            return
        rest = memoryview(data)
        self._digest.update(rest)
        self._size += len(rest)
        while rest:
            rest = rest[os.write(self._file, rest) :]


def _header(tensors: dict[str, torch.Tensor]) -> bytes:
    """The beginning of a safetensors file."""
    entries, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        entries[name] = {
            "dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end],
        }  # fmt: skip
        offset = end
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


@contextlib.contextmanager
def _together(ranks: Ranks, target: Path) -> Iterator[None]:
    """Do something on every rank; if it fails on one, all raise `StorageError` and name that rank."""
    failure: OSError | None = None
    try:
        yield
    except OSError as error:
        failure = error
    failed = ranks.largest(0 if failure is None else ranks.rank + 1)[0]
    if failed:
        reason = f": {failure.strerror or failure}" if failure is not None else ""
        raise StorageError(f"cannot write {target}: rank {failed - 1} failed{reason}") from failure


def _gathered(mine: dict[str, tuple[int, str]], ranks: Ranks) -> dict[str, dict[str, Any]]:
    """The records of the files of all ranks."""
    numbers = [[size, *bytes.fromhex(digest)] for size, digest in mine.values()]
    records = {}
    for rank, row in enumerate(ranks.gathered(*numbers[0], *numbers[1])):
        for end, (size, *digest) in zip(("safetensors", "json"), (row[:33], row[33:]), strict=True):
            records[f"rank{rank}.{end}"] = {"size": size, "sha256": bytes(digest).hex()}
    return records


def _publish(temporary: Path, target: Path) -> None:
    """Give a complete directory its final name."""
    if not target.exists():
        os.rename(temporary, target)
        _sync_folder(target.parent)
        return
    # A directory cannot be renamed over another. Under its second name the new one counts from this moment.
    os.rename(temporary, target.with_name(f"{target.name}.new"))
    _sync_folder(target.parent)
    _finish_replacements(target.parent)


def _finish_replacements(folder: Path) -> None:
    """Let each `step_*.new` take the place of the checkpoint it replaces; also those a crash left behind."""
    for newer in _checkpoints(folder):
        if newer.suffix != ".new":
            continue
        target = newer.with_suffix("")
        retired = _beside(target, "old")
        if target.exists():
            os.rename(target, retired)
        os.rename(newer, target)
        _sync_folder(folder)
        shutil.rmtree(retired, ignore_errors=True)  # what remains is a stray, removed by a later save


def _prune(folder: Path, saved: Path, keep: int) -> None:
    """Remove all but the newest `keep` checkpoints; never the one just saved, which may not have the largest step."""
    others = [path for path in _checkpoints(folder) if path != saved]
    for path in others[keep - 1 :]:
        retired = _beside(path, "old")
        try:
            os.rename(path, retired)  # first, so that half a checkpoint never carries the name of a whole one
        except OSError as error:
            warnings.warn(f"cannot remove {path}: {error.strerror}", CheckpointWarning, stacklevel=3)
        shutil.rmtree(retired, ignore_errors=True)


def _remove_strays(folder: Path, of: re.Pattern[str]) -> None:
    """Remove what dead processes, or this one before, left half-written or half-removed under names like `of`."""
    for name in os.listdir(folder):
        match = _STRAY_NAME.fullmatch(name)
        if match and of.fullmatch(match[1]) and (int(match[2]) == os.getpid() or not _is_alive(int(match[2]))):
            shutil.rmtree(folder / name, ignore_errors=True)
            _unlink(folder / name)


def _unlink(path: Path) -> None:
    """Remove a file if that is possible; a stray is no reason to fail."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)  # signal 0 only asks
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # alive, and somebody else's
    return True
