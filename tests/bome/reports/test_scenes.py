"""The landmarks that figures repeat from the tasks are those of the tasks."""

import math

import pytest
import torch

from bome.reports.scenes import SCENES, scene_of
from bome.tasks import TASKS


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
