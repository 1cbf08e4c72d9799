"""The figures of runs: what was logged is drawn, the same each time."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from bome.reports import figures, tables
from bome.reports.runs import Group
from tests.support.runs import make_run


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
