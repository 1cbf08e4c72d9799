"""Files and folders that are there as a whole or not at all, whatever happens while they are written.

They are written under another name beside their place, forced to disk and then renamed. What a crash leaves behind
carries the number of its process in its name, so that it is known for a stray and removed later:

====================  ===========================================================================================
`NAME.tmp-<process>`  being written by that process; a stray once the process is gone
`NAME.old-<process>`  being removed by that process; a stray once the process is gone
`NAME.new`            a folder, complete, about to take the place of `NAME`
====================  ===========================================================================================

One process and one thread at a time may write a file or folder; any number may read it. POSIX file systems only.
"""

import contextlib
import os
import re
import shutil
import stat
import sys
from pathlib import Path

from bome.errors import StorageError

_STRAY_NAME = re.compile(r"(.+)\.(?:tmp|old)-([1-9]\d*)")


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file so that whoever looks sees the old content or the new one, even after a crash.

    Args:
        path: its folder is created if missing.
        content: text is written as UTF-8.

    Raises:
        StorageError: it cannot be written; the old content is intact.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = beside(path, "tmp")
    try:
        make_folder(path.parent)
        remove_strays(path.parent, re.compile(re.escape(path.name)))
        write_file(temporary, data)
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise unwritable(path, error, len(data)) from error
    finally:
        _unlink(temporary)


def read_regular(path: Path, sizes: range = range(sys.maxsize)) -> bytes:
    """Read a regular file whose size is in `sizes`; the size is checked before anything is allocated.

    Raises:
        StorageError: it is no regular file, or of another size.
        OSError: it cannot be read.
    """
    # A pipe in the place of the file would otherwise block here for ever.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        info = os.fstat(file.fileno())
        if not stat.S_ISREG(info.st_mode):
            raise StorageError(f"{path.parent}: {path.name} is not a regular file")
        if info.st_size not in sizes:
            raise StorageError(f"{path.parent}: {path.name} has {info.st_size} bytes instead of {sizes[-1]}")
        return file.read(info.st_size)


def beside(path: Path, role: str) -> Path:
    """Return a name beside `path` that tells which process it belongs to."""
    return path.with_name(f"{path.name}.{role}-{os.getpid()}")


def unwritable(path: Path, error: OSError, size: int) -> StorageError:
    """The error for a path that could not be written with so many bytes."""
    reason = error.strerror or str(error)
    return StorageError(f"cannot write {path}: {reason} (need about {size / 1e6:.1f} MB)")


def make_folder(folder: Path) -> None:
    """Create a folder and its parents so that they, too, outlive a crash."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for place in missing:
        sync_folder(place.parent)


def write_folder(folder: Path, files: dict[str, bytes]) -> None:
    """Create a folder with files and force all of it to disk."""
    os.mkdir(folder)
    for name, data in files.items():
        write_file(folder / name, data)
    sync_folder(folder)


def write_file(path: Path, data: bytes) -> None:
    """Create a file and force it to disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        rest = memoryview(data)
        while rest:  # one call writes at most 2 GB on Linux, and less on a disk that is filling up
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish(temporary: Path, target: Path) -> None:
    """Give a complete folder its final name, in place of one that has it already."""
    if not target.exists():
        os.rename(temporary, target)
        sync_folder(target.parent)
        return
    # A directory cannot be renamed over another. Under its second name the new one counts from this moment.
    newer = target.with_name(f"{target.name}.new")
    os.rename(temporary, newer)
    sync_folder(target.parent)
    replace_by(newer)


def replace_by(newer: Path) -> None:
    """Let `NAME.new` take the place of the folder `NAME`; also one that a crash left behind."""
    target = newer.with_suffix("")
    retired = beside(target, "old")
    if target.exists():
        os.rename(target, retired)
    os.rename(newer, target)
    sync_folder(target.parent)
    shutil.rmtree(retired, ignore_errors=True)  # what remains is a stray, removed by a later writer


def retire(folder: Path) -> None:
    """Remove a folder so that half of it never carries its name.

    Raises:
        OSError: it cannot be renamed, and stays.
    """
    retired = beside(folder, "old")
    os.rename(folder, retired)
    shutil.rmtree(retired, ignore_errors=True)


def remove_strays(folder: Path, of: re.Pattern[str]) -> None:
    """Remove what dead processes, or this one before, left half-written or half-removed under names like `of`."""
    for name in os.listdir(folder):
        if is_stray(name, of):
            shutil.rmtree(folder / name, ignore_errors=True)
            _unlink(folder / name)


def is_stray(name: str, of: re.Pattern[str] = re.compile(".*")) -> bool:
    """Whether a dead process, or this one before, left this half-written or half-removed under a name like `of`."""
    match = _STRAY_NAME.fullmatch(name)
    if match is None or not of.fullmatch(match[1]):
        return False
    return int(match[2]) == os.getpid() or not _is_alive(int(match[2]))


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
