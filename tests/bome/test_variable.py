"""Variables: the forms in which they are given, the names of their tensors, and what they may not be."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm
from torch.nn.utils.prune import l1_unstructured

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


def _net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))


class _Adapter(nn.Module):
    """As LoRA puts it in the place of a layer."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.low = nn.Parameter(torch.zeros(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.layer(x) + x @ self.low.T
        return out


def _pruned(layer: nn.Module) -> None:
    l1_unstructured(layer, "weight", 0.5)  # type: ignore[no-untyped-call]


CHANGES: dict[str, tuple[Callable[[nn.Sequential], object], str]] = {
    "pruning": (lambda net: _pruned(net[0]), "'0.weight'] was replaced, removed or frozen"),
    "LoRA": (lambda net: net.__setitem__(0, _Adapter(net[0])), "'0.weight'] was replaced, removed or frozen"),
    "weight norm": (lambda net: weight_norm(net[2]), "'2.weight'] was replaced, removed or frozen"),
    "a new tensor": (
        lambda net: setattr(net[0], "bias", nn.Parameter(torch.ones(3))),
        "'0.bias'] was replaced, removed or frozen",
    ),
    "a new layer": (lambda net: net.append(nn.Linear(1, 1)), "'3.weight'] was added or set free"),
    "freezing": (lambda net: net[2].requires_grad_(False), "'2.weight'] was replaced, removed or frozen"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_model_that_was_changed_after_the_problem_was_made_is_refused(name: str) -> None:
    change, message = CHANGES[name]
    net = _net()
    variable = Variable("theta", net)
    variable.check_unchanged()
    change(net)
    with pytest.raises(ProblemError, match=re.escape("theta[" + message)) as error:
        variable.check_unchanged()
    assert "make the Problem and its optimisers" in str(error.value)
    assert "\n" not in str(error.value)


def test_changes_that_leave_the_parameters_alone_are_welcome() -> None:
    net = _net()
    variable = Variable("theta", net)
    net[1] = nn.ReLU()
    net.double()
    net.eval()
    variable.check_unchanged()


def test_another_tensor_in_a_list_is_refused_and_new_values_are_not() -> None:
    given = [torch.zeros(2), torch.zeros(1)]
    variable = Variable("v", given)
    given[1].fill_(3.0)
    variable.check_unchanged()
    given[1] = torch.ones(1)
    with pytest.raises(
        ProblemError, match=re.escape("v[1] was replaced, removed or frozen after the Problem was made")
    ):
        variable.check_unchanged()
