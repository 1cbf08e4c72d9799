"""The page of `bome prices`, which `bome report` makes again: it reads the folder and computes nothing."""

from html import escape
from pathlib import Path

from bome.storage.atomic import write_atomic
from bome.storage.folder import Folder


def write_page(folder: Path) -> Path:
    """Write `report.html` into a folder of `bome prices`."""
    summary = Folder(folder).summary()
    if summary is None:
        raise Folder(folder).unfinished()
    rows = [
        f"<tr><td>{escape(name)}<td>{x['price']:g}<td>{x['power']:.2f}<td>{x['coldest']:.2f}"
        for name, x in summary.items()
    ]
    head = "<tr><th>variant<th>price<th>power<th>coldest room"
    page = f"<!doctype html><meta charset=utf-8><title>Prices</title><table>{head}{''.join(rows)}</table>\n"
    write_atomic(folder / "report.html", page)
    return folder / "report.html"
