"""Every value comes back from JSON and tensors as it was, and others are refused."""

import json
import math
import random
import tempfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bome.errors import ProblemError
from bome.storage.checkpoint import load, save
from bome.storage.encoding import ArrayEncoder, decode, entry, tensor_file, tensor_header
from tests.support.states import DTYPES, names, raw_bytes, same, tensor_of

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
tensors = st.builds(tensor_of, st.sampled_from(DTYPES), shapes, st.integers(0, 99), st.booleans())
texts = st.text(st.characters(codec=None)) | st.sampled_from(["$tensor", "$dict", "__metadata__", ""])
keys = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts | st.binary(max_size=4)
states = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | st.binary(max_size=8) | tensors,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(texts, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(state=states, step=st.integers(0, 10**9))
def test_any_state_comes_back_as_it_was(state: Any, step: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = save(Path(folder), step, state)
        found = load(path)
    assert found.step == step
    assert found.path == path
    assert same(found.state, state)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (5,), (2, 3), (2, 3, 4)], ids=str)
def test_tensors_of_every_type_and_shape(tmp_path: Path, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    tensor = tensor_of(dtype, shape, seed=3, transposed=True)
    assert same(load(save(tmp_path, 0, tensor)).state, tensor)


def test_shared_expanded_and_strided_tensors_come_back_without_sharing(tmp_path: Path) -> None:
    base = torch.arange(12.0).reshape(3, 4)
    state = {"a": base, "again": base, "row": base[1], "every": base[:, ::2], "wide": base[:1].expand(5, 4)}
    loaded = load(save(tmp_path, 0, state)).state
    assert same(loaded, state)
    pointers = {tensor.untyped_storage().data_ptr() for tensor in loaded.values()}
    assert len(pointers) == len(state)
    loaded["a"].zero_()
    assert same(loaded["again"], base)


def test_subclasses_come_back_as_the_plain_types(tmp_path: Path) -> None:
    state = {
        "module": OrderedDict(w=torch.nn.Parameter(torch.ones(2))),
        "size": torch.Size([2, 3]),
        "number": np.float64("inf"),
    }
    loaded = load(save(tmp_path, 0, state)).state
    assert same(loaded, {"module": {"w": torch.ones(2)}, "size": (2, 3), "number": math.inf})


def test_random_number_generators_continue_equally(tmp_path: Path) -> None:
    generator, python = torch.Generator().manual_seed(5), random.Random(5)  # noqa: S311 the generator under test
    path = save(tmp_path, 0, {"torch": generator.get_state(), "python": python.getstate()})
    expected = [torch.rand(3, generator=generator).tolist(), python.random()]
    state = load(path).state
    generator.set_state(state["torch"])
    python.setstate(state["python"])
    assert [torch.rand(3, generator=generator).tolist(), python.random()] == expected


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        inputs = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
        lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.99)),
    ],
    ids=["sgd", "momentum", "adam", "adamw"],
)
def test_optimizers_continue_equally(tmp_path: Path, make: Callable[[Any], torch.optim.Optimizer]) -> None:
    def fresh() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1))
        groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.05}]
        return model, make(groups)

    model, optimizer = fresh()
    train(model, optimizer, range(5))
    path = save(tmp_path, 5, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    train(model, optimizer, range(5, 25))

    resumed, resumed_optimizer = fresh()
    state = load(path).state
    resumed.load_state_dict(state["model"])
    resumed_optimizer.load_state_dict(state["optimizer"])
    train(resumed, resumed_optimizer, range(5, 25))
    assert same(dict(resumed.state_dict()), dict(model.state_dict()))
    assert same(resumed_optimizer.state_dict(), optimizer.state_dict())


class Named(NamedTuple):
    field: int


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": [1, {2}]}, r"state\['a'\]\[1\] is a set"),
        ({"a": Named(1)}, r"state\['a'\] is a Named"),
        ({"a": np.ones(2)}, r"state\['a'\] is a ndarray"),
        ({(1, 2): 3}, r"state has the key \(1, 2\)"),
        ([torch.ones(2).to_sparse()], r"state\[0\] is a tensor that .*sparse"),
        ([torch.ones(2, device="meta")], r"state\[0\] is a tensor that .*meta"),
        ([torch.ones(2, dtype=torch.complex128)], r"state\[0\] is a tensor that .*complex128"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_things_are_refused_before_anything_is_written(tmp_path: Path, state: Any, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        save(tmp_path / "new", 0, state)
    assert names(tmp_path) == []


def test_a_state_that_contains_itself_is_refused(tmp_path: Path) -> None:
    state: list[Any] = []
    state.append(state)
    with pytest.raises(ProblemError, match="contains itself"):
        save(tmp_path, 0, state)


# --- without a file ---------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(values=st.lists(tensors, max_size=4))
def test_the_header_is_that_of_the_file(values: list[torch.Tensor]) -> None:
    """What several ranks write leaf by leaf is the file that one process writes at once, but for the order."""
    named = {f"t{number}": value for number, value in enumerate(values)}
    content = tensor_header(named) + b"".join(map(raw_bytes, values))
    one, other = safetensors.torch.load(content), safetensors.torch.load(tensor_file(named))
    assert set(one) == set(other) == set(named)
    assert all(same(one[name], other[name]) for name in named)


def test_arrays_come_back_as_arrays_if_they_are_wanted() -> None:
    encoder, array = ArrayEncoder(), np.arange(6.0).reshape(2, 3).T
    text = encoder.text({"a": array, "b": [np.array(True)]}, "value")
    value = decode(json.loads(text), dict(encoder.tensors))
    np.testing.assert_array_equal(value["a"], array, strict=True)
    assert value["b"][0].shape == ()
    array[0, 0] = 7
    assert value["a"][0, 0] == 0


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([1j]), np.array([{}]), np.zeros(2, ">f8")], ids=repr)
def test_other_arrays_are_refused(array: Any) -> None:
    with pytest.raises(ProblemError, match=r"value\[0\] is an? (array|tensor) that a memo cannot hold"):
        ArrayEncoder().text([array], "value")


def test_entries_tell_size_and_digest() -> None:
    assert entry(b"abc") == {
        "sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        "size": 3,
    }
