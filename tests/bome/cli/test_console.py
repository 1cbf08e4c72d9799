"""What is printed, and how to go on after an interruption."""

from pathlib import Path

import pytest

from bome.cli import console
from bome.cli.console import StoppedError, printable, resumable
from bome.errors import BilevelError, RunInterruptedError
from bome.stopping import Progress
from bome.storage.folder import CONFIG


def test_the_bar_looks_at_tensors_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen:
        updates = 0

        def update(self, *given: object, **named: object) -> None:
            Screen.updates += 1

    bar = console.Bar(Screen(), 0)  # type: ignore[arg-type]
    look = bar.follow("x", 1000)
    monkeypatch.setattr("time.monotonic", lambda: 1.0)
    for step in range(1, 1001):
        look(Progress(step, None, 0, 0.0))
    assert Screen.updates == 2  # at the first and at the last step


def test_printable_keeps_the_letters_of_the_paper() -> None:
    assert printable("q̂ θ^(T) 𝒦 ‖∇f‖²") == "q̂ θ^(T) 𝒦 ‖∇f‖²"
    assert printable("a\tb\x1b") == r"a\tb\x1b"


@pytest.mark.parametrize(("end", "code"), [(KeyboardInterrupt(), 130), (SystemExit(143), 143)])
def test_an_interruption_is_told_with_the_command_that_goes_on(tmp_path: Path, end: BaseException, code: int) -> None:
    folder = tmp_path / "my run"
    folder.mkdir()
    (folder / CONFIG).touch()
    with pytest.raises(StoppedError, match="interrupted") as caught, resumable(folder):
        raise end
    assert caught.value.exit_code == code
    assert caught.value.__notes__ == [f"continue with: bome resume '{folder}'"]


@pytest.mark.parametrize("end", [KeyboardInterrupt(), SystemExit(143)])
def test_what_has_not_begun_cannot_be_resumed(tmp_path: Path, end: BaseException) -> None:
    with pytest.raises(type(end)), resumable(tmp_path):
        raise end


def test_an_end_that_is_no_interruption_passes(tmp_path: Path) -> None:
    (tmp_path / CONFIG).touch()
    with pytest.raises(SystemExit), resumable(tmp_path):
        raise SystemExit(1)


@pytest.mark.parametrize("error", [RunInterruptedError(2, 7), StoppedError(130)])
def test_of_folders_in_each_other_the_outer_one_is_named(tmp_path: Path, error: BilevelError) -> None:
    with pytest.raises(type(error)) as caught, resumable(tmp_path), resumable(tmp_path / "part"):
        raise error
    assert caught.value.__notes__ == [f"continue with: bome resume {tmp_path}"]
