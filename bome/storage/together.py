"""One checkpoint of all ranks that train one model together, in a folder that all of them see.

What they share is written by the first of them as whole tensors, leaf by leaf: at any time one leaf exists as a whole,
on every rank. So any number of ranks can read it. What is a rank's own goes to its `rank0.json`, `rank0.safetensors`,
...; the first rank writes the manifest after all these files are on disk, and then gives the directory its name.
"""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from bome.core.ranks import Ranks, whole
from bome.errors import StorageError
from bome.storage.atomic import publish, sync_folder, write_file
from bome.storage.checkpoint import (
    MANIFEST,
    STATE,
    TENSORS,
    Checkpoint,
    contents,
    load,
    load_latest,
    manifest,
    prune,
    tidy,
)
from bome.storage.encoding import Encoder, entry, sha256, tensor_header


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
    encoder = Encoder()
    encoded = encoder.text(shared, "state")
    files = contents(own, f"rank{ranks.rank}.json", f"rank{ranks.rank}.safetensors")
    temporary = target.with_name(f"{target.name}.tmp-{ranks.largest(os.getpid() if ranks.rank == 0 else 0)[0]}")
    first = ranks.rank == 0
    try:
        with _together(ranks, target):
            if first:
                tidy(folder)
                os.mkdir(temporary)
        sink = _Sink(temporary / TENSORS if first else None)
        with _together(ranks, target):
            try:
                for name, data in files.items():
                    write_file(temporary / name, data)
            finally:  # all ranks must take part in gathering, whatever happens to their own files
                sink.write_all(encoder.tensors)
            sink.close()
        mine = {name: (len(data), sha256(data)) for name, data in files.items()}
        records = _gathered(mine, ranks)
        with _together(ranks, target):
            if first:
                records[TENSORS] = sink.record
                records[STATE] = entry(encoded)
                for name, data in ((STATE, encoded), (MANIFEST, manifest(step, records, ranks=ranks.size))):
                    write_file(temporary / name, data)
                sync_folder(temporary)
                publish(temporary, target)
    finally:
        if first:
            shutil.rmtree(temporary, ignore_errors=True)
    if first:
        prune(folder, target, keep=3)
    return target


def newest_of_all(folder: Path, ranks: Ranks | None) -> Checkpoint | None:
    """The newest good checkpoint; the first rank finds it, and all read the same."""
    if ranks is None:
        return load_latest(folder)
    newest: Checkpoint | None = None
    failure: StorageError | None = None
    if ranks.rank == 0:
        try:
            newest = load_latest(folder)
        except StorageError as error:
            failure = error
    failed, step, newer = ranks.largest(
        int(failure is not None), newest.step + 1 if newest else 0, int(bool(newest and newest.path.suffix == ".new"))
    )
    if failed:
        raise failure or StorageError(f"{folder}: rank 0 found no good checkpoint")
    if newest is not None or not step:
        return newest
    return load(folder / f"step_{step - 1:08d}{'.new' if newer else ''}", ranks.rank)


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
            self._write(tensor_header(tensors))
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
        self.record = {"sha256": self._digest.hexdigest(), "size": self._size}

    def _write(self, data: Any) -> None:
        if self._file is None:
            return
        rest = memoryview(data)
        self._digest.update(rest)
        self._size += len(rest)
        while rest:
            rest = rest[os.write(self._file, rest) :]


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
    numbers = [[size, *bytes.fromhex(sha)] for size, sha in mine.values()]
    records = {}
    for rank, row in enumerate(ranks.gathered(*numbers[0], *numbers[1])):
        for end, (size, *sha) in zip(("safetensors", "json"), (row[:33], row[33:]), strict=True):
            records[f"rank{rank}.{end}"] = {"sha256": bytes(sha).hex(), "size": size}
    return records
