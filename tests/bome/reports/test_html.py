"""The page: self-contained, escaped, complete."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bome.errors import ProblemError, StorageError
from bome.reports import write_report
from bome.runs import directory
from bome.runs.plan import plan
from tests.support.browser import look_at, needs_browser
from tests.support.pages import PAYLOADS, Parsed, check_safe


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished run; its files are never changed in place."""
    folder = tmp_path_factory.mktemp("finished") / "x"
    made = plan("lls", "bome", {"steps": 8}, 0)
    config = directory.configure(made, save_every=100)
    directory.prepare(folder, config)
    directory.perform_into(folder, made, config)
    return folder


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(finished, tmp_path / "x"))


def change(path: Path, **fields: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def few_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """One figure is enough where the text matters."""
    from bome.reports import figures

    monkeypatch.setattr(figures, "FIGURES", (figures.outer_loss,))


def test_the_page_is_self_contained_and_complete(run: Path) -> None:
    text = write_report(run).read_text()
    page = check_safe(text)
    assert "http://" not in text
    assert "https://" not in text
    summary = directory.read_summary(run) or {}
    verdict = summary["certificate"]["verdict"]
    for words in (
        verdict[1:],
        "bome run lls --method bome --set steps=8 --seed 0",
        "θ = (1, 1)",
        "8 f, 16 g",
        "cos(∇f, ∇q̂)",
    ):
        assert words in page.words
    assert page.count("img") == 6
    assert {path.stem for path in (run / "figures").iterdir()} == {
        "path", "outer_loss", "gap", "distance", "multiplier", "stationarity",
    }  # fmt: skip


def test_the_page_tells_no_paths_of_the_machine(run: Path) -> None:
    text = write_report(run).read_text()
    figures = "".join(path.read_text() for path in (run / "figures").iterdir())
    for secret in (str(run.parent), str(Path.home()), str(Path.cwd())):
        assert secret not in text
        assert secret not in figures


@pytest.mark.parametrize("payload", PAYLOADS)
def test_whatever_a_run_directory_says_is_shown_as_text(
    run: Path, payload: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_figures(monkeypatch)
    config = json.loads((run / "config.json").read_text())
    evil = {payload: payload}
    settings = {**config["details"]["settings"], **evil, "variant": payload, "start": payload}
    change(
        run / "config.json",
        spec={**config["spec"], "task": payload, "method": payload, "set": evil},
        details={**config["details"], "about": payload, "settings": settings},
        version=payload,
    )
    summary = json.loads((run / "summary.json").read_text())
    change(
        run / "summary.json",
        status=payload, reason=payload, steps=payload, f=payload, optimum={"f": payload, "text": payload},
        certificate={**summary["certificate"], "verdict": payload, "cos": payload}, evaluations=evil, tuned=evil,
    )  # fmt: skip
    page = check_safe(write_report(run).read_text())
    shown = payload.replace("\x1b", "").strip() if "\x1b" in payload else payload
    assert " ".join(shown.split()) in " ".join(page.words.split())


@pytest.mark.parametrize("payload", ["<script>alert(1)</script>", "$x_{$", "'\"><img src=x>"])
def test_names_of_directories_are_shown_as_text(tmp_path: Path, finished: Path, payload: str) -> None:
    for name in (payload.replace("/", "∕"), "plain"):
        shutil.copytree(finished, tmp_path / name)
    check_safe(write_report(tmp_path).read_text())
    directory.write_collection(tmp_path, directory.Collection(payload, payload, payload, ["plain"]))
    check_safe(write_report(tmp_path).read_text())


@pytest.mark.parametrize("name", ["../x", "/etc", "..", "a/b", "", 3])
def test_a_collection_does_not_lead_out_of_its_folder(tmp_path: Path, name: Any) -> None:
    (tmp_path / "collection.json").write_text(json.dumps({"title": "", "about": "", "command": "", "runs": [name]}))
    with pytest.raises((StorageError, ProblemError)):
        write_report(tmp_path)


def test_a_run_that_has_not_ended_has_a_page(run: Path) -> None:
    (run / "summary.json").unlink()
    assert "This run has not ended; 9 rows are logged so far." in Parsed(write_report(run).read_text()).words


def test_a_run_without_any_row_has_a_page_without_figures(run: Path) -> None:
    (run / "summary.json").unlink()
    (run / "metrics.jsonl").unlink()
    assert Parsed(write_report(run).read_text()).count("img") == 0


def test_a_diverged_run_has_a_page(run: Path) -> None:
    change(run / "summary.json", status="diverged", reason="step 3: f is not finite", certificate=None, f=None)
    words = Parsed(write_report(run).read_text()).words
    assert "This run diverged: step 3: f is not finite." in words


def test_numbers_that_are_not_finite_are_left_out_of_the_figures(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few_figures(monkeypatch)
    with (run / "metrics.jsonl").open("a") as file:
        file.write(
            '{"step": 9, "f": "NaN"}\n{"step": 10, "f": "Infinity"}\n{"step": 11, "f": null}\n{"step": 12, "f": 1'
        )
    check_safe(write_report(run).read_text())
    assert len(directory.read_metrics(run)) == 12  # the torn line is not a row


def test_a_damaged_line_in_the_middle_is_refused(run: Path) -> None:
    (run / "metrics.jsonl").write_text('{"step": 0}\nnonsense\n{"step": 1}\n')
    with pytest.raises(StorageError, match=r"metrics\.jsonl:2: not a row"):
        write_report(run)


@needs_browser
@pytest.mark.parametrize("width", [400, 1200])
def test_a_page_opens_in_a_browser(run: Path, tmp_path: Path, width: int) -> None:
    seen = look_at(write_report(run), tmp_path / "profile", width)
    assert seen.images == [True] * 6
    assert seen.messages == []
    assert seen.overflow == 0
    assert seen.picture.startswith(b"\x89PNG")


@needs_browser
def test_the_browser_tells_of_what_a_page_must_not_do(tmp_path: Path) -> None:
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    page = tmp_path / "page.html"
    page.write_text(
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><title>as written</title>'
        '<script>document.title = "run"</script><img src="data:image/png;base64,AAAA" alt="">'
        '<p style="width: 5000px">wide</p>'
    )
    seen = look_at(page, tmp_path / "profile")
    assert seen.title == "as written"
    assert seen.images == [False]
    assert any("Executing inline script" in message for message in seen.messages)
    assert seen.overflow > 3000
