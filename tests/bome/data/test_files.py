"""Files of data sets: where they are looked for, what is refused, and downloads from a server with faults."""

import contextlib
import hashlib
import os
import socket
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from bome.data import files
from bome.data.files import DataFile, DataSet, fetch
from bome.errors import StorageError

CONTENT = b"the published file " * 5000
OTHER = b"another form of it"


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """BOME_DATA and BOME_CACHE."""
    data, cache = tmp_path / "data", tmp_path / "cache"
    for name, folder in (("BOME_DATA", data), ("BOME_CACHE", cache)):
        (folder / "set").mkdir(parents=True)
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(files, "RETRIES", 0)
    return data, cache


class Server(ThreadingHTTPServer):
    """Answers as told; the last answer is repeated."""

    answers: list[Callable[[BaseHTTPRequestHandler], None]]
    requests: int = 0


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Server)
        answer = self.server.answers[min(self.server.requests, len(self.server.answers) - 1)]
        self.server.requests += 1
        with contextlib.suppress(OSError):  # the client may have gone
            answer(self)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as made:
        made.answers = [sends(CONTENT)]
        thread = Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def sends(
    content: bytes, code: int = 200, length: int | None = -1, header: tuple[str, str] = ("X", "")
) -> Callable[[object], None]:
    def answer(request: object) -> None:
        assert isinstance(request, BaseHTTPRequestHandler)
        request.send_response(code)
        if length is not None:
            request.send_header("Content-Length", str(len(content) if length < 0 else length))
        request.send_header(*header)
        request.end_headers()
        request.wfile.write(content)

    return answer


def silent(request: object) -> None:
    time.sleep(1)


def endless(request: object) -> None:
    assert isinstance(request, BaseHTTPRequestHandler)
    request.send_response(200)
    request.end_headers()
    for _ in range(1000):
        request.wfile.write(bytes(1 << 20))


def hangs_up(request: object) -> None:
    assert isinstance(request, BaseHTTPRequestHandler)
    request.connection.shutdown(socket.SHUT_RDWR)


def dataset(server: Server | None = None) -> DataSet:
    port = server.server_address[1] if server else 9  # nobody listens there
    form = DataFile("file.gz", digest(CONTENT), len(CONTENT), f"http://127.0.0.1:{port}/file.gz")
    return DataSet("set", "a set", ((form, DataFile("file.xz", digest(OTHER), len(OTHER))),))


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_bome_data_comes_first_then_the_cache(folders: tuple[Path, Path]) -> None:
    data, cache = folders
    (cache / "set" / "file.gz").write_bytes(CONTENT)
    assert fetch(dataset()) == {"file.gz": CONTENT}
    (data / "set" / "file.xz").write_bytes(OTHER)
    assert fetch(dataset()) == {"file.xz": OTHER}


