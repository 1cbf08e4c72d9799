"""What an experiment leaves in its folder, and the page made of it.

experiment.json  which experiment, with which preset; written first
results.json     the rows of numbers
findings.json    claims, texts and the names of the figures
figures/         the figures
report.html      everything on one page, made from these files alone
"""

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from bome._version import __version__
from bome.errors import ProblemError, StorageError
from bome.reports.figures import Drawing
from bome.reports.html import environment, figure
from bome.reports.tables import number
from bome.runs.directory import FIGURES, REPORT
from bome.storage.atomic import write_atomic
from bome.storage.jsonfile import plain
from bome_studies.study import Claim, Findings, Preset, Row, Section, Table

BENCH = "bench-"
EXPERIMENT, RESULTS, FINDINGS = "experiment.json", "results.json", "findings.json"
INDEX = "index.html"
"""The page over several studies."""

WORDS = {True: ("holds", "yes"), False: ("does not hold", "no"), None: ("cannot be said", "open")}
"""What is said of a claim, and its colour on the page."""

COLUMNS = ("task", "method", "variant", "metric", "mean", "se", "seeds")


def command(name: str, preset: str, **options: Path | None) -> str:
    """The command that repeats an experiment, or a benchmark, whose name begins with `BENCH`; with given options."""
    verb = f"bench {name.removeprefix(BENCH)}" if name.startswith(BENCH) else f"reproduce {name}"
    given = [f"--{option} {shlex.quote(str(path))}" for option, path in options.items() if path is not None]
    return " ".join([f"bome {verb} --preset {preset}", *given])


def heading(name: str) -> str:
    """The title of the claims of an experiment."""
    return "Aims" if name.startswith(BENCH) else "Claims of the paper and further aims"


def prepare(folder: Path, name: str, preset: Preset) -> None:
    """Make the folder of an experiment; finished parts of the same one stay.

    Raises:
        ProblemError: the folder holds something else.
    """
    if folder.exists() and not folder.is_dir():
        raise ProblemError(f"{folder} is a file: choose another --out")
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / EXPERIMENT).exists():
            raise ProblemError(f"{folder} is not empty and holds no experiment: choose another --out")
        if read_experiment(folder) != (name, preset):
            raise ProblemError(f"{folder} holds another experiment or preset: choose another --out")
    write_atomic(folder / EXPERIMENT, _dump({"experiment": name, "preset": preset}))


def read_experiment(folder: Path) -> tuple[str, Preset]:
    """Which experiment a folder holds, and its preset."""
    found = _load(folder / EXPERIMENT)
    if not isinstance(found, dict) or found.get("preset") not in get_args(Preset):
        raise StorageError(f"{folder / EXPERIMENT} is damaged: it does not name an experiment")
    return str(found.get("experiment")), found["preset"]


def is_experiment(folder: Path) -> bool:
    """Whether a page can be made from this folder."""
    return (folder / EXPERIMENT).exists()


def write(folder: Path, findings: Findings) -> Path:
    """Write the outcome of an experiment, and its page."""
    write_atomic(folder / RESULTS, _dump([row.to_dict() for row in findings.rows]))
    for section in findings.sections:
        for drawing in section.figures:
            write_atomic(folder / FIGURES / f"{drawing.name}.svg", drawing.svg)
    write_atomic(folder / FINDINGS, _dump(_plain_findings(findings)))
    return write_page(folder)


def read(folder: Path) -> Findings:
    """The outcome of an experiment as its files tell it."""
    if not (folder / FINDINGS).exists():
        name, preset = read_experiment(folder)
        raise ProblemError(f"{folder} holds an unfinished experiment: go on with '{command(name, preset, out=folder)}'")
    found, rows = _load(folder / FINDINGS), _load(folder / RESULTS)
    try:
        return Findings(
            title=str(found["title"]),
            about=str(found["about"]),
            sections=tuple(
                Section(
                    str(s["title"]),
                    str(s["about"]),
                    tuple(_drawing(folder, d) for d in s["figures"]),
                    _table(s.get("table")),
                )
                for s in found["sections"]
            ),
            claims=tuple(Claim(**claim) for claim in found["claims"]),
            rows=tuple(Row(**row) for row in rows),
            notes=tuple(map(str, found["notes"])),
        )
    except (KeyError, TypeError) as error:
        raise StorageError(f"{folder / FINDINGS} is damaged: {error}") from error


def write_page(folder: Path) -> Path:
    """Make the page of an experiment from its files; computes nothing."""
    findings, (name, preset) = read(folder), read_experiment(folder)
    page = environment().get_template("experiment.html").render(
        title=findings.title,
        about=findings.about,
        command=command(name, preset),
        heading=heading(name),
        counts=counts(findings.claims),
        claims=[_judged(claim) for claim in findings.claims],
        sections=[
            {
                "title": s.title,
                "about": s.about,
                "table": s.table,
                "figures": [{**figure(d), "wide": _is_wide(d)} for d in s.figures],
            }
            for s in findings.sections
        ],
        notes=findings.notes,
        columns=COLUMNS,
        rows=[_cells(row) for row in findings.rows],
        version=__version__,
    )  # fmt: skip
    write_atomic(folder / REPORT, page)
    return folder / REPORT


