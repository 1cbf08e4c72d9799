"""Runs of continual learning: interrupted and continued, on the command line, and as an experiment."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from bome.cli.main import execute
from bome.continual.run import Spec, Summary, ended, learn
from bome.continual.settings import STRATEGIES
from bome.errors import ProblemError
from bome.storage.folder import Folder
from bome_studies import page
from bome_studies.continual import record, study
from bome_studies.continual.claims import CONSTANT, PAPER, claims, notes, rows_of
from bome_studies.continual.figures import sections, varied
from bome_studies.continual.protocol import ABLATIONS, PROTOCOLS, Candidate, Protocol
from bome_studies.continual.results import Entry, Missing, Results, Runs
from bome_studies.continual.study import carry_out, choose, collected, one_part, place
from bome_studies.study import Claim

DIGITS = "continual-digits"
NAMES = (*STRATEGIES, "ctn+itd:total", "ctn+bome:auto")


# --- the experiment ---------------------------------------------------------------------------------------------------

SMALL = Protocol(
    DIGITS,
    (
        Candidate("offline", 1, "selected", ({"theta_lr": 0.01}, {"theta_lr": 0.3})),
        Candidate("ctn+itd", 1),
        Candidate("ctn+bome", 2),
    ),
    {"η = 1": ("ctn+bome", {"eta": 1.0})},
)


def silent(what: str, done: int, total: int) -> None:
    """Nobody watches."""


def test_the_experiment_chooses_on_the_tuning_tasks_runs_and_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL,)})
    Folder(tmp_path).claim("reproduce", {"study": "continual", "preset": "smoke"}, "")
    findings = study.CONTINUAL.run("smoke", tmp_path, silent)
    page.write(tmp_path, findings)
    choice = json.loads((tmp_path / "parts" / DIGITS / "tuning" / "offline-chosen.json").read_text())
    best = max(choice["tried"], key=lambda one: one["acc"])
    assert choice["values"] == best["values"] == {"theta_lr": 0.3}
    run = json.loads((place(tmp_path, Spec(DIGITS, "offline", 0, {"theta_lr": 0.3})) / "config.json").read_text())
    assert run["spec"]["settings"]["theta_lr"] == 0.3
    tried = place(tmp_path, Spec(DIGITS, "offline", 0, {"theta_lr": 0.01}, "tuning"))
    tuned = json.loads((tried / "config.json").read_text())
    assert tuned["spec"]["part"] == "tuning"
    rows = {(row.method, row.variant, row.metric): row for row in findings.rows}
    assert rows["offline", "selected", "theta_lr"].mean == 0.3
    assert rows["ctn+bome", "published", "acc"].seeds == 2
    assert ("ctn+bome", "η = 1", "acc") in rows
    assert not any(row.method == "ctn+pbgd" for row in findings.rows)
    assert ("offline", "selected", "ft") not in rows
    assert len(findings.sections) == 2
    assert all(claim.holds is None for claim in findings.claims)  # smoke decides nothing
    monkeypatch.setattr("bome.continual.run._Run", None)  # a second time everything is read
    again = study.CONTINUAL.run("smoke", tmp_path, silent)
    assert again.rows == findings.rows


def recording(path: Path, folder: Path) -> int:
    """Carry out the smallest preset with a record; its exit code."""
    return execute(
        ["reproduce", "continual", "--preset", "smoke", "--record", str(path), "--out", str(folder), "--quiet"]
    )


def test_the_finished_runs_can_be_reported_and_kept_in_a_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL,)})
    folder, path = tmp_path / "first", tmp_path / "runs.jsonl"
    Folder(folder).claim("reproduce", {"study": "continual", "preset": "smoke"}, "")
    (folder / "parts").mkdir()
    assert execute(["report", str(folder)]) == 2
    assert "no run in" in capsys.readouterr().err
    one_part("smoke", DIGITS, "ctn+bome", 1, folder)  # without its seed 0 it cannot be compared seed by seed
    one_part("smoke", DIGITS, "ctn+itd", 0, folder)
    assert execute(["report", str(folder), "--docs", str(tmp_path / "docs")]) == 0
    rows = json.loads((tmp_path / "docs" / "continual.json").read_text())
    assert {row["method"] for row in rows} == {"ctn+itd"}
    told = (tmp_path / "docs" / "continual.md").read_text()
    assert "made before all runs had ended" in told
    assert f"Made by `bome reproduce continual --preset smoke --docs {tmp_path / 'docs'}`" in told
    assert (
        "ended so far: offline (selected): 0 of 1; ctn+bome (published): 0 of 2; other settings of BOME: 0 of 1" in told
    )

    assert recording(path, folder) == 0
    assert len(path.read_text().splitlines()) == 2 + 4 + 1  # choosing, seeds, ablation
    monkeypatch.setattr("bome.continual.run._Run", None)  # all that follows is read
    assert recording(path, tmp_path / "second") == 0
    for name in ("results.json", "findings.json"):
        assert (tmp_path / "second" / name).read_text() == (folder / name).read_text()
    assert "ended so far" not in (folder / "findings.json").read_text()


def test_a_stream_of_which_no_run_has_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL, replace(SMALL, task="continual-cifar"))})
    one_part("smoke", DIGITS, "ctn+itd", 0, tmp_path)
    findings = study.CONTINUAL.so_far("smoke", tmp_path)
    assert any("continual-cifar, runs that have ended so far" in note for note in findings.notes)
    assert {row.task for row in findings.rows} == {DIGITS}


SUMMARY = asdict(Summary("finished", "", 1, {}, 1.0, [1.0], {}, {}, [[1.0]]))
SPEC = Spec(DIGITS, "er", 0).to_dict()
LINE: dict[str, Any] = {"place": "a", "version": "1", "spec": SPEC, "summary": SUMMARY}

WRONG: tuple[dict[str, Any], ...] = (
    {"status": ""},
    {"status": "diverged", "reason": None},
    {"observed": 5},
    {"observed": {"acc": "x"}},
    {"matrix": []},
    {"matrix": "x"},
    {"matrix": [[1.0], [1.0, 2.0]]},
    {"matrix": [["x"]]},
    {"seconds_by_task": None},
    {"steps": None},
    {"f": None},
)
"""Parts that spoil a summary."""


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        json.dumps({**LINE, "place": "../x"}),
        json.dumps({**LINE, "place": "/x"}),
        json.dumps({**LINE, "place": ""}),
        json.dumps({**LINE, "spec": 1}),
    ],
)
def test_a_damaged_record_is_refused(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(text + "\n")
    assert recording(path, tmp_path / "new") == 4
    assert f"{path}:1: not a run of a record" in capsys.readouterr().err.replace("\n", "")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "wrong", [{"spec": {}}, {"summary": {"status": ""}}, *({"summary": {**SUMMARY, **part}} for part in WRONG)]
)
def test_a_damaged_run_in_a_record_is_refused_before_anything_is_written(
    wrong: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(LINE) + "\n" + json.dumps({**LINE, **wrong}) + "\n")
    assert recording(path, tmp_path / "new") == 4
    assert f"{path}:2 is damaged" in capsys.readouterr().err.replace("\n", "")
    assert not list((tmp_path / "new" / "parts").rglob("config.json"))


def test_runs_of_a_record_with_other_settings_than_todays_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Spec(DIGITS, "er", 0)
    learn(run, place(tmp_path / "old", run))
    path = tmp_path / "runs.jsonl"
    record.keep(tmp_path / "old", path)
    line = json.loads(path.read_text())
    elsewhere = {**line, "place": f"{DIGITS}/gem-seed0"}
    spec = line["spec"]
    changed = {**line, "spec": {**spec, "settings": {**spec["settings"], "memory": 40}}}
    gone = {**line, "spec": {**spec, "strategy": "none"}}
    odd = [{**line, "spec": {**spec, **wrong}} for wrong in ({"set": {"theta_lr": None}}, {"part": "test"})]
    for wrong in (elsewhere, changed, gone, *odd):
        path.write_text(json.dumps(wrong) + "\n")
        assert record.take_over(path, tmp_path / "new") == (0, 1, 0)
        assert not (tmp_path / "new").exists()
    path.write_text(json.dumps(line) + "\n")
    assert record.take_over(path, tmp_path / "new") == (1, 0, 0)


def test_an_interrupted_experiment_keeps_what_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL,)})
    folder, path = tmp_path / "first", tmp_path / "runs.jsonl"
    Folder(folder).claim("reproduce", {"study": "continual", "preset": "smoke"}, "")
    one_part("smoke", DIGITS, "ctn+itd", 0, folder)

    def interrupted(part: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "_perform", interrupted)
    assert recording(path, folder) == 130
    told = capsys.readouterr().err.replace("\n", "")
    assert f"continue with: bome reproduce continual --preset smoke --out {folder} --record {path}" in told
    assert [json.loads(line)["place"] for line in path.read_text().splitlines()] == [f"{DIGITS}/ctn+itd-seed0"]


def test_a_record_loses_nothing_to_a_folder_with_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL,)})
    first, second, path = tmp_path / "first", tmp_path / "second", tmp_path / "runs.jsonl"
    spec, other, done = Spec(DIGITS, "ctn+itd", 0), Spec(DIGITS, "er", 0), Spec(DIGITS, "mer", 0)
    for each_one in (spec, other, done):
        learn(each_one, place(first, each_one))
    record.keep(first, path)
    path.write_text(path.read_text() + "\n")
    before = path.read_text()
    Folder(place(second, spec)).claim("continual", spec.to_dict(), "")  # begun, and killed
    changed = replace(other, values={"theta_lr": 0.5}).to_dict()
    Folder(place(second, other)).claim("continual", changed, "")  # begun with other settings
    learn(replace(done, values={"theta_lr": 0.5}), place(second, done))  # ended with other settings
    record.keep(second, path)
    assert path.read_text() == before.rstrip("\n") + "\n"
    assert record.take_over(path, second) == (1, 0, 2)
    assert ended(spec, place(second, spec)) == ended(spec, place(first, spec))
    assert ended(other, place(second, other)) is None


def test_a_run_with_other_settings_is_not_reported(tmp_path: Path) -> None:
    spec = Spec(DIGITS, "er", 0)
    summary = learn(spec, tmp_path)
    assert ended(spec, tmp_path) == summary
    assert ended(replace(spec, values={"theta_lr": 0.5}), tmp_path) is None
    assert ended(replace(spec, seed=1), tmp_path) is None


def test_only_this_experiment_has_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert execute(["reproduce", "toys", "--record", str(tmp_path / "x"), "--out", str(tmp_path / "new")]) == 2
    assert "--record is for continual only" in capsys.readouterr().err
    assert execute(["report", str(tmp_path), "--docs", str(tmp_path)]) == 2
    assert "--docs is for studies" in capsys.readouterr().err


def test_one_part_can_be_carried_out_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "PROTOCOLS", {"smoke": (SMALL,)})
    summary = one_part("smoke", DIGITS, "ctn+itd", 0, tmp_path)
    assert ended(Spec(DIGITS, "ctn+itd", 0), place(tmp_path, Spec(DIGITS, "ctn+itd", 0))) == summary
    with pytest.raises(ProblemError, match="has no 'gem'"):
        one_part("smoke", DIGITS, "gem", 0, tmp_path)
    with pytest.raises(ProblemError, match="no task"):
        one_part("smoke", "continual-pmnist", "er", 0, tmp_path)


def summary_of(acc: float, nbt: float = 4.0) -> Summary:
    numbers: dict[str, float | None] = {"acc": acc, "nbt": nbt, "ft": acc + nbt, "fm": nbt + 1}
    return Summary("finished", "", 1, {}, 3.0, [1.0, 2.0], {}, numbers, [[acc + nbt, None], [acc, acc]])


DIVERGED = Summary("diverged", "NaN", 1, {}, 0.0, [], {}, {}, [])


def results(bome: list[float], itd: list[float], offline: float = 85.0) -> Results:
    def entry(name: str, values: list[float]) -> Entry:
        return Entry(name, "selected" if name == "offline" else "published", {}, Runs([summary_of(a) for a in values]))

    entries = (entry("offline", [offline] * len(bome)), entry("ctn+itd", itd), entry("ctn+bome", bome))
    return Results("continual-pmnist", entries)


def verdicts(found: Results) -> dict[str, bool | None]:
    return {claim.text: claim.holds for claim in claims(found)}


def test_claims_are_decided_by_the_numbers() -> None:
    good = verdicts(results([81.0, 80.6], [78.6, 78.4]))
    assert good["ACC of the network with BOME"] is True
    assert good["NBT of the network with BOME"] is True
    assert good["BOME in place of the published optimiser improves ACC by 1.5 points"] is True
    assert good["Learning all tasks at once is an upper bound"] is True
    assert good["ctn+itd: ACC within 2 points of the paper"] is True
    bad = verdicts(results([80.0, 79.0], [78.6, 78.4], offline=77.0))
    assert bad["ACC of the network with BOME"] is False
    assert bad["BOME in place of the published optimiser improves ACC by 1.5 points"] is False
    assert bad["Learning all tasks at once is an upper bound"] is False
    assert verdicts(results([81.0, 81.0], [75.0, 75.0]))["ctn+itd: ACC within 2 points of the paper"] is False


def test_one_seed_decides_nothing() -> None:
    single = verdicts(results([81.0], [75.0]))
    assert single["ctn+itd: ACC within 2 points of the paper"] is None
    assert single["Learning all tasks at once is an upper bound"] is None
    assert single["BOME in place of the published optimiser improves ACC by 1.5 points"] is None


def test_a_row_near_to_the_papers_has_its_settings_as_a_title_and_makes_no_claim() -> None:
    found = results([81.0, 80.6], [78.6, 78.4])
    chosen = Entry("ctn+penalty", "selected", {"lam": 1.0}, Runs([summary_of(81.0)] * 2), (80.0, 81.0))
    near = Entry("ctn+penalty", "nearer", {"lam": 0.01}, Runs([summary_of(66.0)]))
    decided = verdicts(replace(found, entries=(*found.entries, chosen, near)))
    assert decided["ctn+penalty, tuned: ACC within 2 points of the paper"] is False
    assert near.title == "ctn+penalty, lam = 0.01"
    assert not [text for text in decided if text.startswith(near.title)]
    assert near.title in " ".join(notes(replace(found, entries=(near,))))


def test_what_is_about_missing_runs_is_not_decided() -> None:
    found = results([81.0, 80.6], [78.6, 78.4])
    offline, itd, bome = found.entries
    partly = verdicts(
        replace(
            found, entries=(offline, replace(itd, seeds=5), bome), missing=(Missing("published", "ctn+itd: 2 of 5"),)
        )
    )
    assert partly["BOME in place of the published optimiser improves ACC by 1.5 points"] is None
    assert partly["ctn+itd: ACC within 2 points of the paper"] is None
    assert partly["ACC of the network with BOME"] is True
    assert partly["ctn+bome: ACC within 2 points of the paper"] is True
    partly = verdicts(replace(found, entries=(offline, itd, replace(bome, seeds=5))))
    assert partly["ACC of the network with BOME"] is None
    assert partly["NBT of the network with BOME"] is None


def test_comparisons_are_made_on_common_seeds_and_say_so() -> None:
    found = results([81.0, 80.0, 60.0], [78.0, 79.0])
    claim = next(c for c in claims(found) if "by 1.5 points" in c.text)
    assert claim.found == "ctn+bome less ctn+itd: 2.00 ± 1.00 points on 2 common seeds"


def test_tuned_bome_is_compared_with_the_best_of_the_others() -> None:
    """Runs that are missing leave that open only if they are tuned."""
    found = results([81.0], [78.0])
    tuned = [
        Entry(name, "selected", {}, Runs([summary_of(acc), summary_of(acc + 1)]), (1.0,) * tried)
        for name, acc, tried in (("offline", 90.0, 1), ("er", 70.0, 1), ("mer", 82.0, 3), ("ctn+bome", 81.5, 2))
    ]
    text = "With settings chosen on the tuning tasks BOME is ahead of all others"
    told = "ctn+bome, tuned less mer, tuned: -0.50 ± 0.00 points on 2 common seeds; chosen from 2 and 3 settings"
    for missing, holds in (((), False), (("ablation",), False), (("selected",), None)):
        short = tuple(Missing(variant, "") for variant in missing)
        every = replace(found, entries=(*found.entries, *tuned), missing=short)
        claim = next(c for c in claims(every) if c.text == text)
        assert (claim.found, claim.holds) == (told, holds)


def test_tuned_bome_is_not_said_to_be_ahead_of_what_lies_at_an_end_of_its_grid() -> None:
    grid = ({"theta_lr": 0.1}, {"theta_lr": 0.2}, {"theta_lr": 0.3})
    runs = [Runs([summary_of(acc), summary_of(acc + 1)]) for acc in (82.0, 81.0)]
    bome = Entry("ctn+bome", "selected", {}, runs[0], (1.0, 2.0))
    text = "With settings chosen on the tuning tasks BOME is ahead of all others"
    for values, holds in (({"theta_lr": 0.3}, None), ({"theta_lr": 0.2}, True)):
        other = Entry("mer", "selected", values, runs[1], (1.0,) * 3, grid)
        found = results([81.0], [78.0])
        claim = next(c for c in claims(replace(found, entries=(*found.entries, other, bome))) if c.text == text)
        assert (claim.holds, claim.found.endswith("mer lies at an end of its grid")) == (holds, holds is None)


def test_settings_that_are_texts_stand_among_the_rows() -> None:
    entry = Entry("ctn+bome", "selected", {"eta": 2.0, "replay_from": "seen"}, Runs([summary_of(80.0)]))
    rows = {row.metric: row.mean for row in rows_of(Results(DIGITS, (entry,)), "smoke", "")}
    assert (rows["eta"], rows["replay_from=seen"]) == (2.0, 1.0)


def test_settings_at_an_end_of_their_grid_are_named() -> None:
    """A setting that some of the grid do not name has its usual value there."""
    grid: tuple[dict[str, Any], ...] = tuple({"eta": eta, "phi": "norm"} for eta in (1.0, 2.0, 4.0))
    grid += ({"eta": 2.0, "updates": 5},)
    usual = {"eta": 2.0, "updates": 2, "phi": "norm", "memory": 50}
    entry = Entry("ctn+bome", "selected", {"eta": 4.0, "phi": "norm"}, Runs([]), (1.0, 2.0), grid, usual=usual)
    assert entry.at_an_end == ["eta", "updates"]
    assert replace(entry, values={"eta": 2.0, "updates": 5}).at_an_end == ["updates"]
    assert replace(entry, grid=grid[:3], values={"eta": 2.0, "phi": "norm"}).at_an_end == []


def test_a_small_advantage_is_not_called_one() -> None:
    """0.3 ± 0.2 is open, 0.6 ± 0.1 an advantage, and −0.6 ± 0.1 none."""
    cifar = [replace(results([68.1 + a, 67.9 + b], [68.0, 68.0]), task="continual-cifar") for a, b in
             ((0.4, 0.2), (0.6, 0.6), (-0.6, -0.6))]  # fmt: skip
    text = "BOME in place of the published optimiser improves ACC"
    assert [verdicts(found)[text] for found in cifar] == [None, True, False]


def test_settings_near_to_the_papers_rows_are_tried_on_the_stream_they_were_found_on() -> None:
    pmnist, cifar = PROTOCOLS["paper"]
    assert {c.strategy for c in pmnist.candidates if c.variant == "nearer"} == {"mer", "ctn+bvfsm", "ctn+penalty"}
    assert not [c for c in (*cifar.candidates, *PROTOCOLS["quick"][0].candidates) if c.variant == "nearer"]
    assert pmnist.candidate("ctn+penalty").variant == "selected"


def test_both_replays_are_compared_and_what_is_beyond_the_paper_is_not_chosen_by_test_images() -> None:
    found = results([81.0, 80.6], [80.0, 79.6])
    seen = [
        Entry(e.strategy, "seen", {"replay_from": "seen"}, e.runs)
        for e in results([82.0, 82.0], [80.0, 80.2]).entries[1:]
    ]
    tuned = Entry("ctn+bome", "selected", {"eta": 4.0}, Runs([summary_of(81.4)]), (80.0, 81.0))
    decided = verdicts(replace(found, entries=(*found.entries, *seen, tuned)))
    assert decided["BOME in place of the published optimiser improves ACC by 1.5 points"] is False
    assert decided[
        "BOME in place of the published optimiser improves ACC by 1.5 points, with replays of the current task too"
    ]
    assert decided["With settings chosen on the tuning tasks BOME goes beyond the paper's ACC"] is False
    assert "ctn+bome, tuned: ACC within 2 points of the paper" not in decided


def test_a_strategy_that_is_only_tuned_stands_beside_the_paper() -> None:
    entry = Entry("offline", "selected", {"theta_lr": 0.1}, Runs([summary_of(85.0)]), (1.0, 2.0))
    usual = Entry("offline", "published", {}, Runs([summary_of(84.0)]))
    assert Results("continual-pmnist", (entry,)).is_of_paper(entry)
    assert not Results("continual-pmnist", (usual, entry)).is_of_paper(entry)


def test_other_settings_stand_beside_the_usual_ones_on_the_same_seeds() -> None:
    other = Entry("ctn+bome", "η = 1", {}, Runs([summary_of(79.0), summary_of(79.0)]))
    found = replace(results([81.0, 81.0, 60.0], [78.0, 78.0, 50.0]), ablations=(other,))
    rows = [(row[0], row[1], row[-1]) for row in varied(found).rows]
    assert rows == [
        ("ctn+itd", "78.00 ± 0.00", "2"),
        ("ctn+bome", "81.00 ± 0.00", "2"),
        ("η = 1", "79.00 ± 0.00", "2"),
    ]


def test_a_diverged_run_counts_as_unknown_not_as_missing() -> None:
    found = results([81.0, 80.6], [78.6, 78.4])
    lost = replace(found.entries[1], runs=Runs([summary_of(78.0), DIVERGED]))
    spoiled = replace(found, entries=(found.entries[0], lost, found.entries[2]))
    decided: list[Claim] = list(claims(spoiled))
    assert next(c for c in decided if c.text.startswith("ctn+itd")).holds is None
    assert lost.runs.failures() == [(1, "NaN")]
    assert not [row for row in rows_of(spoiled, "paper", "") if row.method == "ctn+itd" and row.metric == "acc"]
    assert list(sections(spoiled))


def test_the_tables_of_the_paper_add_up() -> None:
    """FT = ACC + NBT in every row of the main table, and FM is the larger of the two."""
    for rows in PAPER.values():
        for row in rows.values():
            if "nbt" in row:
                assert row["acc"] + row["nbt"] == pytest.approx(row["ft"], abs=0.011)
                assert row["fm"] > row["nbt"]


def test_the_constant_multiplier_of_the_claim_is_among_the_ablations() -> None:
    assert ABLATIONS[CONSTANT] == ("ctn+pbgd", {"gamma": 2.0})


def test_settings_are_chosen_again_if_the_grid_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    candidate = SMALL.candidates[0]
    assert choose(SMALL, candidate, tmp_path, silent, 1).values == {"theta_lr": 0.3}
    more = replace(candidate, grid=(*candidate.grid, {"theta_lr": 0.1}))
    assert collected(replace(SMALL, candidates=(more,)), tmp_path).missing[0].told == "offline (selected): 0 of 1"
    assert len(choose(SMALL, more, tmp_path, silent, 1).tried) == 3
    monkeypatch.setattr("bome.continual.run._Run", None)
    assert choose(SMALL, candidate, tmp_path, silent, 1).values == {"theta_lr": 0.3}


def test_settings_are_chosen_by_the_mean_over_the_tuning_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first has the best single seed, the second the best mean, and the third diverges once."""
    accuracies = {0.1: (90.0, 50.0, 50.0), 0.2: (80.0, 79.0, 78.0), 0.3: (99.0, 99.0, None)}

    def ended(spec: Spec, folder: Path) -> Summary:
        acc = accuracies[spec.values["theta_lr"]][spec.seed]
        return DIVERGED if acc is None else summary_of(acc)

    monkeypatch.setattr(study, "ended", ended)
    monkeypatch.setattr(study, "learn", lambda spec, folder: None)
    candidate = Candidate("offline", 1, "selected", tuple({"theta_lr": rate} for rate in accuracies))
    found = choose(replace(SMALL, tuning_seeds=3), candidate, tmp_path, silent, 1)
    assert found.values == {"theta_lr": 0.2}
    assert found.tried[:2] == pytest.approx((190 / 3, 79.0))
    assert found.tried[2] is None
    entry = Entry("offline", "selected", found.values, Runs([summary_of(80.0)]), found.tried)
    told = "79.0; the lowest of 3 is 63.3; 1 diverged."
    assert next(notes(Results(DIGITS, (entry,)))).endswith(told)


@pytest.mark.slow
def test_the_smoke_preset_runs(tmp_path: Path) -> None:
    results = carry_out(PROTOCOLS["smoke"][0], tmp_path, silent, 1)
    assert {entry.strategy for entry in results.entries} == set(NAMES) - {
        "ctn+pbgd",
        "ctn+bome:auto",
    }  # these are in the ablation only