def test_without_bome_cache_the_cache_lies_in_the_home_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BOME_CACHE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert files.cache_folder().is_relative_to(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_file_is_downloaded_once_into_the_cache(folders: tuple[Path, Path], server: Server) -> None:
    data, cache = folders
    for _ in range(2):
        assert fetch(dataset(server)) == {"file.gz": CONTENT}
    assert server.requests == 1
    assert listing(cache) == {"set/file.gz": CONTENT}
    assert listing(data) == {}


FAULTS: dict[str, tuple[Callable[[object], None], str]] = {
    "not found": (sends(b"no", 404), "the server answers 404"),
    "forbidden": (sends(b"no", 403), "the server answers 403"),
    "broken": (sends(b"no", 500), "the server answers 500"),
    "wrong bytes": (sends(CONTENT[:-1] + b"!"), "not the published file"),
    "a page to log in": (sends(b"<html>log in</html>", header=("Content-Type", "text/html")), "not the published file"),
    "cut off": (sends(CONTENT[:5000], length=len(CONTENT)), "no connection|not the published file"),
    "cut off without a length": (sends(CONTENT[:5000], length=None), "not the published file"),
    "empty": (sends(b""), "not the published file"),
    "longer": (sends(CONTENT + b"more"), "not the published file"),
    "silent": (silent, "does not answer in time"),
    "endless": (endless, "not the published file"),
    "hangs up": (hangs_up, "no connection"),
    "redirect in a circle": (sends(b"", 302, header=("Location", "/file.gz")), "no connection"),
    "wrong encoding": (sends(CONTENT, header=("Content-Encoding", "gzip")), "no connection|not the published file"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_download_that_goes_wrong_leaves_nothing_and_says_what_to_do(
    fault: str, folders: tuple[Path, Path], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "TIMEOUT", 0.3)
    monkeypatch.setattr(files, "LIMIT", 1 << 21)
    answer, reason = FAULTS[fault]
    server.answers = [answer]
    place = folders[0] / "set"
    advice = f"; put file.gz or file.xz into {place}$"
    with pytest.raises(StorageError, match=f"^set: cannot download http://.*/file.gz: .*({reason}){advice}") as caught:
        fetch(dataset(server))
    assert caught.value.exit_code == 4
    assert "\n" not in str(caught.value)
    assert listing(folders[1]) == {}
    server.answers = [sends(CONTENT)]
    assert fetch(dataset(server)) == {"file.gz": CONTENT}


def test_without_a_connection_the_error_names_the_missing_files_and_both_places(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BOME_DATA")
    with pytest.raises(StorageError, match=r"no connection; put file.gz or file.xz into .*cache/set, or into set in a"):
        fetch(dataset())


def test_a_redirect_is_followed_and_a_failed_download_is_tried_again(
    folders: tuple[Path, Path], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "RETRIES", 1)
    monkeypatch.setattr("pooch.core.time.sleep", lambda seconds: None)
    server.answers = [sends(b"", 503), sends(b"", 302, header=("Location", "/there")), sends(CONTENT)]
    assert fetch(dataset(server)) == {"file.gz": CONTENT}
    assert server.requests == 3


def test_a_damaged_file_in_the_cache_is_removed_and_downloaded_again(
    folders: tuple[Path, Path], server: Server
) -> None:
    path = folders[1] / "set" / "file.gz"
    for damaged in (CONTENT[:-1], b"", b"x" + CONTENT[1:]):
        path.write_bytes(damaged)
        assert fetch(dataset(server)) == {"file.gz": CONTENT}
        path.write_bytes(damaged)
        with pytest.raises(StorageError, match="cannot download"):
            fetch(dataset())
        assert not path.exists()


def test_a_damaged_file_in_bome_data_is_refused_and_left_alone(folders: tuple[Path, Path], server: Server) -> None:
    path = folders[0] / "set" / "file.gz"
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(StorageError, match=f"{path} is damaged or another file: .*; replace it"):
        fetch(dataset(server))
    assert path.read_bytes() == CONTENT[:-1]
    assert server.requests == 0
    assert listing(folders[1]) == {}


def test_a_damaged_file_is_left_alone_where_the_cache_is_bome_data(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOME_CACHE", str(folders[0]))
    (folders[0] / "set" / "file.gz").write_bytes(b"damaged")
    with pytest.raises(StorageError, match="is damaged or another file"):
        fetch(dataset())
    assert listing(folders[0]) == {"set/file.gz": b"damaged"}


def test_a_huge_file_is_refused_without_being_read(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    path = folders[0] / "set" / "file.gz"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(files, "LIMIT", 1 << 16)
    with pytest.raises(StorageError, match="more than 65536 bytes"):
        fetch(dataset())


def test_what_is_no_file_counts_as_missing(folders: tuple[Path, Path]) -> None:
    os.mkfifo(folders[0] / "set" / "file.gz")
    (folders[0] / "set" / "file.xz").mkdir()
    with pytest.raises(StorageError, match="cannot download"):
        fetch(dataset())


def test_what_a_killed_download_left_is_removed(folders: tuple[Path, Path], server: Server) -> None:
    (folders[1] / "set" / "tmpab12").write_bytes(b"half")
    fetch(dataset(server))
    assert listing(folders[1]) == {"set/file.gz": CONTENT}


def test_the_bar_follows_the_download(folders: tuple[Path, Path], server: Server) -> None:
    shown: list[tuple[int, int]] = []
    target = folders[1] / "file"
    download = files._Downloader(lambda done, total: shown.append((done, total)))
    download(f"http://127.0.0.1:{server.server_address[1]}/", str(target), None)
    assert target.read_bytes() == CONTENT
    assert shown == [(1 << 16, len(CONTENT)), (len(CONTENT), len(CONTENT))]


def test_in_a_terminal_the_bar_is_drawn_on_stderr(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with files._bar("file.gz") as show:
        show(1000, 2000)
    printed = capsys.readouterr()
    assert "file.gz" in printed.err
    assert "1.0/2.0 kB" in printed.err
    assert printed.out == ""


def test_elsewhere_nothing_is_drawn(
    folders: tuple[Path, Path], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    fetch(dataset(server))
    assert capsys.readouterr() == ("", "")
