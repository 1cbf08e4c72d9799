"""Values as JSON and tensors: what checkpoints and memos hold, and seals that show any change.

`{"$tensor": "t0"}` stands in the JSON where a tensor was. Nothing that is read back can run code.
"""

import base64
import hashlib
import json
import math
from typing import Any, ClassVar

import numpy as np
import safetensors
import safetensors.torch
import torch

from bome.errors import ProblemError

# Those that safetensors both writes and reads back; some other types it accepts one way only.
DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip

MALFORMED = (
    ValueError, LookupError, TypeError, AttributeError, RuntimeError, AssertionError, safetensors.SafetensorError,
)  # fmt: skip
"""What reading raises where the digests fit, but the content was written by a defect or by somebody else."""


class Encoder:
    """Turns values into JSON and collects their tensors.

    Attributes:
        tensors: by the names that stand for them in the JSON.
    """

    holder: ClassVar[str] = "a checkpoint"
    kinds: ClassVar[str] = "dict, list, tuple, str, int, float, bool, None, bytes and tensors"

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}

    def text(self, value: Any, place: str) -> bytes:
        """The value as JSON in bytes; `place` names it in errors.

        Raises:
            ProblemError: there is something else in it.
        """
        try:
            return json.dumps(self.encode(value, place), allow_nan=False).encode()
        except RecursionError:
            raise ProblemError(f"{place} is nested too deeply for {self.holder}, or contains itself") from None

    def encode(self, value: Any, place: str) -> Any:
        """The value as an object that `json` can write."""
        if value is None or isinstance(value, (str, int)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"$float": float.__repr__(value)}
        if isinstance(value, bytes):
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, torch.Tensor):
            return {"$tensor": self._collect(value, place)}
        if isinstance(value, dict):
            return self._dict(value, place)
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            items = [self.encode(item, f"{place}[{index}]") for index, item in enumerate(value)]
            return items if isinstance(value, list) else {"$tuple": items}
        return self._other(value, place)

    def _dict(self, value: dict[Any, Any], place: str) -> Any:
        for key in value:
            if not (key is None or isinstance(key, (str, int, float, bytes))):
                raise ProblemError(f"{place} has the key {key!r}; keys may be str, int, float, bool, None or bytes")
        items = {key: self.encode(item, f"{place}[{key!r}]") for key, item in value.items()}
        if all(isinstance(key, str) and not key.startswith("$") for key in items):
            return items
        # JSON knows only text as key, and "$" is ours: any other dict becomes a list of pairs.
        return {"$dict": [[self.encode(key, place), item] for key, item in items.items()]}

    def _collect(self, tensor: torch.Tensor, place: str) -> str:
        """The name of a tensor, if a file can hold it."""
        if tensor.layout is not torch.strided or tensor.is_meta or tensor.dtype not in DTYPES:
            kind = f"{tensor.dtype}, {tensor.layout}, {tensor.device}"
            raise ProblemError(f"{place} is a tensor that {self.holder} cannot hold ({kind})")
        name = f"t{len(self.tensors)}"
        self.tensors[name] = tensor.detach()
        return name

    def _other(self, value: Any, place: str) -> Any:
        raise ProblemError(f"{place} is a {type(value).__name__}; {self.holder} holds {self.kinds}")


class ArrayEncoder(Encoder):
    """One that takes NumPy arrays, too; they come back as arrays."""

    holder = "a memo"
    kinds = f"{Encoder.kinds}, and NumPy arrays of numbers"

    def _other(self, value: Any, place: str) -> Any:
        if not isinstance(value, np.ndarray):
            return super()._other(value, place)
        try:
            tensor = torch.from_numpy(np.array(value, order="C"))
        except (TypeError, ValueError):
            raise ProblemError(f"{place} is an array that {self.holder} cannot hold ({value.dtype})") from None
        return {"$array": self._collect(tensor, place)}


def decode(value: Any, tensors: dict[str, torch.Tensor]) -> Any:
    """Undo `Encoder.encode`; raises one of `MALFORMED` if the value was not made by it."""
    match value:
        case {"$tensor": name}:
            return tensors.pop(name)  # each is used once, so that no two places share memory
        case {"$array": name}:
            return tensors.pop(name).numpy()
        case {"$tuple": items}:
            return tuple(decode(item, tensors) for item in items)
        case {"$dict": pairs}:
            return {decode(key, tensors): decode(item, tensors) for key, item in pairs}
        case {"$float": text}:
            return float(text)
        case {"$bytes": text}:
            return base64.b64decode(text, validate=True)
        case dict():
            return {key: decode(item, tensors) for key, item in value.items()}
        case list():
            return [decode(item, tensors) for item in value]
    return value


def tensor_file(tensors: dict[str, torch.Tensor]) -> bytes:
    """The content of a safetensors file; its tensors are dense CPU copies, as the format demands."""
    copies = {
        name: tensor.to("cpu", copy=True, memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    return safetensors.torch.save(copies)


def tensor_header(tensors: dict[str, torch.Tensor]) -> bytes:
    """The beginning of a safetensors file, which the bytes of the tensors follow in their order."""
    entries, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + tensor.numel() * tensor.element_size()
        entries[name] = {
            "dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [offset, end],
        }  # fmt: skip
        offset = end
    text = json.dumps(entries).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def sha256(data: bytes) -> str:
    """The digest of a file as text."""
    return hashlib.sha256(data).hexdigest()


def entry(data: bytes) -> dict[str, Any]:
    """Size and digest of a file, as a sealed file beside it tells them."""
    return {"sha256": sha256(data), "size": len(data)}