def write_docs(folder: Path, docs: Path) -> Path:
    """Write the outcome into the documentation: NAME.json, the figures in NAME/, and NAME.md."""
    findings, (name, preset) = read(folder), read_experiment(folder)
    write_atomic(docs / f"{name}.json", _dump([row.to_dict() for row in findings.rows]))
    if (docs / name).is_dir():
        shutil.rmtree(docs / name)
    for section in findings.sections:
        for drawing in section.figures:
            write_atomic(docs / name / f"{drawing.name}.svg", drawing.svg)
    write_atomic(docs / f"{name}.md", _markdown(name, command(name, preset, docs=docs), findings))
    return docs / f"{name}.md"


def write_overview(path: Path, folders: list[Path]) -> Path:
    """Write the page over the experiments in these folders, made from their files alone.

    Args:
        path: the page.
        folders: of experiments that have ended.
    """
    experiments = []
    for folder in folders:
        findings, (name, preset) = read(folder), read_experiment(folder)
        experiments.append(
            {
                "name": name,
                "title": findings.title,
                "about": findings.about,
                "counts": counts(findings.claims),
                "command": command(name, preset),
                "link": Path(os.path.relpath(folder / REPORT, path.parent)).as_posix(),
                "missing": [claim.text + ": " + claim.found for claim in findings.claims if claim.holds is False],
            }
        )
    page = environment().get_template("overview.html").render(experiments=experiments, version=__version__)
    write_atomic(path, page)
    return path


def counts(claims: Sequence[Claim]) -> list[tuple[str, str]]:
    """How many claims hold, and how many do not."""
    kinds = (True, "hold"), (False, "do not hold"), (None, "cannot be said")
    numbers = [(sum(claim.holds is kind for claim in claims), word, WORDS[kind][1]) for kind, word in kinds]
    return [(f"{n} {word}", colour) for n, word, colour in numbers if n]


def _markdown(name: str, made_by: str, findings: Findings) -> str:
    lines = [f"# {findings.title}", "", findings.about, ""]
    lines += [f"Made by `{made_by}`; do not edit by hand. "]
    lines += [f"All numbers: [{name}.json]({name}.json).", "", f"## {heading(name)}", ""]
    lines += [", ".join(text for text, _ in counts(findings.claims)) + ".", ""]
    judged = [(c.text, c.place, c.variant, c.found, f"**{WORDS[c.holds][0]}**") for c in findings.claims]
    lines += _markdown_table(("claim", "where", "tested in", "found here", "holds"), judged)
    for section in findings.sections:
        lines += ["", f"## {section.title}", "", section.about]
        if section.table is not None:
            lines += ["", *_markdown_table(section.table.header, section.table.rows)]
        for drawing in section.figures:
            lines += [
                "",
                f"![{drawing.title}]({name}/{drawing.name}.svg)",
                "",
                f"**{drawing.title}.** {drawing.caption}",
            ]
    lines += ["", "## Notes", ""] + [f"- {note}" for note in findings.notes]
    return "\n".join(lines) + "\n"


def _judged(claim: Claim) -> dict[str, Any]:
    word, kind = WORDS[claim.holds]
    return {**asdict(claim), "word": word, "kind": kind}


def _markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = (header, ("---",) * len(header), *rows)
    return ["| " + " | ".join(map(_cell, cells)) + " |" for cells in lines]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _cells(row: Row) -> list[str]:
    values = asdict(row)
    return [number(values[key]) if key in ("mean", "se", "seeds") else str(values[key]) for key in COLUMNS]


def _plain_findings(findings: Findings) -> dict[str, Any]:
    sections = [
        {
            "title": section.title,
            "about": section.about,
            "figures": [{"name": d.name, "title": d.title, "caption": d.caption} for d in section.figures],
            "table": None if section.table is None else asdict(section.table),
        }
        for section in findings.sections
    ]
    return {
        "title": findings.title,
        "about": findings.about,
        "claims": [asdict(claim) for claim in findings.claims],
        "sections": sections,
        "notes": list(findings.notes),
    }


def _table(told: Mapping[str, Any] | None) -> Table | None:
    if told is None:
        return None
    return Table(tuple(map(str, told["header"])), tuple(tuple(map(str, cells)) for cells in told["rows"]))


def _drawing(folder: Path, told: Mapping[str, Any]) -> Drawing:
    name = str(told["name"])
    if Path(name).name != name:  # a name must not lead out of the folder
        raise StorageError(f"{folder / FINDINGS} is damaged: {name!r} is not the name of a figure")
    path = folder / FIGURES / f"{name}.svg"
    try:
        return Drawing(name, str(told["title"]), str(told["caption"]), path.read_bytes())
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def _is_wide(drawing: Drawing) -> bool:
    """Whether a figure has several panels side by side, and wants a line of its own."""
    found = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing.svg[:2000])
    if found is None:
        return False
    width, height = float(found[1]), float(found[2])
    return width > 1.6 * height or width > 600


def _dump(value: Any) -> str:
    return json.dumps(finite(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def finite(value: Any) -> Any:
    """The value with null in place of NaN and infinity, which JSON does not have; lists included."""
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return {key: finite(item) for key, item in value.items()} if isinstance(value, dict) else plain(value)


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError):
        raise StorageError(f"{path} is damaged: it is not JSON") from None
