"""What is to be mixed: texts, settings and the command."""

from pathlib import Path

import pytest

from bome.apps.mix.inputs import HELD_OUT, Recipe, Request, parse_sources, read
from bome.errors import ProblemError


def request(folder: Path, **settings: str) -> Request:
    (folder / "a.txt").write_text("abcdefgh" * 20)
    (folder / "b").mkdir(exist_ok=True)
    (folder / "b" / "1.txt").write_text("one ")
    (folder / "b" / "2.txt").write_text("two " * 20)
    (folder / "t.txt").write_text("the target " * 20)
    return Request({"a": folder / "a.txt", "b": folder / "b"}, folder / "t.txt", {"length": "8", **settings})


def test_texts_are_bytes_and_a_part_of_the_target_is_held_out(tmp_path: Path) -> None:
    inputs = read(request(tmp_path))
    assert bytes(inputs.sources["a"].tolist()) == b"abcdefgh" * 20
    assert bytes(inputs.sources["b"].tolist()) == b"one \n\n" + b"two " * 20
    whole = b"the target " * 20
    assert bytes(inputs.target.tolist()) + bytes(inputs.held_out.tolist()) == whole
    assert len(inputs.held_out) == round(HELD_OUT * len(whole))


def test_the_digest_is_that_of_texts_settings_and_seed(tmp_path: Path) -> None:
    first = read(request(tmp_path)).digest
    assert read(request(tmp_path)).digest == first
    assert read(request(tmp_path, steps="3e1")).digest != first
    (tmp_path / "b" / "2.txt").write_text("two " * 21)
    again = Request({"a": tmp_path / "a.txt", "b": tmp_path / "b"}, tmp_path / "t.txt", {"length": "8"})
    assert read(again).digest != first


def test_settings_are_read_as_everywhere(tmp_path: Path) -> None:
    assert request(tmp_path, steps="1e1", eta="0.5", form="simplex").recipe == Recipe(
        steps=10, eta=0.5, form="simplex", length=8
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"stepz": "3"}, "unknown setting 'stepz'; did you mean 'steps'?"),
        ({"steps": "1.5"}, "steps must be a whole number, got '1.5'"),
        ({"eta": "much"}, "eta must be a number, got 'much'"),
        ({"steps": "0"}, "steps must be a whole number of at least 1"),
        ({"width": "30"}, "width must be a multiple of the number of heads"),
        ({"form": "round"}, "form must be"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(tmp_path: Path, settings: dict[str, str], message: str) -> None:
    with pytest.raises(ProblemError) as error:
        read(request(tmp_path, **settings))
    assert message in str(error.value)


def test_sources_have_names() -> None:
    assert parse_sources(["a=x.txt", "b=y=z.txt"]) == {"a": Path("x.txt"), "b": Path("y=z.txt")}
    for given, message in (
        (["a=x"], "at least two sources"),
        (["a=x", "a=y"], "two sources are called 'a'"),
        (["a=x", "y.txt"], "--source wants NAME=PATH"),
    ):
        with pytest.raises(ProblemError, match=message):
            parse_sources(given)


def test_the_command_is_complete() -> None:
    given = Request({"a": Path("x y.txt"), "b": Path("z.txt")}, Path("t.txt"), {"steps": "1e1"}, 3)
    assert given.command(Path("out")) == (
        "bome mix --source 'a=x y.txt' --source b=z.txt --target t.txt --set steps=1e1 --out out --seed 3"
    )
