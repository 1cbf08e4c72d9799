"""Jobs: what a grid has, what names them, and how their outcomes are stored."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bome.errors import ProblemError
from bome.runs.jobs import Job, Outcomes, grid
from bome.runs.schedule import run_jobs
from tests.support.sweeps import comparable


def test_a_grid_has_every_combination_with_every_seed_once() -> None:
    made = grid("lls", "bome", {"steps": 3}, {"eta": [0.1, 0.5], "inner_steps": [1, 2, 3]}, 2)
    assert len(made) == len(set(made)) == len({job.key for job in made}) == 12
    assert {(dict(job.values)["eta"], dict(job.values)["inner_steps"], job.seed) for job in made} == {
        (eta, t, seed) for eta in (0.1, 0.5) for t in (1, 2, 3) for seed in (0, 1)
    }
    assert all(dict(job.values)["steps"] == 3 for job in made)


def test_the_name_of_a_job_depends_on_everything_that_decides_its_result() -> None:
    job = Job("lls", "bome", (("eta", 0.5),), 0)
    others = [
        replace(job, task="sine"), replace(job, method="pbgd"), replace(job, values=(("eta", 0.25),)),
        replace(job, seed=1), replace(job, log_every=5), replace(job, resolve=True),
    ]  # fmt: skip
    assert len({each.key for each in (job, *others)}) == 7
    assert job.key == Job("lls", "bome", (("eta", 0.5),), 0).key


@pytest.mark.parametrize("seeds", [0, -1, 1.5])
def test_a_grid_without_seeds_is_refused(seeds: Any) -> None:
    with pytest.raises(ProblemError, match="seeds must be a whole number of at least 1"):
        grid("lls", "bome", {}, {}, seeds)


def test_a_setting_that_is_swept_cannot_be_fixed_too() -> None:
    with pytest.raises(ProblemError, match="eta is given both as a setting and in the grid"):
        grid("lls", "bome", {"eta": 0.5}, {"eta": [0.1]}, 1)


def test_a_damaged_outcome_is_made_again(tmp_path: Path) -> None:
    jobs = grid("lls", "bome", {"steps": 3}, {"eta": [0.1, 0.5]}, 1)
    first = run_jobs(jobs, tmp_path)
    for content in ("", "{", "[]", '{"status": "finished"}', "null"):
        path = tmp_path / "done" / f"{jobs[0].key}.json"
        path.write_text(content)
        assert Outcomes(tmp_path).read(jobs[0]) is None
        assert repr(comparable(run_jobs(jobs, tmp_path)[jobs[0]])) == repr(comparable(first[jobs[0]]))
