"""The figures, and the landmarks they repeat from the tasks."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bome.reports import figures, tables
from bome.reports.runs import Group, Run
from bome.reports.scenes import SCENES, scene_of
from bome.tasks import TASKS


def make_run(rows: list[dict[str, Any]], task: str = "other", start: str = "a", name: str = "x") -> Run:
    settings = {"variant": "code", "start": start}
    return Run(name, task, "", "bome", settings, (), "", rows, {})


@pytest.mark.parametrize(("name", "variant"), sorted(SCENES))
def test_the_landmarks_are_those_of_the_task(name: str, variant: str) -> None:
    task, scene = TASKS[name](variant=variant), SCENES[name, variant]
    point = task.problem.point
    columns = {f"{role}_{i}" for role in ("v", "theta") for i in range(sum(x.numel() for x in getattr(point, role)))}
    assert {scene.across, scene.up} <= columns
    places = {(scene.across, scene.up)[i]: (scene.optimum or (math.nan,) * 2)[i] for i in range(2)}
    assert task.optimum is not None
    if scene.across == "theta_0":
        v = torch.ones_like(point.v[0])
        theta = torch.tensor([places["theta_0"], places["theta_1"]], dtype=v.dtype)
    else:
        v = torch.full_like(point.v[0], places["v_0"])
        theta = torch.full_like(point.theta[0], places["theta_0"])
    assert task.optimum.distance(point._replace(v=(v,), theta=(theta,))) < 1e-9


@pytest.mark.parametrize("variant", ["code", "paper"])
def test_the_points_of_the_coreset_are_those_of_the_task(variant: str) -> None:
    task, scene = TASKS["coreset"](variant=variant), SCENES["coreset", variant]
    assert task.solve_inner is not None
    for i, place in enumerate(scene.hull):
        v = torch.zeros(4, dtype=torch.float64)
        v[i] = 1e4  # all weight on one point
        assert task.solve_inner((v,), task.problem.point.theta)[0].tolist() == list(place)
    assert scene.target is not None
    target = torch.tensor(scene.target, dtype=torch.float64)
    assert float(task.problem.outer(v, target, None)) == 0


def test_the_valleys_of_the_sine_are_inner_solutions() -> None:
    task = TASKS["sine"]()
    assert task.solve_inner is not None
    for (v, theta), _ in SCENES["sine", "code"].valleys:
        place = torch.tensor(v, dtype=torch.float64), torch.full((2,), theta, dtype=torch.float64)
        assert torch.allclose(task.solve_inner((place[0],), (place[1],))[0], place[1])


def test_two_entries_of_theta_are_drawn_for_any_task() -> None:
    assert scene_of("other", "", {"theta_0", "theta_1"}) is not None
    assert scene_of("other", "", {"theta_0", "theta_1", "theta_2"}) is None
    assert scene_of("other", "", {"f"}) is None


def test_only_what_was_logged_is_drawn() -> None:
    group = Group((make_run([{"step": 0, "f": 1.0}, {"step": 1, "f": 0.5}]),))
    assert [drawing.name for drawing in figures.draw(group)] == ["outer_loss"]
    assert figures.draw(Group((make_run([]),))) == []


def test_equal_runs_give_equal_pictures() -> None:
    group = Group((make_run([{"step": 0, "q": 1.0}, {"step": 1, "q": 0.1}]),))
    assert figures.draw(group) == figures.draw(group)


def test_a_gap_of_zero_does_not_stop_the_logarithm() -> None:
    for values in ([0.0, 0.0], [0.0, 1e-3], [-1e-9, 1.0]):
        rows = [{"step": i, "q": value} for i, value in enumerate(values)]
        assert len(figures.draw(Group((make_run(rows),)))) == 1


def test_runs_are_told_apart_by_start_or_by_name() -> None:
    a, b = make_run([], start="a", name="one"), make_run([], start="b", name="two")
    assert Group((a, b)).labels() == ["from start a", "from start b"]
    assert Group((a, a)).labels() == ["one", "one"]


def test_long_curves_are_thinned_but_keep_their_end() -> None:
    x, y = figures._thin(range(12_345), [1.0] * 12_345)
    assert len(x) <= 1100
    assert x[-1] == 12_344
    assert len(x) == len(y)


def test_the_hull_is_convex() -> None:
    assert figures.convex([(0, 0), (2, 0), (1, 0.5), (2, 2), (0, 2)]) == [(0, 0), (2, 0), (2, 2), (0, 2)]


def test_the_package_has_its_template() -> None:
    assert (Path(figures.__file__).parent / "page.html").exists()


def test_a_run_on_a_stream_of_tasks_shows_its_matrix_and_its_metrics_and_no_empty_rows() -> None:
    summary = {"status": "finished", "f": None, "matrix": [[60.0, None], [50.0, 70.0]], "observed": {"acc": 60.0}}
    run = replace(make_run([{"step": 0, "test_accuracy": 60.0}, {"step": 1, "test_accuracy": 60.0}]), summary=summary)
    assert [drawing.name for drawing in figures.draw(Group((run,)))] == ["accuracy_matrix"]
    figure = figures.accuracy_matrix(Group((run,)))
    assert figure is not None
    (image,) = figure.axes[0].images
    assert np.ma.filled(np.ma.asarray(image.get_array()), -1).tolist() == [[60.0, -1.0], [50.0, 70.0]]
    assert ("ACC", "60") in tables.results(run)
    assert not [value for _, value in tables.results(run) if value == "–"]


def test_the_accuracy_of_a_run_is_drawn_over_its_steps() -> None:
    run = make_run([{"step": 0, "test_accuracy": 60.0}, {"step": 5, "test_accuracy": 80.0}])
    figure = figures.accuracy(Group((run,)))
    assert figure is not None
    (line,) = figure.axes[0].lines
    assert np.asarray(line.get_xydata()).tolist() == [[0.0, 60.0], [5.0, 80.0]]
