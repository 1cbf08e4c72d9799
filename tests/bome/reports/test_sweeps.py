"""The page of a sweep: complete, with means and errors as by hand, and made from its files alone."""

import json
import shutil
import statistics
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome.errors import ProblemError, StorageError
from bome.reports import write_report, write_sweep
from tests.support.browser import look_at, needs_browser
from tests.support.pages import check_safe

GRID = ["--grid", "eta=0.1,0.5", "--grid", "outer_lr=1,100"]
SHORT = ["--set", "steps=20", "--seeds", "2", "--quiet"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small finished sweep; its files are never changed in place."""
    folder = tmp_path_factory.mktemp("sweep") / "x"
    assert execute(["sweep", "hyperclean-digits", *GRID, *SHORT, "--out", str(folder)]) == 0
    return folder


@pytest.fixture
def sweep(finished: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(finished, tmp_path / "x"))


def ends(folder: Path, name: str, **values: float) -> list[float]:
    """A quantity at the end of the runs of a configuration, from the files by hand."""
    stored = [json.loads(path.read_text()) for path in (folder / "done").iterdir()]
    chosen = [each["value"] for each in stored if values.items() <= dict(each["spec"]["values"]).items()]
    return [each["observed"][name] for each in chosen]


def test_the_table_has_means_and_standard_errors_as_by_hand(sweep: Path) -> None:
    words = check_safe(write_sweep(sweep).read_text()).words
    for eta in (0.1, 0.5):
        for outer_lr in (1.0, 100.0):
            for name in ("val2_loss", "test_accuracy"):
                values = ends(sweep, name, eta=eta, outer_lr=outer_lr)
                assert f"{statistics.fmean(values):.4g} ± {statistics.stdev(values) / 2**0.5:.2g}" in words


def test_the_choice_is_that_of_the_summary_and_says_why(sweep: Path) -> None:
    summary = json.loads((sweep / "summary.json").read_text())
    words = check_safe(write_sweep(sweep).read_text()).words
    chosen = " ".join(f"{key}={value}" for key, value in sorted(summary["chosen"].items()))
    assert f"Chosen: {chosen}. On average over its seeds it has the lowest val2 loss" in words
    assert "the test set has no part in the choice" in words
    assert "4 configurations, each with 2 seeds.\n" in words
    assert json.loads((sweep / "config.json").read_text())["command"] in words


def test_there_are_curves_of_what_was_logged(sweep: Path) -> None:
    page = check_safe(write_sweep(sweep).read_text())
    assert {"val2_loss.svg", "test_accuracy.svg"} <= {path.name for path in (sweep / "figures").iterdir()}
    assert page.count("img") == len(list((sweep / "figures").iterdir()))


def test_the_page_of_a_sweep_that_has_not_ended_says_how_far_it_is(sweep: Path) -> None:
    (sweep / "summary.json").unlink()
    for path in [*(sweep / "done").glob("*.json")][:3]:
        path.unlink()
    assert "This sweep has not ended: 5 of 8 runs have." in check_safe(write_sweep(sweep).read_text()).words
    shutil.rmtree(sweep / "done")
    assert "No configuration is chosen" in check_safe(write_sweep(sweep).read_text()).words


def test_runs_that_diverged_are_listed_and_never_chosen(tmp_path: Path) -> None:
    words = ["sweep", "quadratic", "--grid", "outer_lr=1e-3,1e60", "--set", "decay=0", "--set", "steps=40", "--quiet"]
    assert execute([*words, "--out", str(tmp_path / "x")]) == 0
    page = check_safe((tmp_path / "x" / "report.html").read_text()).words
    assert "Chosen: outer_lr=0.001" in page
    assert "Not finished" in page
    assert "is not finite" in page


def test_of_a_large_grid_the_best_are_shown(sweep: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bome.reports.sweeps.MOST_ROWS", 2)
    words = check_safe(write_sweep(sweep).read_text()).words
    assert "The other 2 are in summary.json" in words
    assert "outer_lr=100.0" in words


def test_a_folder_of_something_else_is_refused(sweep: Path, tmp_path: Path) -> None:
    assert execute(["run", "lls", "--set", "steps=2", "--quiet", "--out", str(tmp_path / "run")]) == 0
    with pytest.raises(ProblemError, match="holds a run, not a sweep"):
        write_sweep(tmp_path / "run")
    with pytest.raises(ProblemError, match="holds a sweep, not a run"):
        write_report(sweep)


def test_a_damaged_specification_is_one_line(sweep: Path) -> None:
    config = json.loads((sweep / "config.json").read_text())
    for key in config["spec"]:
        spec = {name: value for name, value in config["spec"].items() if name != key}
        (sweep / "config.json").write_text(json.dumps({**config, "spec": spec}))
        with pytest.raises(StorageError, match="does not tell the grid of a sweep"):
            write_sweep(sweep)


@needs_browser
def test_a_browser_shows_it_whole(sweep: Path, tmp_path: Path) -> None:
    seen = look_at(write_sweep(sweep), tmp_path / "profile")
    assert seen.title == "hyperclean-digits by bome: a sweep"
    assert all(seen.images)
    assert seen.images
    assert seen.overflow == 0
    assert seen.messages == []
