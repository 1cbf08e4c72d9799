"""Names and settings of strategies."""

from dataclasses import fields
from pathlib import Path

import pytest

from bome.cli.main import execute
from bome.continual.replay import REPLAY
from bome.continual.settings import CTN, STRATEGIES, Settings, parse_settings, split, strategy_variants, usual_settings
from bome.errors import ProblemError

DIGITS = "continual-digits"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "err"], "unknown strategy 'err'; did you mean 'er'?"),
        (["--method", "ctn+bome:totl"], "unknown variant of ctn+bome"),
        (["--method", "er", "--set", "lr=1"], "unknown setting 'lr'"),
        (["--method", "er", "--set", "c_ln=1"], "unknown setting 'c_ln'"),
        (["--method", "er", "--set", "theta_lr=fast"], "theta_lr must be a number"),
        (["--method", "er", "--set", "batch=1"], "batch must be a whole number of at least 2"),
        (["--method", "ctn+bome", "--set", "semantic=0.01"], "leaves one of the two memories empty"),
        (["--method", "ctn+bome", "--set", "semantic=nan"], "semantic must be between 0 and 1"),
        (["--method", "er", "--set", "memory=1000000000000"], "memory must be at most 1,000,000"),
        (["--method", "er", "--set", "part=test"], "part must be one of learning, tuning"),
        (["--method", "er", "--set", "margn=1"], "unknown setting 'margn'; known: batch, theta_lr"),  # margin is gem's
        (["--method", "er", "--set", "replay_from=seen"], "er has no setting 'replay_from'; it has batch, theta_lr"),
        (["--method", "ctn+pbgd", "--set", "eta=1"], "ctn+pbgd has no setting 'eta'"),
        (["--method", "ctn+bome", "--set", "clip=-1"], "clip must be 0 or a positive number"),
        (["--method", "gem", "--set", "margin=nan"], "margin must be 0 or a positive number"),
        (
            ["--method", "er", "--save-every", "10"],
            "--log-every, --save-every, --oracle, --refit and --keep-best do not apply to",
        ),
    ],
)
def test_mistakes_become_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["run", DIGITS, *arguments, "--out", str(tmp_path / "x")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: ")
    assert message in told
    assert not (tmp_path / "x").exists()


def test_streams_are_known_where_tasks_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["run", "continual-digit", "--out", str(tmp_path / "x")]) == 2
    assert "did you mean 'continual-digits'?" in capsys.readouterr().err
    assert execute(["sweep", DIGITS, "--grid", "eta=1,2", "--out", str(tmp_path / "x")]) == 2
    assert "is a stream of tasks" in capsys.readouterr().err
    assert execute(["ls", "strategies"]) == 0
    listed = capsys.readouterr().out
    assert all(key in listed for key in ("replay_from", "gamma_reptile", "temperature"))


def test_the_usual_settings_are_those_of_the_stream_and_of_the_strategy() -> None:
    assert usual_settings("continual-cifar", "er") == {"theta_lr": 0.01, "outer_lr": 0.05, "inner_steps": 1}
    assert usual_settings(DIGITS, "ctn+bome:auto") == {}


def test_settings_of_the_bilevel_method_are_parsed_and_kept_apart() -> None:
    values = parse_settings("ctn+bvfsm", {"c_z": "1e-2", "memory": "2e1"})
    assert values == {"c_z": 0.01, "memory": 20}
    assert split(values) == (Settings(memory=20), {"c_z": 0.01})


def test_every_strategy_names_settings_that_exist() -> None:
    names = {field.name for field in fields(Settings)}
    assert all({*about.settings, *about.usual} <= names for about in STRATEGIES.values())
    assert set(REPLAY) == {name for name in STRATEGIES if not name.startswith(CTN)}
    assert [strategy_variants(name) for name in ("er", "ctn+itd")] == [[], ["total"]]
    assert "auto" in strategy_variants("ctn+bome")


def test_both_memories_have_a_sample() -> None:
    assert Settings(memory=50, semantic=0.2).semantic_slots == 10
    with pytest.raises(ProblemError, match="leaves one of the two memories empty"):
        _ = Settings(memory=4, semantic=0.2).semantic_slots
