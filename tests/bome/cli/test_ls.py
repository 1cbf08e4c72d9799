"""`bome ls`, `bome demo`, `bome report`, and the command as such."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len

from bome.cli import console, demo
from bome.cli.docstrings import section
from bome.cli.main import VERBS, execute
from bome.runs import directory
from bome.runs.names import METHODS, TASKS
from bome.runs.plan import plan
from bome.stopping import Progress
from bome.tasks.task import Settings


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"]):
        assert execute(arguments) == 0
        printed = capsys.readouterr().out
        assert all(verb.__name__ in printed for verb in VERBS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["--version"]) == 0
    assert re.fullmatch(r"bome \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_help_does_not_load_the_drawing_library() -> None:
    script = (
        "import sys; from bome.cli.main import execute; code = execute(['--help']); "
        "sys.exit(code or 'matplotlib' in sys.modules or 'jinja2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL, check=False).returncode == 0


def test_ls_shows_everything_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["ls"]) == 0
    printed = capsys.readouterr().out
    assert all(cell_len(line) <= 80 for line in printed.splitlines())
    assert all(name in printed for name in (*METHODS, *TASKS, *section(Settings, "Attributes")))
    for kind, name in (("methods", "published"), ("tasks", "isotropic"), ("settings", "inner_momentum")):
        assert execute(["ls", kind]) == 0
        assert name in capsys.readouterr().out


def test_every_setting_is_explained() -> None:
    told = section(Settings, "Attributes")
    assert all(told[name] for name in Settings.__dataclass_fields__)


def test_section_reads_wrapped_entries_and_stops_at_the_next() -> None:
    def documented() -> None:
        """Do.

        Args:
            a: one
                and more.
            b: two.

        Returns:
            c: not an argument.
        """

    assert section(documented, "Args") == {"a": "one and more.", "b": "two."}


def test_demo_solves_its_problems_and_writes_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = tuple(toy._replace(settings={**toy.settings, "steps": 3}) for toy in demo.TOYS[2:4])
    monkeypatch.setattr(demo, "TOYS", few)
    monkeypatch.setattr(
        demo, "_clean_digits", lambda folder, seed, quiet: (folder / "cleaned").mkdir(parents=True, exist_ok=True)
    )
    for _ in range(2):  # the second time in the place of the first
        assert execute(["demo", "--out", str(tmp_path / "d"), "--seed", "1"]) == 0
        printed = capsys.readouterr().out
        assert printed.rstrip().split("\n")[-1] == f"report: {tmp_path / 'd' / 'report.html'}"
        assert all(toy.name in printed for toy in few)
    assert {path.name for path in (tmp_path / "d").iterdir()} == {
        *(toy.name for toy in few), "collection.json", "report.html", "figures", "digits",
    }  # fmt: skip
    assert "bome demo --seed 1" in (tmp_path / "d" / "report.html").read_text()


def test_demo_ends_with_digits_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "TOYS", ())
    monkeypatch.setattr(demo, "_solve_toys", lambda out, seed, quiet: None)
    monkeypatch.setattr("bome.apps.clean.example.ROWS", 300)
    assert execute(["demo", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    folder = tmp_path / "digits" / "cleaned"
    assert printed.rstrip().split("\n")[-1] == f"report: {folder / 'report.html'}"
    found = re.search(r"(\d+), among them (\d+) of the (\d+) wrong ones", printed)
    assert found is not None
    called, right, wrong = map(int, found.groups())
    assert right > 0.8 * max(called, wrong)
    plain, _, cleaned = (float(share) for share in re.findall(r"(\d+\.\d)%", printed))
    assert cleaned > plain
    assert "data:image/png" in (folder / "report.html").read_text()


def test_listed_defaults_are_those_of_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert execute(["ls", "settings"]) == 0
    printed = capsys.readouterr().out
    shown = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line.startswith(" hyperclean-")}
    assert shown["hyperclean-mnist"] == shown["hyperclean-fashion"] == shown["hyperclean-digits"]
    assert "phi=gap," in shown["hyperclean-mnist"]
    assert re.search(r"bvfsm +c_z=0.01, c_ln=1 ", printed)


def test_the_settings_of_the_demo_are_valid_and_cover_the_toys_of_the_paper() -> None:
    for toy in demo.TOYS:
        directory.checked_plan(toy.task, "bome", toy.settings, 0)
    assert {toy.task for toy in demo.TOYS} == {"coreset", "minimax", "lls", "quadratic", "sine"}
    assert {toy.settings["start"] for toy in demo.TOYS if toy.task == "coreset"} == {"a", "b", "c"}


@pytest.mark.slow
def test_the_demo_reaches_the_known_solutions(tmp_path: Path) -> None:
    assert execute(["demo", "--out", str(tmp_path), "--quiet"]) == 0
    for toy in demo.TOYS:
        summary = directory.read_summary(tmp_path / toy.name) or {}
        assert summary["distance_to_optimum"] < 0.06, toy.name


def test_report_makes_the_same_page_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "x"
    assert execute(["run", "lls", "--set", "steps=5", "--quiet", "--out", str(folder)]) == 0
    page = (folder / "report.html").read_bytes()
    figures = {path.name: path.read_bytes() for path in (folder / "figures").iterdir()}
    (folder / "report.html").unlink()
    assert execute(["report", str(folder)]) == 0
    assert capsys.readouterr().out == f"report: {folder / 'report.html'}\n"
    assert (folder / "report.html").read_bytes() == page
    assert {path.name: path.read_bytes() for path in (folder / "figures").iterdir()} == figures


def test_report_shows_a_directory_of_runs_on_one_page(tmp_path: Path) -> None:
    for seed in ("0", "1"):
        assert (
            execute(["run", "quadratic", "--set", "steps=3", "--seed", seed, "--quiet", "--out", str(tmp_path / seed)])
            == 0
        )
    assert execute(["report", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").read_text().count("<details>") == 2


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


def test_a_plan_given_by_the_command_line_is_that_of_the_library() -> None:
    assert directory.checked_plan("lls", "bome", {"eta": "0.25"}, 0).method == plan("lls", "bome", {"eta": 0.25}).method
