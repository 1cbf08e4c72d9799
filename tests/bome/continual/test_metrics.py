"""What is measured of continual learning, against matrices made by hand."""

import numpy as np
import pytest

from bome.continual.metrics import metrics


def test_the_metrics_of_a_matrix_made_by_hand() -> None:
    """ACC = (70 + 75 + 95)/3, FT = (90 + 85 + 95)/3, FM = ((90 − 70) + (88 − 75))/2, as task 2 was best before."""
    nan = float("nan")
    found = metrics([[90.0, nan, nan], [80.0, 85.0, nan], [70.0, 75.0, 95.0]])
    assert found == pytest.approx({"acc": 80.0, "ft": 90.0, "nbt": 10.0, "fm": 15.0})
    longer = [[90.0, nan, nan, nan], [95.0, 85.0, nan, nan], [80.0, 88.0, 95.0, nan], [70.0, 80.0, 90.0, 60.0]]
    assert metrics(longer)["fm"] == pytest.approx(((95 - 70) + (88 - 80) + (95 - 90)) / 3)


def test_of_learning_all_at_once_only_the_last_accuracy_is_known() -> None:
    found = metrics([[70.0, 80.0]])
    assert found["acc"] == 75.0
    assert all(np.isnan(found[name]) for name in ("ft", "nbt", "fm"))
