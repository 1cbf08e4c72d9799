"""What all tasks on data have in common."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from bome.core.trees import Pair
from bome.errors import ProblemError
from bome.runs.perform import perform
from bome.runs.plan import plan
from bome.tasks import ON_DATA, TASKS, hyperclean, regularization, splits


@pytest.fixture
def fresh_splits() -> Iterator[None]:
    splits.split_of.cache_clear()
    yield
    splits.split_of.cache_clear()


@pytest.mark.parametrize("name", ["hyperclean-digits", "regularization-digits"])
def test_no_test_sample_enters_training(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh_splits: None
) -> None:
    def end(cache: str) -> Pair:
        monkeypatch.setenv("BOME_CACHE", str(tmp_path / cache))  # so that the start is trained anew
        made = plan(name, "bome", {"steps": 3, "inner_steps": 2})
        perform(made)
        return made.task.problem.point

    monkeypatch.setattr(hyperclean, "PATIENCE", 3)
    monkeypatch.setattr(regularization, "PATIENCE", 3)
    before = end("one")
    _poison(name, monkeypatch)
    after = end("two")
    for one, other in zip(sum(before, ()), sum(after, ()), strict=True):
        assert torch.equal(one, other)
    assert plan(name, "bome", {}).task.observe is not None
    judgement = plan(name, "bome", {}).task.observe(after)  # type: ignore[misc]
    assert np.isnan(judgement["test_loss"]), "the poison was not in the test samples"


def _poison(name: str, patch: pytest.MonkeyPatch) -> None:
    """Every test sample becomes NaN."""
    if name == "hyperclean-digits":
        pool = splits.pool_of(name)
        patch.setattr(splits, "pool_of", lambda name: pool._replace(test=torch.full_like(pool.test, torch.nan)))
        splits.split_of.cache_clear()
        return
    split = regularization.split_of(name, 0)
    words = split.test.words
    nan = regularization.Sparse(*(_like(m, torch.full_like(m.values(), torch.nan)) for m in words))
    spoiled = split._replace(test=split.test._replace(words=nan))
    patch.setattr(regularization, "split_of", lambda name, seed: spoiled)


def _like(matrix: Tensor, values: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(matrix.crow_indices(), matrix.col_indices(), values, size=matrix.shape)


@pytest.mark.parametrize("name", [*ON_DATA, "hyperclean-digits", "regularization-digits"])
def test_unknown_names_are_refused_before_any_data_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (hyperclean, regularization):
        monkeypatch.setattr(module, "split_of", None)
    known = (hyperclean if name.startswith("hyper") else regularization).VARIANTS
    with pytest.raises(ProblemError, match=f"unknown variant of {name} 'zzz'; known: {', '.join(known)}"):
        TASKS[name](variant="zzz")
    with pytest.raises(ProblemError, match=f"unknown start of {name} 'zzz'; known: pretrained"):
        TASKS[name](start="zzz")


@pytest.mark.parametrize("name", ["hyperclean-digits", "regularization-digits"])
def test_a_task_has_variables_of_its_own(name: str) -> None:
    first, second = TASKS[name](), TASKS[name]()
    for one, other in zip(sum(first.problem.point, ()), sum(second.problem.point, ()), strict=True):
        assert torch.equal(one, other)
        assert one.data_ptr() != other.data_ptr()
