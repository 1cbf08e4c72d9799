"""A record of finished parts."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from bome.errors import StorageError
from bome.storage.memo import Memo
from bome_studies.lines import keep, read, recorded, take_over
from bome_studies.parts import PARTS, results_of


@dataclass(frozen=True)
class Square:
    """A part."""

    number: int

    @property
    def name(self) -> str:
        """Of its file."""
        return f"squares/{self.number}"


def _squared(part: Square) -> dict[str, float]:
    return {"square": float(part.number**2)}


def _never(part: Square) -> dict[str, float]:
    raise AssertionError(part)


def _report(what: str, done: int, total: int) -> None:
    pass


def _work(folder: Path, *numbers: int) -> dict[str, dict[str, float]]:
    return results_of([Square(number) for number in numbers], _squared, folder, _report)


def test_a_record_replaces_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, record = tmp_path / "one", tmp_path / "two", tmp_path / "r.jsonl"
    with recorded(one, record) as taken:
        assert taken == 0
        first = _work(one, 2, 3)
    assert [line["name"] for line in read(record)] == ["squares/2", "squares/3"]
    assert take_over(record, two) == 2
    assert take_over(record, two) == 0
    assert results_of([Square(2), Square(3)], _never, two, _report) == first


def test_it_grows_and_forgets_nothing(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    for folder, number in ((tmp_path / "one", 1), (tmp_path / "two", 2)):
        _work(folder, number)
        keep(folder, record)
    assert [line["result"] for line in read(record)] == [{"square": 1.0}, {"square": 4.0}]


def test_what_ended_is_kept_even_if_the_rest_is_stopped(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"

    def stopped() -> None:
        with recorded(tmp_path, record):
            _work(tmp_path, 5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert len(read(record)) == 1


def test_parts_of_other_settings_or_with_tensors_are_no_part_of_the_work(tmp_path: Path) -> None:
    record = tmp_path / "r.jsonl"
    record.write_text(json.dumps({"name": "squares/2", "spec": {"number": 7}, "result": {"square": 49.0}}) + "\n")
    take_over(record, tmp_path)
    assert _work(tmp_path, 2) == {"squares/2": {"square": 4.0}}
    Memo(tmp_path / PARTS).write("big", {}, torch.zeros(3))
    keep(tmp_path, record)
    assert [line["name"] for line in read(record)] == ["squares/2"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"name": "a"}',
        '{"name": "../a", "spec": {}, "result": 1}',
        '{"name": "/a", "spec": {}, "result": 1}',
    ],
)
def test_what_is_no_record_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    record = tmp_path / "r.jsonl"
    record.write_text(f"\n{text}\n")
    with pytest.raises(StorageError, match=r"r\.jsonl:2: not a part"):
        take_over(record, tmp_path)
