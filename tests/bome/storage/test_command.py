"""The command that repeats what made a folder."""

import shlex
from enum import StrEnum
from pathlib import Path

from bome.storage.command import command_line


class Choice(StrEnum):
    one = "one"


def test_arguments_come_first_and_options_in_order() -> None:
    assert command_line("run", "lls", method="bome", set={"eta": 0.5, "steps": 3}, log_every=10) == (
        "bome run lls --method bome --set eta=0.5 --set steps=3 --log-every 10"
    )


def test_lists_are_repeated_and_what_is_not_there_is_left_out() -> None:
    command = command_line(
        "clean", Path("a.csv"), text=("x", "y"), image=(), docs=None, force=False, seed=0, again=True
    )
    assert command == "bome clean a.csv --text x --text y --seed 0 --again"


def test_a_choice_is_its_name() -> None:
    assert command_line("sweep", "lls", backend=Choice.one) == "bome sweep lls --backend one"


def test_a_shell_gives_back_the_words() -> None:
    words = ["two words", "it's", "$HOME", "*", "a\nb", "é"]
    command = command_line("clean", *words, out="my folder")
    assert shlex.split(command) == ["bome", "clean", *words, "--out", "my folder"]
