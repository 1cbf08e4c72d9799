"""Files of data sets: looked up, downloaded, verified; nothing unverified is ever parsed.

A file is looked for in `BOME_DATA` (read only), then in the cache (`BOME_CACHE`, by default the user's cache
directory), and otherwise downloaded into the cache. Wherever it comes from, its SHA-256 must be the known one.
"""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bome.errors import StorageError

LIMIT = 1 << 28
"""Bytes; no published file is larger, so more is neither read nor downloaded."""

RETRIES = 1
"""After a download that failed."""

TIMEOUT = 30.0
"""Seconds to wait for a server that is silent."""


@dataclass(frozen=True)
class DataFile:
    """A file of a data set.

    Attributes:
        name: its name.
        sha256: its digest.
        size: in bytes, for people: what decides is the digest.
        url: where it is published; empty for a form that cannot be downloaded.
    """

    name: str
    sha256: str
    size: int
    url: str = ""


@dataclass(frozen=True)
class DataSet:
    """A published data set.

    Attributes:
        name: also of its folder below `BOME_DATA` and the cache.
        about: a line on what it is.
        parts: the files that it takes; of each part the forms in which it may come, of which one can be downloaded.
    """

    name: str
    about: str
    parts: tuple[tuple[DataFile, ...], ...]


def data_folder() -> Path | None:
    """`BOME_DATA`, if it is set."""
    folder = os.environ.get("BOME_DATA")
    return Path(folder) if folder else None


def cache_folder() -> Path:
    """`BOME_CACHE`, or the user's cache directory."""
    folder = os.environ.get("BOME_CACHE")
    if folder:
        return Path(folder)
    import pooch

    return Path(pooch.os_cache("bome"))


def find(dataset: DataSet, part: tuple[DataFile, ...]) -> tuple[Path, DataFile] | None:
    """Where a part is at hand and in which form; not yet verified."""
    for root in (data_folder(), cache_folder()):
        for form in part:
            if root is not None and os.path.isfile(path := root / dataset.name / form.name):
                return path, form
    return None


def lies_in_data_folder(path: Path) -> bool:
    """Whether a file that was found belongs to `BOME_DATA` rather than to the cache."""
    return path.parent.parent == data_folder()


def fetch(dataset: DataSet) -> dict[str, bytes]:
    """The verified content of the files of a data set by their names, downloaded if need be.

    One process at a time may fetch a data set; `bome.data.parsed` sees to it.

    Raises:
        StorageError: a file is not at hand and cannot be downloaded, or its content is not what it should be.
    """
    return dict(_content(dataset, part) for part in dataset.parts)


def _content(dataset: DataSet, part: tuple[DataFile, ...]) -> tuple[str, bytes]:
    place = find(dataset, part)
    if place is not None:
        path, form = place
        content = _read(path)
        if _is(form, content):
            return form.name, content
        if lies_in_data_folder(path):
            raise StorageError(f"{path} is damaged or another file: its SHA-256 is not {form.sha256}; replace it")
        _remove(path)
    form = downloadable(part)
    content = _read(_download(dataset, form))
    if not _is(form, content):
        raise StorageError(f"{form.name} changed while it was read; try again")
    return form.name, content


def downloadable(part: tuple[DataFile, ...]) -> DataFile:
    """The form of a part that can be downloaded."""
    return next(form for form in part if form.url)


def advice(dataset: DataSet) -> str:
    """Which files of a data set are to be put where, for one that is not at hand as a whole."""
    missing = [" or ".join(form.name for form in part) for part in dataset.parts if find(dataset, part) is None]
    place = (data_folder() or cache_folder()) / dataset.name
    other = "" if data_folder() else f", or into {dataset.name} in a folder that BOME_DATA names"
    return f"put {', '.join(missing)} into {place}{other}"


def _is(form: DataFile, content: bytes) -> bool:
    return hashlib.sha256(content).hexdigest() == form.sha256


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LIMIT + 1)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    if len(content) > LIMIT:
        raise StorageError(f"{path} has more than {LIMIT} bytes, so it is another file; replace it")
    return content


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError as error:
        raise StorageError(f"{path} is damaged and cannot be removed: {error.strerror}") from error


# --- downloads --------------------------------------------------------------------------------------------------------


def _download(dataset: DataSet, form: DataFile) -> Path:
    """Download into the cache, under another name until the digest is verified."""
    import pooch
    import requests

    folder = cache_folder() / dataset.name
    for stray in folder.glob("tmp*"):  # what a download that was killed has left
        _remove(stray)
    registry, urls = {form.name: f"sha256:{form.sha256}"}, {form.name: form.url}
    store = pooch.create(folder, "", registry=registry, urls=urls, retry_if_failed=RETRIES)
    pooch.get_logger().setLevel("WARNING")  # the bar shows what it would tell
    try:
        with _bar(form.name) as show:
            return Path(store.fetch(form.name, downloader=_Downloader(show)))
    except (requests.RequestException, ValueError, OSError) as error:
        remedy = advice(dataset)
        raise StorageError(f"{dataset.name}: cannot download {form.url}: {_reason(error)}; {remedy}") from error


def _reason(error: Exception) -> str:
    import requests

    match error:
        case requests.HTTPError(response=requests.Response(status_code=code)):
            return f"the server answers {code}"
        case requests.Timeout():
            return "the server does not answer in time"
        case requests.RequestException():
            return "no connection"
        case ValueError():
            return "what arrives is not the published file"
        case _:
            return getattr(error, "strerror", None) or str(error)


class _Downloader:
    """Downloads as pooch asks for it; stops at `LIMIT` bytes and closes the connection whatever happens."""

    def __init__(self, show: Callable[[int, int], None]) -> None:
        self._show = show

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        import requests

        plain = {"Accept-Encoding": "identity"}  # the bytes of the file itself are wanted
        with (
            requests.get(url, stream=True, timeout=TIMEOUT, headers=plain) as response,
            open(output_file, "wb") as file,
        ):
            response.raise_for_status()
            total = int(response.headers.get("Content-Length", 0))
            for chunk in response.iter_content(1 << 16):
                file.write(chunk)
                self._show(file.tell(), total)
                if file.tell() > LIMIT:
                    raise ValueError(f"more than {LIMIT} bytes")


@contextlib.contextmanager
def _bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr, if that is a terminal; called with the bytes that have arrived and those in all."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}"), BarColumn(20), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)
