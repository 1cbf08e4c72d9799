"""What a mixture leaves in its folder, and how it goes on."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bome.apps.mix.inputs import Request, read
from bome.apps.mix.outputs import default_place, mix_into, page
from bome.errors import ProblemError, StorageError

QUICK = {"steps": "3", "warmup": "2", "length": "8", "batch": "1", "width": "8"}


def request(folder: Path, seed: int = 0) -> Request:
    for name, text in (("a", "a probe maps mars. "), ("b", "disk=1; card=2; "), ("t", "mars has a probe. ")):
        (folder / f"{name}.txt").write_text(text * 20)
    return Request({"a": folder / "a.txt", "b": folder / "b.txt"}, folder / "t.txt", QUICK, seed)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small mixture; never changed in place."""
    place = tmp_path_factory.mktemp("mixed")
    summary = mix_into(place / "out", request(place), read(request(place)))
    assert summary["status"] == "finished"
    return place / "out"


@pytest.fixture
def folder(mixed: Path, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(mixed, tmp_path / "out"))


def test_a_finished_mixture_is_not_learned_again(mixed: Path) -> None:
    given = request(mixed.parent)
    assert mix_into(mixed, given, read(given))["status"] == "finished before"
    with pytest.raises(ProblemError, match="holds another mixture, with other inputs or settings"):
        mix_into(mixed, request(mixed.parent, 1), read(request(mixed.parent, 1)))


def test_by_default_the_folder_is_that_of_the_target(
    mixed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = request(mixed.parent)
    assert default_place(given, read(given)) == Path("runs/mix-t")
    shutil.copytree(mixed, "runs/mix-t")
    assert default_place(given, read(given)) == Path("runs/mix-t")
    other = request(mixed.parent, 1)
    assert default_place(other, read(other)) == Path("runs/mix-t-2")


def test_the_page_is_made_again_from_the_stored_files_alone(folder: Path) -> None:
    names = ("report.html", "figures/weights.svg", "figures/losses.svg")
    before = {name: (folder / name).read_bytes() for name in names}
    for name in (*names, "weights.json", "model.safetensors"):
        (folder / name).unlink()
    assert page(folder) == folder / "report.html"
    assert {name: (folder / name).read_bytes() for name in names} == before


@pytest.mark.parametrize("change", [{"weights": None}, {"certificate": []}, {"evaluations": 3}, {"tokens": {}}])
def test_a_damaged_summary_is_told(folder: Path, change: dict[str, Any]) -> None:
    path = folder / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(StorageError, match="is damaged"):
        page(folder)


def test_what_has_not_ended_has_no_page_yet(folder: Path) -> None:
    (folder / "summary.json").unlink()
    with pytest.raises(ProblemError, match="holds a mixture that has not ended: go on with 'bome resume "):
        page(folder)


def test_a_mixture_that_was_stopped_ends_as_if_nothing_had_happened(mixed: Path, tmp_path: Path) -> None:
    given = request(mixed.parent)

    def stop(progress: Any) -> None:
        if progress.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mix_into(tmp_path / "out", given, read(given), stop)
    mix_into(tmp_path / "out", given, read(given))
    assert (tmp_path / "out" / "weights.json").read_bytes() == (mixed / "weights.json").read_bytes()
