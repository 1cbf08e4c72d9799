"""`bome mix`."""

import json
import re
from pathlib import Path

import pytest
from safetensors import safe_open

from bome.apps.mix import outputs
from bome.cli.main import execute
from bome.mixture import GPT

TEXT = "the rocket orbits the moon. a probe maps mars. our station sees a comet. "
QUICK = ["--set", "steps=3", "--set", "warmup=2", "--set", "length=8", "--set", "batch=1", "--set", "width=8"]


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    (tmp_path / "space.txt").write_text(TEXT * 5)
    (tmp_path / "orders").mkdir()
    for i in range(3):
        (tmp_path / "orders" / f"{i}.txt").write_text(f"disk={i}; card={2 * i}; " * 10)
    (tmp_path / "target.txt").write_text(TEXT[::-1] * 3 + TEXT)
    sources = ["--source", f"space={tmp_path / 'space.txt'}", "--source", f"orders={tmp_path / 'orders'}"]
    return ["mix", *sources, "--target", str(tmp_path / "target.txt"), *QUICK]


def test_a_mixture_leaves_weights_a_model_a_figure_and_a_page(
    texts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert execute([*texts, "--out", str(out), "--seed", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    weights = json.loads((out / "weights.json").read_text())
    assert set(weights) == {"space", "orders"}
    assert sum(weights.values()) == pytest.approx(1, abs=1e-5)
    assert told["weights"] == weights
    assert told["evaluations"] == {"g": 18, "f": 3}
    with safe_open(out / "model.safetensors", "pt") as file:
        shape = json.loads(file.metadata()["bome"])
        model = GPT(shape["vocabulary"], shape["length"], shape["width"], shape["layers"])
        model.load_state_dict({key: file.get_tensor(key) for key in file.keys()})  # noqa: SIM118 - not a dict
    assert {path.name for path in (out / "figures").iterdir()} == {"weights.svg", "losses.svg"}
    page = (out / "report.html").read_text()
    assert "bome mix --source" in page
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", page)
    assert "--seed 3" in told["command"]


def test_the_same_command_again_computes_nothing(
    texts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = ["--out", str(tmp_path / "out")]
    assert execute([*texts, *out, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(outputs, "_fit", None)
    assert execute([*texts, *out]) == 0
    assert "space" in capsys.readouterr().out
    assert execute([*texts, *out, "--seed", "1"]) == 2
    assert "holds another mixture, with other inputs or settings" in capsys.readouterr().err


def test_mistakes_become_one_line(texts: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, (source, short) = ["--target", str(tmp_path / "target.txt")], (tmp_path / "space.txt", tmp_path / "short")
    short.write_text("x")
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine")
    for arguments, word in (
        (["mix", "--source", f"a={source}", *target], "at least two sources"),
        (["mix", "--source", f"a={source}", "--source", f"a={source}", *target], "two sources are called 'a'"),
        (["mix", "--source", str(source), "--source", f"a={source}", *target], "--source wants NAME=PATH"),
        (["mix", "--source", f"a={source}", "--source", f"b={tmp_path / 'none'}", *target], "does not exist"),
        (["mix", "--source", f"a={source}", "--source", f"b={short}", *target], "1 bytes of text"),
        ([*texts, "--set", "steps=many"], "steps must be a whole number"),
        ([*texts, "--set", "stepz=3"], "unknown setting 'stepz'; did you mean 'steps'?"),
        ([*texts, "--set", "steps=0", "--out", str(tmp_path / "zero")], "steps must be"),
        ([*texts, "--out", str(mine)], "not empty"),
        ([*texts, "--out", str(short)], "is a file"),
    ):
        assert execute(arguments) == 2, arguments
        printed = capsys.readouterr().err
        assert word in printed
        assert printed.count("\n") == 1
