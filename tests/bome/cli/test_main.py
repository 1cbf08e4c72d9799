"""Every mistake is one line on stderr and the right exit code."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated

import pytest
import typer

from bome.cli import main, run
from bome.cli.main import execute

RUN = ["run", "coreset"]

MISTAKES: list[tuple[list[str], str]] = [
    (["run", "corset"], "unknown task 'corset'; did you mean 'coreset'?"),
    (["run", "zzzzzz"], "unknown task 'zzzzzz'; known: coreset"),
    ([*RUN, "--method", "bme"], "unknown method 'bme'; did you mean 'bome'?"),
    ([*RUN, "--method", "bome:publishd"], "did you mean 'published'?"),
    ([*RUN, "--method", "ctn+bome"], "ctn+bome is a strategy for streams of tasks such as continual-pmnist"),
    ([*RUN, "--method", "ogda"], "ogda cannot solve this problem: "),
    ([*RUN, "--method", "itd", "--set", "eta=0.5"], "itd has no setting 'eta'"),
    (["run", "continual-digits", "--method", "bome"], "unknown strategy 'bome'; did you mean 'ctn+bome'?"),
    ([*RUN, "--set", "innersteps=3"], "unknown setting 'innersteps'; did you mean 'inner_steps'?"),
    ([*RUN, "--set", "eta"], "--set wants KEY=VALUE, such as --set eta=0.5, got 'eta'"),
    ([*RUN, "--set", "=1"], "--set wants KEY=VALUE"),
    ([*RUN, "--set", "eta=-1"], "eta (η) must be a positive number, got -1.0"),
    ([*RUN, "--set", "eta=0"], "eta (η) must be a positive number"),
    ([*RUN, "--set", "eta=nan"], "eta (η) must be a positive number, got nan"),
    ([*RUN, "--set", "eta=inf"], "eta (η) must be a positive number"),
    ([*RUN, "--set", "eta=much"], "eta must be a number, got 'much'"),
    ([*RUN, "--set", "inner_steps=0"], "inner_steps (T) must be"),
    ([*RUN, "--set", "inner_steps=1.5"], "inner_steps must be a whole number, got '1.5'"),
    ([*RUN, "--set", "inner_steps=1e9"], "inner_steps must be at most 1,000,000"),
    ([*RUN, "--set", "inner_lr=-1"], "inner_lr (α) must be a positive number"),
    ([*RUN, "--set", "steps=0"], "steps must be"),
    ([*RUN, "--set", "steps=-5"], "steps must be"),
    ([*RUN, "--set", "steps=1e12"], "steps must be at most 100,000,000"),
    ([*RUN, "--set", "steps=inf"], "steps must be a whole number"),
    ([*RUN, "--set", "outer_lr=0"], "outer_lr (ξ_v) must be a positive number"),
    ([*RUN, "--set", "theta_lr=nan"], "theta_lr (ξ_θ) must be a positive number"),
    ([*RUN, "--set", "momentum=1"], "momentum must be in [0, 1)"),
    ([*RUN, "--set", "momentum=-0.1"], "momentum must be in [0, 1)"),
    ([*RUN, "--set", "inner_momentum=2"], "momentum must be in [0, 1)"),
    ([*RUN, "--set", "decay=-1"], "decay must be 0"),
    ([*RUN, "--set", "decay=nan"], "decay must be 0"),
    ([*RUN, "--set", "phi=square"], "phi must be one of norm, gap, got 'square'"),
    ([*RUN, "--set", "variant=pap"], "unknown variant of coreset 'pap'; did you mean 'paper'?"),
    ([*RUN, "--set", "start=z"], "unknown start of coreset 'z'; known: a, b, c"),
    ([*RUN, "--set", "variant=../../x"], "unknown variant"),
    ([*RUN, "--sed", "1"], "No such option: --sed"),
    ([*RUN, "--sed", "1"], "--seed"),
    ([*RUN, "--seed", "-1"], "Invalid value for '--seed'"),
    ([*RUN, "--seed", "one"], "Invalid value for '--seed'"),
    ([*RUN, "--seed", str(2**64)], "Invalid value for '--seed'"),
    ([*RUN, "--log-every", "0"], "Invalid value for '--log-every'"),
    ([*RUN, "--save-every", "0"], "Invalid value for '--save-every'"),
    ([*RUN, "--oracle", "magic"], "'autograd'"),
    ([*RUN, "more"], "unexpected extra argument"),
    (["run"], "Missing argument"),
    (["rnu"], "No such command 'rnu'"),
    (["ls", "nothing"], "Invalid value"),
    (["--nope"], "No such option: --nope"),
    (["resume", "nowhere"], "nowhere is not a folder of bome: it has no config.json"),
    (["report", "nowhere"], "nowhere is not a directory"),
    (["report", "."], "is not a run directory"),
]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, where runs draw no figures."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "write_report", lambda folder: folder / "report.html")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "words"), MISTAKES, ids=lambda value: "-".join(value) if isinstance(value, list) else ""
)
def test_a_mistake_is_one_line_exit_2_and_leaves_nothing(
    place: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main.execute(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert words in printed.err
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("out", ["/proc/nowhere/x", "/dev/null/x"])
def test_an_unwritable_place_is_exit_4(capsys: pytest.CaptureFixture[str], out: str) -> None:
    assert main.execute(["run", "lls", "--out", out]) == 4
    printed = capsys.readouterr().err
    assert printed.startswith(f"error: cannot write {out}/config.json: ")
    assert printed.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_directory_is_exit_4(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "locked").mkdir(mode=0o500)
    assert main.execute(["run", "lls", "--out", "locked/x"]) == 4
    assert capsys.readouterr().err.startswith("error: cannot write locked/x/config.json: Permission denied")


def test_a_directory_of_something_else_is_left_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "x").mkdir()
    (place / "x" / "thesis.tex").write_text("precious")
    assert main.execute(["run", "lls", "--out", "x"]) == 2
    assert capsys.readouterr().err == "error: x is not empty and holds nothing of bome's: choose another --out\n"
    assert main.execute(["demo", "--out", "x"]) == 2
    assert "holds something else, such as 'thesis.tex'" in capsys.readouterr().err
    assert [path.name for path in (place / "x").iterdir()] == ["thesis.tex"]


def test_another_run_is_left_alone(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.execute(["run", "lls", "--set", "steps=3", "--quiet", "--out", "x"]) == 0
    before = (place / "x" / "metrics.jsonl").read_bytes()
    assert main.execute(["run", "lls", "--set", "steps=4", "--quiet", "--out", "x"]) == 2
    assert "holds another run, with other inputs or settings: choose another --out" in capsys.readouterr().err
    (place / "x" / "summary.json").unlink()
    assert main.execute(["run", "lls", "--set", "steps=3", "--quiet", "--out", "x"]) == 2
    assert "unfinished: continue it with 'bome resume'" in capsys.readouterr().err
    assert (place / "x" / "metrics.jsonl").read_bytes() == before


def test_a_file_in_the_place_of_the_directory_is_refused(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "x").write_text("mine")
    assert main.execute(["run", "lls", "--out", "x"]) == 2
    assert capsys.readouterr().err == "error: x is a file: choose another --out\n"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "null", '{"task": 1}', "\udcff", "[" * 100_000])
@pytest.mark.parametrize("verb", ["report", "resume"])
def test_a_damaged_config_is_exit_4(place: Path, capsys: pytest.CaptureFixture[str], verb: str, content: str) -> None:
    (place / "x").mkdir()
    (place / "x" / "config.json").write_bytes(content.encode("utf-8", "surrogateescape"))
    assert main.execute([verb, "x"]) == 4
    printed = capsys.readouterr().err
    assert printed.startswith("error: x/config.json is damaged")
    assert printed.count("\n") == 1


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "a\rb", "\x07", "\u202e", "\udcff"])
def test_names_with_control_characters_are_spelled_out(capsys: pytest.CaptureFixture[str], name: str) -> None:
    for arguments in (["run", name], ["run", "lls", "--method", name], ["run", "lls", "--set", name], ["report", name]):
        assert main.execute(arguments) == 2
        printed = capsys.readouterr().err
        assert name not in printed
        assert printed.count("\n") == 1
        assert printed.rstrip("\n").isprintable()


def test_an_unexpected_error_is_one_line_exit_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        """Break."""
        raise ZeroDivisionError("oh\nno")

    monkeypatch.setattr(main, "verbs", lambda: {"broken": broken})
    assert main.execute(["broken"]) == 1
    assert (
        capsys.readouterr().err == r"error: internal: ZeroDivisionError: oh\nno; 'bome --debug ...' shows where" + "\n"
    )
    assert main.execute(["--debug", "broken"]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (KeyboardInterrupt(), 130),
        (SystemExit(143), 143),
        (BrokenPipeError(), 141),
        (OSError(28, "No space left on device", "x"), 4),
    ],
)
def test_whatever_else_ends_a_command_has_its_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    def broken() -> None:
        """Break."""
        raise error

    monkeypatch.setattr(main, "verbs", lambda: {"broken": broken})
    monkeypatch.setattr(main, "_silence_stdout", lambda: None)
    assert main.execute(["broken"]) == code
    assert capsys.readouterr().err.count("\n") == (0 if code == 141 else 1)


def test_a_reader_that_leaves_is_no_error(place: Path) -> None:
    command = "import sys; from bome.cli.main import main; sys.argv = ['bome', 'ls']; main()"
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as pipe:
        ended = subprocess.run([sys.executable, "-c", command], stdout=pipe, stderr=subprocess.PIPE, check=False)
    assert ended.returncode == 141
    assert ended.stderr == b""


def test_an_interrupt_while_libraries_are_loaded_is_one_line_exit_130() -> None:
    code = """
