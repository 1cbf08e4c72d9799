"""A real headless browser that opens a page and tells what it saw."""

import base64
import json
import os
import select
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")

needs_browser = pytest.mark.skipif(BROWSER is None, reason="no headless browser: chromium or google-chrome")

OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic", "--remote-debugging-pipe",
)  # fmt: skip

SECONDS = 120
"""How long the browser may take to answer."""

LOOK = """({
    title: document.title,
    images: Array.from(document.images, i => ({loaded: i.complete && i.naturalWidth > 0, alt: i.alt})),
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
})"""


@dataclass(frozen=True)
class Seen:
    """What a browser saw on a page.

    Attributes:
        title: the title it shows.
        images: of each image, whether it was loaded.
        overflow: by how many pixels the page is wider than the window.
        messages: what it wrote to its console: errors, warnings, refused content.
        picture: a screenshot, as PNG.
    """

    title: str
    images: list[bool]
    overflow: int
    messages: list[str]
    picture: bytes


class _Browser:
    """A browser process; commands and events go through pipes."""

    def __init__(self, *options: str) -> None:
        (theirs_in, self._out), (self._in, theirs_out) = os.pipe(), os.pipe()
        shell = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'  # the browser reads commands from 3 and answers on 4
        command = ["bash", "-c", shell, "bash", str(BROWSER), *OPTIONS, *options]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(
            command, pass_fds=(theirs_in, theirs_out), stdin=quiet, stdout=quiet, stderr=quiet
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._sent, self._rest = 0, b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._out)
        os.close(self._in)
        try:
            self._process.wait(10)  # it leaves once its pipe is closed
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def call(self, method: str, session: str | None = None, **values: Any) -> dict[str, Any]:
        """The answer to a command; events that come before it are kept."""
        self._sent += 1
        message = {"id": self._sent, "method": method, "params": values}
        os.write(
            self._out, json.dumps(message if session is None else {**message, "sessionId": session}).encode() + b"\0"
        )
        while (found := self._message()).get("id") != self._sent:
            self.events.append(found)
        if "error" in found:
            raise AssertionError(f"{method}: {found['error']}")
        return dict(found["result"])

    def until(self, method: str) -> None:
        """Wait for an event."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._message())

    def _message(self) -> dict[str, Any]:
        end = time.monotonic() + SECONDS
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            part = os.read(self._in, 1 << 20) if ready else b""
            if not part:
                raise AssertionError("the browser does not answer" if not ready else "the browser has ended")
            self._rest += part
        first, self._rest = self._rest.split(b"\0", 1)
        return dict(json.loads(first))


def look_at(page: Path, profile: Path, width: int = 1200, height: int = 900) -> Seen:
    """Open a page and look at it.

    Args:
        page: its file.
        profile: a folder for the browser.
        width: of the window.
        height: of the window.
    """
    with _Browser(f"--user-data-dir={profile}", f"--window-size={width},{height}") as browser:
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime"):
            browser.call(f"{domain}.enable", session)
        browser.call("Page.navigate", session, url=page.resolve().as_uri())
        browser.until("Page.loadEventFired")
        found = browser.call("Runtime.evaluate", session, expression=LOOK, returnByValue=True)["result"]["value"]
        picture = browser.call("Page.captureScreenshot", session)["data"]
        return Seen(
            found["title"],
            [image["loaded"] for image in found["images"]],
            found["overflow"],
            [said for event in browser.events if (said := _said(event))],
            base64.b64decode(picture),
        )


def _said(event: dict[str, Any]) -> str:
    """What an event writes to the console; nothing for other events."""
    values = event.get("params", {})
    match event.get("method"):
        case "Log.entryAdded":
            return str(values["entry"]["text"])
        case "Runtime.consoleAPICalled":
            return " ".join(str(each.get("value", each.get("description"))) for each in values["args"])
        case "Runtime.exceptionThrown":
            return str(values["exceptionDetails"]["text"])
    return ""
