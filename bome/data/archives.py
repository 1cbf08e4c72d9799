"""Compressed files and archives, unpacked in memory with a cap on what comes out; nothing is written to disk."""

import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable
from pathlib import PurePosixPath

from bome.errors import StorageError

_DAMAGE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, tarfile.TarError, MemoryError)


def gunzip(content: bytes, limit: int, what: str) -> bytes:
    """The content of a gzip file.

    Args:
        content: the compressed bytes.
        limit: the largest size that is accepted.
        what: names the file in errors.

    Raises:
        StorageError: it is damaged, or larger than the limit.
    """
    try:
        return _Capped(gzip.GzipFile(fileobj=io.BytesIO(content)), limit, what).read(limit + 1)
    except StorageError:
        raise
    except _DAMAGE as error:
        raise _damaged(what, error) from error


def inflate(content: bytes, limit: int, what: str) -> bytes:
    """The content of a zlib stream; see `gunzip`."""
    stream = zlib.decompressobj()
    try:
        result = stream.decompress(content, limit + 1)
    except _DAMAGE as error:
        raise _damaged(what, error) from error
    if len(result) > limit:
        raise _too_large(what, limit)
    if not stream.eof or stream.unused_data:
        raise StorageError(f"{what} is damaged: it ends too early or too late")
    return result


def members(content: bytes, wanted: Callable[[str], bool], limit: int, what: str) -> dict[str, bytes]:
    """The wanted members of a tar archive, compressed by gzip or xz, by their names.

    An archive is refused if any of its members is neither a file nor a folder (a link, a device, a sparse file), has an
    absolute name or one with `..`, or if a wanted one comes twice. Other members are passed over.

    Args:
        content: the compressed bytes.
        wanted: tells from its name whether a member is read.
        limit: the largest size of the whole archive, unpacked, that is accepted.
        what: names the archive in errors.

    Raises:
        StorageError: it is refused, damaged or larger than the limit.
    """
    found: dict[str, bytes] = {}
    try:
        unpacked = _Capped(_decompressed(content), limit, what)
        # In one pass, so that the cap holds for the whole; of the stream, tarfile then only calls `read`.
        with tarfile.open(fileobj=unpacked, mode="r|", bufsize=1 << 20) as archive:  # type: ignore[call-overload]
            for member in archive:
                name = _checked_name(member, what)
                if member.isdir() or not wanted(name):
                    continue
                if name in found:
                    raise StorageError(f"{what} is refused: {name} comes twice")
                found[name] = _extracted(archive, member, what)
    except StorageError:
        raise
    except _DAMAGE as error:
        raise _damaged(what, error) from error
    return found


def _decompressed(content: bytes) -> gzip.GzipFile | lzma.LZMAFile:
    raw = io.BytesIO(content)
    return lzma.LZMAFile(raw) if content.startswith(b"\xfd7zXZ") else gzip.GzipFile(fileobj=raw)


def _checked_name(member: tarfile.TarInfo, what: str) -> str:
    name = PurePosixPath(member.name)
    if not (member.isdir() or (member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse())):
        raise StorageError(f"{what} is refused: {member.name!r} is neither a file nor a folder")
    if name.is_absolute() or ".." in name.parts:
        raise StorageError(f"{what} is refused: {member.name!r} leads out of the archive")
    return str(name)


def _extracted(archive: tarfile.TarFile, member: tarfile.TarInfo, what: str) -> bytes:
    file = archive.extractfile(member)
    content = b"" if file is None else file.read()
    if len(content) != member.size:
        raise StorageError(f"{what} is damaged: it ends within {member.name!r}")
    return content


class _Capped:
    """A stream that gives at most so many bytes, and refuses to give more."""

    def __init__(self, stream: gzip.GzipFile | lzma.LZMAFile, limit: int, what: str) -> None:
        self._stream, self._left, self._limit, self._what = stream, limit, limit, what

    def read(self, size: int) -> bytes:
        data = self._stream.read(min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise _too_large(self._what, self._limit)
        return data


def _too_large(what: str, limit: int) -> StorageError:
    return StorageError(f"{what} is refused: it unpacks to more than {limit} bytes")


def _damaged(what: str, error: BaseException) -> StorageError:
    return StorageError(f"{what} is damaged: {error or type(error).__name__}")
