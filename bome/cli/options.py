"""Options that several verbs have."""

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from bome.errors import ProblemError

MAX_SEED = 2**63 - 1


class OracleChoice(StrEnum):
    """The names of oracles; the same as `bome.oracles.OracleName`."""

    auto = "auto"
    autograd = "autograd"
    func = "func"
    backward = "backward"


Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting; may be repeated. 'bome ls settings' lists them."),
]
Seed = Annotated[int, typer.Option("--seed", min=0, max=MAX_SEED, help="Seed of all random numbers.")]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to write; by default a place in runs/.")]
Docs = Annotated[
    Path | None, typer.Option("--docs", metavar="DIR", help="Also write NAME.json, NAME.md and figures here.")
]
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="A folder that a verb of bome wrote.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print errors and warnings only.")]
Json = Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout, and nothing else there.")]


def parse_settings(given: Sequence[str] | None) -> dict[str, str]:
    """The settings of all `--set key=value`; the last one of a key counts."""
    values = {}
    for text in given or ():
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise ProblemError(f"--set wants KEY=VALUE, such as --set eta=0.5, got {text!r}")
        values[key.strip()] = value.strip()
    return values
