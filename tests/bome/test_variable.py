"""Variables: the forms in which they are given, the names of their tensors, and what they may not be."""

from typing import Any

import pytest
import torch
from torch import nn

from bome.errors import ProblemError
from bome.projections import box
from bome.variable import Variable


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (torch.ones(2), ("v",)),
        ([torch.ones(2), (torch.ones(1),)], ("v[0]", "v[1][0]")),
        ({"a": torch.ones(2), "b": [torch.ones(1)]}, ("v['a']", "v['b'][0]")),
        (nn.Linear(2, 1), ("v['weight']", "v['bias']")),
    ],
)
def test_every_tensor_has_a_name(value: Any, names: tuple[str, ...]) -> None:
    assert Variable("v", value).names == names


def test_losses_see_other_tensors_in_the_form_of_the_users() -> None:
    variable = Variable("v", {"a": torch.ones(2), "b": [torch.ones(1), torch.ones(3)]})
    seen = variable.seen(tuple(2 * x for x in variable.leaves))
    assert {key: type(item) for key, item in seen.items()} == {"a": torch.Tensor, "b": list}
    torch.testing.assert_close(seen["b"][1], torch.full((3,), 2.0))


def test_a_dict_of_projections_goes_by_name_and_the_rest_is_free() -> None:
    rule = box(0, 1)
    assert Variable("v", {"a": torch.ones(2), "b": torch.ones(1)}).rules({"b": rule}).each == (None, rule)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (3.0, "theta must be a tensor, a list or dict of tensors, or an nn.Module, got float"),
        (torch.ones(2, dtype=torch.long), "theta has dtype torch.int64"),
        (torch.ones(0), "theta is empty"),
        ([torch.ones(1), torch.tensor([torch.nan])], r"theta\[1\] starts with NaN or infinity"),
        (torch.ones(1).expand(3), "theta is expanded"),
        ([], "theta has no tensor to optimise"),
    ],
)
def test_what_cannot_be_a_variable_is_named(value: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Variable("theta", value)
