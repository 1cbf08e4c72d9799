"""The figures of the mixing study."""

import numpy as np

from bome_studies.mixing import figures
from tests.support.mixed import results


def test_every_seed_has_a_dot_beside_the_mean() -> None:
    (axes,) = figures.losses(results()).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["bome", "f2sa", "equal weights"]
    assert [np.size(line.get_xdata()) for line in axes.lines] == [2, 2, 2]


def test_the_sources_are_sorted_by_their_weight_and_marked() -> None:
    (axes,) = figures.ends(results()).axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["space (as the target)", "medicine", "junk (shuffled letters)"]


def test_the_path_of_the_weights_is_that_of_the_first_seed() -> None:
    (axes,) = figures.path(results(), "bome").axes
    assert axes.lines
