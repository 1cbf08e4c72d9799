"""Products in float64, whatever the dtype and however large the tensors."""

import math

import pytest
import torch
from torch import Tensor

from bome.core import trees
from bome.core.trees import add, axpy, clone, dot, scale, sub, zeros_like
from tests.support.samples import Ledger

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def _leaves(dtype: torch.dtype, seed: int = 0) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in ((3, 4), (), (5,)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dot_is_the_exact_sum_of_the_products_to_float64_precision(dtype: torch.dtype) -> None:
    a, b = _leaves(dtype, 0), _leaves(dtype, 1)
    products = [p * q for x, y in zip(a, b, strict=True) for p, q in zip(_numbers(x), _numbers(y), strict=True)]
    found = dot(a, b)
    assert found.dtype == torch.float64
    assert found.dim() == 0
    assert abs(float(found) - math.fsum(products)) <= 1e-15 * math.fsum(map(abs, products))


def _numbers(x: Tensor) -> list[float]:
    return [float(entry) for entry in x.reshape(-1)]


def test_dot_neither_overflows_nor_vanishes_where_squares_in_the_dtype_do() -> None:
    """1e30² = 1e60 is no float32, and 1e-5² = 1e-10 no float16."""
    large, small = torch.full((4,), 1e30), torch.full((4,), 1e-5, dtype=torch.float16)
    assert float(dot((large,), (large,))) == pytest.approx(4e60, rel=1e-6)
    assert float(dot((small,), (small,))) == pytest.approx(4 * float(small[0]) ** 2, rel=1e-15)
    assert not torch.isfinite(torch.dot(large, large))
    assert float(torch.dot(small, small)) == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_blocks_change_nothing_but_the_order_of_summation(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = _leaves(dtype, 0), _leaves(dtype, 1)
    whole_dot, whole_sum, whole_scale = dot(a, b), axpy(torch.tensor(0.3, dtype=torch.float64), a, b), scale(0.3, a)
    monkeypatch.setattr(trees, "BLOCK", 4)
    torch.testing.assert_close(dot(a, b), whole_dot, rtol=1e-14, atol=1e-14)
    for x, y in zip(axpy(torch.tensor(0.3, dtype=torch.float64), a, b), whole_sum, strict=True):
        assert torch.equal(x, y)
        assert x.dtype == dtype
    assert all(torch.equal(x, y) for x, y in zip(scale(0.3, a), whole_scale, strict=True))


def test_no_float64_copy_of_a_whole_variable_ever_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 10,000 float32 entries in blocks of 1,000: the result has 40,000 bytes, a block in float64 8,000."""
    monkeypatch.setattr(trees, "BLOCK", 1000)
    x, y = (torch.randn(100, 100),), (torch.randn(100, 100),)
    with Ledger() as ledger:
        dot(x, y)
    assert ledger.peak <= 3 * 8000
    with Ledger() as ledger:
        axpy(torch.tensor(2.0, dtype=torch.float64), x, y)
    assert ledger.largest == 40000
    assert ledger.peak <= 40000 + 5 * 8000


def test_axpy_forms_a_huge_times_a_tiny_number_before_it_rounds() -> None:
    """1e60 · 1e-30 = 1e30 is a float32, 1e60 is not."""
    x, y = (torch.full((3,), 1e-30),), (torch.full((3,), -1e30),)
    (result,) = axpy(torch.tensor(1e60, dtype=torch.float64), x, y)
    assert result.dtype == torch.float32
    assert torch.isfinite(result).all()
    assert float(result.abs().max()) <= 1e30 * 1e-6


def test_sums_of_a_million_float32_entries_do_not_depend_on_the_number_of_threads() -> None:
    """Two orders of 10⁶ additions in float64 differ by less than √10⁶ · 1e-16 = 1e-13; in float32 by 1e-6."""
    x = (torch.randn(1_000_000, generator=torch.Generator().manual_seed(0)),)
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(float(dot(x, x)))
    assert found[0] == pytest.approx(found[1], rel=1e-13)


def test_non_contiguous_tensors_count_entry_by_entry() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert float(dot((x.T,), (x.T,))) == float(dot((x,), (x,))) == 55
    assert float(dot((x.T,), (torch.ones(3, 2),))) == 15


def test_the_other_operations_are_entrywise_and_leave_their_arguments() -> None:
    a, b = _leaves(torch.float64, 0), _leaves(torch.float64, 1)
    before = clone(a)
    assert all(torch.equal(z, x - y) for x, y, z in zip(a, b, sub(a, b), strict=True))
    assert all(torch.equal(z, x + y) for x, y, z in zip(a, b, add(a, b), strict=True))
    assert all(torch.equal(z, 2 * x) for x, z in zip(a, scale(2.0, a), strict=True))
    assert all(not x.any() and x.shape == y.shape for x, y in zip(zeros_like(a), a, strict=True))
    assert all(torch.equal(x, y) and x is not y for x, y in zip(a, before, strict=True))


def test_tuples_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        dot((torch.ones(1),), ())


def test_the_product_of_no_tensors_is_zero() -> None:
    assert float(dot((), ())) == 0