import os, signal, sys
import bome_command

class Interrupts:
    def find_spec(self, name, *more):
        if name == "torch":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupts())
bome_command.main()
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "error: interrupted\n")


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"]):
        assert execute(arguments) == 0
        printed = capsys.readouterr().out
        assert all(name in printed for name in main.verbs())


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["--version"]) == 0
    assert re.fullmatch(r"bome \d+\.\d+\.\d+\n", capsys.readouterr().out)


def test_help_does_not_load_the_drawing_library() -> None:
    script = (
        "import sys; from bome.cli.main import execute; code = execute(['--help']); "
        "sys.exit(code or 'matplotlib' in sys.modules or 'jinja2' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], stdout=subprocess.DEVNULL, check=False).returncode == 0


class Offers(list[metadata.EntryPoint]):
    """Plug-ins as other packages would offer them."""

    def __init__(self, **modules: str) -> None:
        super().__init__(metadata.EntryPoint(name, module, "bome.verbs") for name, module in modules.items())


def a_verb(path: Path, often: Annotated[int, typer.Option("--often")] = 1) -> None:
    """Say where."""
    typer.echo(f"{path} {often}")


def no_verb(what: tuple[list[int], int]) -> None:
    """Has an argument that no command line can give."""


def test_verbs_of_other_packages_come_last_and_are_carried_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = f"{__name__}:a_verb"
    monkeypatch.setattr("bome.runs.names.entry_points", lambda group: Offers(zebra=here, aardvark=here))
    assert list(main.verbs()) == [*(verb.__name__ for verb in main.BUILT_IN), "aardvark", "zebra"]
    assert execute(["zebra", "there", "--often", "3"]) == 0
    assert tuple(capsys.readouterr()) == ("there 3\n", "")


@pytest.mark.parametrize(
    ("name", "place", "reason"),
    [
        ("missing", "no_such_package:verb", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("absent", f"{__name__}:nothing", "AttributeError"),
        ("wrong", f"{__name__}:no_verb", "AssertionError: "),
        ("number", f"{__name__}:IO", "left out"),
        ("run", f"{__name__}:a_verb", "the name 'run' is taken"),
    ],
)
def test_a_verb_that_is_of_no_use_is_a_warning_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, place: str, reason: str
) -> None:
    monkeypatch.setattr("bome.runs.names.entry_points", lambda group: Offers(**{name: place}))
    assert execute(["--version"]) == 0
    told = capsys.readouterr().err
    assert told.startswith(f"warning: '{name}' of the package ")
    assert reason in told
    assert told.count("\n") == 1


IO = 3
