"""Distillation: ten images of each class, and models that see nothing else."""

import torch

from bome_studies.applications.problems.distillation import distillation
from bome_studies.applications.problems.pictures import pictures


def test_v_starts_as_real_images_of_each_class() -> None:
    pool = pictures("digits")
    application = distillation(pool, 0)
    (rows,) = pool.drawn(0, 5000)
    (images,) = application.problem.v.leaves
    assert images.shape == (100, 64)
    for label in range(10):
        of_class = rows.x[rows.y == label]
        assert all(bool((of_class == image).all(1).any()) for image in images[10 * label : 10 * label + 10])


def test_models_learn_from_v_alone() -> None:
    application = distillation(pictures("digits"), 0)
    start = application.judge()
    assert start == distillation(pictures("digits"), 0).judge()
    assert start.test is not None
    assert start.test > 0.5
    with torch.no_grad():
        application.problem.v.leaves[0].zero_()  # images without a picture teach nothing
    empty = application.judge()
    assert empty.test is not None
    assert empty.test < 0.2 < start.test
    assert empty.F > start.F
