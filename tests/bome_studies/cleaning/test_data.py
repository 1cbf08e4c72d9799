"""The data of the cleaning study: kinds of noise, and cells."""

import numpy as np
import pytest
from scipy import sparse

from bome.errors import ProblemError
from bome_studies.cleaning import methods as methods
from bome_studies.cleaning import trials as trials
from bome_studies.cleaning.data import KINDS, Cell, Kind, draw, noisy

CELL = Cell("digits", 64, 300, "uniform", 0.5, 100)


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.9])
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_noise_has_its_share_of_wrong_labels(kind: Kind, rate: float) -> None:
    """Uniform draws among 10 classes stay right with probability 1/10; other kinds are wrong wherever they act."""
    random = np.random.default_rng(0)
    x, labels = random.standard_normal((20_000, 12)), random.integers(0, 10, 20_000)
    given = noisy(x, labels, 10, kind, rate, random)
    expected = rate * (0.9 if kind in ("uniform", "per-class") else 1.0)
    assert np.mean(given != labels) == pytest.approx(expected, abs=0.02)
    assert set(given) == set(range(10))


def test_pairs_lead_to_the_next_class_only() -> None:
    labels = np.arange(1000) % 4
    given = noisy(np.ones((1000, 1)), labels, 4, "pairs", 0.5, np.random.default_rng(0))
    assert set((given - labels) % 4) == {0, 1}


def test_per_class_noise_differs_between_classes_and_uniform_noise_does_not() -> None:
    random = np.random.default_rng(0)
    labels = np.arange(40_000) % 4

    def spread(kind: Kind) -> float:
        given = noisy(np.ones((40_000, 1)), labels, 4, kind, 0.5, random)
        rates = [float(np.mean(given[labels == own] != own)) for own in range(4)]
        return max(rates) - min(rates)

    assert spread("per-class") > 0.5  # 0.9 · 0.75 wide
    assert spread("uniform") < 0.05


def test_instance_noise_depends_on_the_features_also_of_sparse_rows() -> None:
    random = np.random.default_rng(0)
    x = np.repeat(random.standard_normal((2, 30)), 2000, axis=0)
    labels = np.zeros(4000, dtype=int)
    given = noisy(sparse.csr_matrix(x), labels, 5, "instance", 0.6, random)
    shares = [np.bincount(half[half > 0], minlength=5)[1:] / (half > 0).sum() for half in (given[:2000], given[2000:])]
    assert np.abs(shares[0] - shares[1]).max() > 0.2  # equal rows of one class, other rows of the same class


def test_a_cell_is_drawn_alike_each_time_and_its_parts_are_apart() -> None:
    first = draw(CELL, 3)
    draw.cache_clear()
    again, other = draw(CELL, 3), draw(CELL, 4)
    assert np.array_equal(first.rows.x, again.rows.x)
    assert np.array_equal(first.rows.labels, again.rows.labels)
    assert not np.array_equal(first.rows.x, other.rows.x)
    assert first.rows.x.shape == (300, 64)
    assert set(first.rows.trusted_labels) == set(range(10))
    both = {row.tobytes() for row in first.rows.x} & {row.tobytes() for row in first.rows.trusted_x}
    assert not both
    assert not {row.tobytes() for row in first.test_x} & {row.tobytes() for row in first.rows.x}


def test_cells_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ProblemError, match="fewer than the"):
        draw(Cell("digits", 64, 1_400, "uniform", 0.5, 100), 0)
    with pytest.raises(ProblemError, match="too few for 10 classes"):
        draw(Cell("digits", 64, 100, "uniform", 0.5, 9), 0)
    with pytest.raises(ProblemError, match="evenly"):
        draw(Cell("digits", 63, 100, "uniform", 0.5, 20), 0)
