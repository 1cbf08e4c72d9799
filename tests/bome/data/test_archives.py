"""Compressed files and archives: what is damaged, too large or evil is refused, and nothing is written."""

import gzip
import io
import lzma
import tarfile
import zlib
from collections.abc import Callable

import pytest

from bome.data.archives import gunzip, inflate, members
from bome.errors import StorageError

TEXT = bytes(range(256)) * 40
Unpack = Callable[[bytes, int, str], bytes]
Pack = Callable[[bytes], bytes]
UNPACK: list[tuple[Unpack, Pack]] = [(gunzip, gzip.compress), (inflate, zlib.compress)]


def info(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.size, made.type, made.linkname = size, kind, link
    return made


def tar(*entries: tuple[tarfile.TarInfo, bytes], pack: Pack = gzip.compress) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for each, content in entries:
            archive.addfile(each, io.BytesIO(content))
    return pack(stream.getvalue())


def entry(name: str, content: bytes = b"x") -> tuple[tarfile.TarInfo, bytes]:
    return info(name, len(content)), content


def wanted(name: str) -> bool:
    return name in ("d/a", "d/b")


@pytest.mark.parametrize(("unpack", "pack"), UNPACK)
def test_what_was_compressed_comes_back_up_to_the_very_limit(unpack: Unpack, pack: Pack) -> None:
    assert unpack(pack(TEXT), len(TEXT), "file") == TEXT
    with pytest.raises(StorageError, match="file is refused: it unpacks to more than 10239 bytes"):
        unpack(pack(TEXT), len(TEXT) - 1, "file")


@pytest.mark.parametrize(("unpack", "pack"), UNPACK)
@pytest.mark.parametrize("cut", [0, 1, 5, 20, -9, -1])
def test_a_compressed_file_that_ends_early_is_refused(unpack: Unpack, pack: Pack, cut: int) -> None:
    with pytest.raises(StorageError, match="file is damaged"):
        unpack(pack(TEXT)[:cut] if cut else b"\x00", 1 << 20, "file")


@pytest.mark.parametrize(("unpack", "pack"), UNPACK)
def test_a_compressed_file_with_one_changed_byte_or_something_behind_is_refused(unpack: Unpack, pack: Pack) -> None:
    packed = bytearray(pack(TEXT))
    packed[-3] ^= 1  # within the checksum
    for content in (bytes(packed), pack(TEXT) + b"garbage"):
        with pytest.raises(StorageError, match="file is damaged"):
            unpack(content, 1 << 20, "file")


@pytest.mark.parametrize(("unpack", "pack"), UNPACK)
def test_a_bomb_is_refused_before_it_is_unpacked(unpack: Unpack, pack: Pack) -> None:
    """128 MB of zeros would not fit the memory that is measured here."""
    import tracemalloc

    stream = zlib.compressobj(wbits=31 if unpack is gunzip else 15)
    bomb = b"".join(stream.compress(bytes(1 << 20)) for _ in range(128)) + stream.flush()
    tracemalloc.start()
    with pytest.raises(StorageError, match="unpacks to more than"):
        unpack(bomb, 1 << 20, "file")
    assert tracemalloc.get_traced_memory()[1] < 20 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_only_wanted_members_are_read(pack: Pack) -> None:
    content = tar((info("d", kind=tarfile.DIRTYPE), b""), entry("d/a", TEXT), entry("d/c"), entry("./d/b"), pack=pack)
    assert members(content, wanted, 1 << 20, "archive") == {"d/a": TEXT, "d/b": b"x"}


SPARSE = info("d/a", 1)
SPARSE.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)}


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([entry("../d/a")], "leads out"),
        ([entry("d/../../a")], "leads out"),
        ([entry("/d/a")], "leads out"),
        ([entry("d/a"), entry("/etc/passwd")], "leads out"),
        ([(info("d/a", kind=tarfile.SYMTYPE, link="/etc/passwd"), b"")], "neither a file"),
        ([(info("d/a", kind=tarfile.LNKTYPE, link="d/b"), b"")], "neither a file"),
        ([(info("d", kind=tarfile.SYMTYPE, link="/tmp"), b""), entry("d/a")], "neither a file"),  # noqa: S108
        ([(info("d/a", kind=tarfile.FIFOTYPE), b"")], "neither a file"),
        ([(info("d/a", kind=tarfile.CHRTYPE), b"")], "neither a file"),
        ([(info("d/a", kind=tarfile.BLKTYPE), b"")], "neither a file"),
        ([(SPARSE, b"0")], "neither a file|damaged"),
        ([entry("d/a"), entry("d/a", b"y")], "comes twice"),
        ([entry("d/a"), entry("./d/a", b"y")], "comes twice"),
    ],
)
def test_an_evil_archive_is_refused(entries: list[tuple[tarfile.TarInfo, bytes]], reason: str) -> None:
    with pytest.raises(StorageError, match=f"archive is .*({reason})"):
        members(tar(*entries), wanted, 1 << 20, "archive")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_the_cap_holds_for_the_whole_archive_also_for_members_that_nobody_wants(pack: Pack) -> None:
    content = tar(entry("d/a"), entry("d/c", bytes(1 << 22)), entry("d/b"), pack=pack)
    assert members(content, wanted, 1 << 23, "archive").keys() == {"d/a", "d/b"}
    with pytest.raises(StorageError, match="unpacks to more than"):
        members(content, wanted, 1 << 22, "archive")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
def test_an_archive_that_ends_early_is_refused(pack: Pack) -> None:
    packed = tar(entry("d/a", TEXT), entry("d/b", TEXT), pack=pack)
    plain = tar(entry("d/a", TEXT), pack=bytes)[: len(TEXT) // 2]
    for content in (packed[: len(packed) // 2], packed[:-9], pack(plain), b"", b"no archive", pack(b"no archive")):
        with pytest.raises(StorageError, match="archive is damaged"):
            members(content, wanted, 1 << 20, "archive")
