"""What a study leaves in its folder, and the pages made of it.

config.json    which study, with which preset; written first
results.json   the rows of numbers
findings.json  claims, texts and the names of the figures
figures/       the figures
report.html    everything on one page, made from these files alone
summary.json   how many claims hold; written last
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

from bome._version import __version__
from bome.errors import StorageError
from bome.reports.figures import Drawing
from bome.reports.html import environment, figure
from bome.reports.tables import number
from bome.runs.directory import FIGURES, REPORT
from bome.storage import jsonfile
from bome.storage.atomic import write_atomic
from bome.storage.command import command_line
from bome.storage.folder import CONFIG, Folder
from bome_studies.study import Claim, Findings, Preset, Row, Section, Table

BENCH = "bench-"
RESULTS, FINDINGS = "results.json", "findings.json"
INDEX = "index.html"
"""The page over several studies."""

WORDS = {True: ("holds", "yes"), False: ("does not hold", "no"), None: ("open", "open")}
"""What is said of a claim, and its colour on the page."""

COLUMNS = ("task", "method", "variant", "metric", "mean", "se", "seeds")


def command(name: str, preset: str, **options: Path | None) -> str:
    """The command that repeats a study; the name of a benchmark begins with `BENCH`."""
    bench = name.startswith(BENCH)
    return command_line("bench" if bench else "reproduce", name.removeprefix(BENCH), preset=preset, **options)


def heading(name: str) -> str:
    """The title of the claims of a study."""
    return "Aims" if name.startswith(BENCH) else "Claims of the paper and further aims"


def identity(folder: Path) -> tuple[str, Preset]:
    """The name of the study that a folder holds, and its preset."""
    config = Folder(folder).config()
    name, preset = config.spec.get("study"), config.spec.get("preset")
    if config.kind not in ("reproduce", "bench") or preset is None or preset not in get_args(Preset):
        raise StorageError(f"{folder / CONFIG} is damaged: it does not name a study")
    return f"{BENCH if config.kind == 'bench' else ''}{name}", preset


def write(folder: Path, findings: Findings) -> Path:
    """Write the outcome of a study, and its page."""
    jsonfile.write(folder / RESULTS, [asdict(row) for row in findings.rows])
    for section in findings.sections:
        for drawing in section.figures:
            write_atomic(folder / FIGURES / f"{drawing.name}.svg", drawing.svg)
    jsonfile.write(folder / FINDINGS, _plain_findings(findings))
    path = write_page(folder)
    Folder(folder).finish({"claims": _counted(findings.claims)})
    return path


def read(folder: Path) -> Findings:
    """The outcome of a study as its files tell it."""
    if not (folder / FINDINGS).exists():
        identity(folder)
        raise Folder(folder).unfinished()
    findings, rows = jsonfile.read(folder / FINDINGS), jsonfile.read(folder / RESULTS)
    try:
        return Findings(
            title=str(findings["title"]),
            about=str(findings["about"]),
            sections=tuple(
                Section(
                    str(s["title"]),
                    str(s["about"]),
                    tuple(_drawing(folder, d) for d in s["figures"]),
                    _table(s.get("table")),
                )
                for s in findings["sections"]
            ),
            claims=tuple(Claim(**claim) for claim in findings["claims"]),
            rows=tuple(Row(**row) for row in rows),
            notes=tuple(map(str, findings["notes"])),
        )
    except (KeyError, TypeError) as error:
        raise StorageError(f"{folder / FINDINGS} is damaged: {error}") from error


def write_page(folder: Path) -> Path:
    """Make the page of a study from its files; computes nothing."""
    findings, (name, preset) = read(folder), identity(folder)
    page = environment(Path(__file__).parent).get_template("study.html").render(
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
    findings, (name, preset) = read(folder), identity(folder)
    jsonfile.write(docs / f"{name}.json", [asdict(row) for row in findings.rows])
    if (docs / name).is_dir():
        shutil.rmtree(docs / name)
    for section in findings.sections:
        for drawing in section.figures:
            write_atomic(docs / name / f"{drawing.name}.svg", drawing.svg)
    write_atomic(docs / f"{name}.md", _markdown(name, command(name, preset, docs=docs), findings))
    return docs / f"{name}.md"


def write_overview(path: Path, folders: list[Path]) -> Path:
    """Write the page over the studies in these folders, made from their files alone.

    Args:
        path: the page.
        folders: of studies that have ended.
    """
    studies = []
    for folder in folders:
        findings, (name, preset) = read(folder), identity(folder)
        studies.append(
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
    page = environment(Path(__file__).parent).get_template("overview.html").render(studies=studies, version=__version__)
    write_atomic(path, page)
    return path


def counts(claims: Sequence[Claim]) -> list[tuple[str, str]]:
    """How many claims hold, and how many do not."""
    colours = {"hold": "yes", "do not hold": "no", "open": "open"}
    return [(f"{n} {word}", colours[word]) for word, n in _counted(claims).items() if n]


def _counted(claims: Sequence[Claim]) -> dict[str, int]:
    kinds = {"hold": True, "do not hold": False, "open": None}
    return {word: sum(claim.holds is kind for claim in claims) for word, kind in kinds.items()}


def _markdown(name: str, made_by: str, findings: Findings) -> str:
    lines = [f"# {findings.title}", "", findings.about, ""]
    lines += [f"Made by `{made_by}`; do not edit by hand. "]
    lines += [f"All numbers: [{name}.json]({name}.json).", "", f"## {heading(name)}", ""]
    lines += [", ".join(text for text, _ in counts(findings.claims)) + ".", ""]
    rows = [(c.text, c.place, c.variant, c.found, f"**{WORDS[c.holds][0]}**") for c in findings.claims]
    lines += _markdown_table(("claim", "where", "tested in", "found here", "holds"), rows)
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


def _table(stored: Mapping[str, Any] | None) -> Table | None:
    if stored is None:
        return None
    return Table(tuple(map(str, stored["header"])), tuple(tuple(map(str, cells)) for cells in stored["rows"]))


def _drawing(folder: Path, stored: Mapping[str, Any]) -> Drawing:
    name = str(stored["name"])
    if Path(name).name != name:  # a name must not lead out of the folder
        raise StorageError(f"{folder / FINDINGS} is damaged: {name!r} is not the name of a figure")
    path = folder / FIGURES / f"{name}.svg"
    try:
        return Drawing(name, str(stored["title"]), str(stored["caption"]), path.read_bytes())
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


def _is_wide(drawing: Drawing) -> bool:
    """Whether a figure has several panels side by side, and wants a line of its own."""
    box = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawing.svg[:2000])
    if box is None:
        return False
    width, height = float(box[1]), float(box[2])
    return width > 1.6 * height or width > 600
