"""Finished parts of long work: what is there, and was made with the same settings, is not computed again."""

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch

from bome.errors import ProblemError
from bome.storage.atomic import read_regular, write_atomic
from bome.storage.encoding import MALFORMED, ArrayEncoder, decode, entry, sha256, tensor_file

FORMAT = 1


class Memo:
    """Values by name, each with the specification that it was made with.

    A part is `NAME.json`, and `NAME.safetensors` beside it if the value has tensors or arrays. It is sealed: a part
    that was changed, cut short or written by somebody else counts as not there, and so does one of another
    specification.

    Args:
        folder: where they are kept; None keeps nothing.

    Example:
        >>> Memo(None).keep("part", {"seed": 0}, lambda: 1 + 1)
        2
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def read(self, name: str, spec: Any) -> Any | None:
        """The value of a part; None if there is none that was made with this specification.

        Args:
            name: of the part; with "/" it lies in a folder of the folder.
            spec: whatever decides the value, without tensors and arrays.
        """
        if self._folder is None:
            return None
        try:
            return self._verified(self._folder / name, _encoded(spec))
        except (OSError, *MALFORMED):
            return None

    def write(self, name: str, spec: Any, value: Any) -> None:
        """Keep the value of a part.

        Args:
            name: as for `read`.
            spec: likewise.
            value: what a checkpoint can hold, or NumPy arrays of numbers; not None.

        Raises:
            ProblemError: the value or the specification holds something else.
            StorageError: it cannot be written.
        """
        encoder = ArrayEncoder()
        body = {"format": FORMAT, "spec": _encoded(spec), "value": encoder.encode(value, "value"), "tensors": None}
        if self._folder is None:
            return
        if encoder.tensors:  # first: without the JSON that tells their digest they are nothing
            tensors = tensor_file(encoder.tensors)
            write_atomic(_with(self._folder / name, "safetensors"), tensors)
            body["tensors"] = entry(tensors)
        write_atomic(_with(self._folder / name, "json"), _sealed(body))

    def keep(self, name: str, spec: Any, compute: Callable[[], Any]) -> Any:
        """The value of a part: read if it is there, otherwise computed and written."""
        value = self.read(name, spec)
        if value is None:
            value = compute()
            self.write(name, spec, value)
        return value

    def _verified(self, place: Path, spec: Any) -> Any | None:
        body = _unsealed(read_regular(_with(place, "json")))
        if body["format"] != FORMAT or json.dumps(body["spec"]) != json.dumps(spec):
            return None
        tensors = {}
        if body["tensors"] is not None:
            size = body["tensors"]["size"]
            data = read_regular(_with(place, "safetensors"), range(size, size + 1))
            if sha256(data) != body["tensors"]["sha256"]:
                return None
            tensors = safetensors.torch.load(data)
        return decode(body["value"], tensors)


def _encoded(spec: Any) -> Any:
    """The specification as it is written and compared; the order of keys does not count."""
    encoder = ArrayEncoder()
    encoded = encoder.encode(spec, "spec")
    if encoder.tensors:
        raise ProblemError("the specification of a part may hold no tensors and no arrays: give their digest")
    return json.loads(json.dumps(encoded, sort_keys=True))


def _with(place: Path, ending: str) -> Path:
    return place.with_name(f"{place.name}.{ending}")


_SEAL = b'{"seal": "'


def _sealed(body: dict[str, Any]) -> bytes:
    """The body as JSON that begins with the digest of all that follows."""
    rest = b'", ' + json.dumps(body).encode()[1:] + b"\n"
    return _SEAL + sha256(rest).encode() + rest


def _unsealed(raw: bytes) -> Any:
    """The body that was sealed; a ValueError if a bit of it was changed since."""
    seal, rest = raw[: len(_SEAL) + 64], raw[len(_SEAL) + 64 :]
    if seal != _SEAL + sha256(rest).encode():
        raise ValueError("not sealed")
    return json.loads(raw)


def digest(values: Iterable[Any]) -> str:
    """A digest of arrays, sparse matrices and whatever has a telling `repr`, for specifications."""
    sha = hashlib.sha256()
    for value in values:
        for part in _parts(value):
            sha.update(f"{part.dtype} {part.shape} ".encode())
            sha.update(memoryview(part).cast("B"))
    return sha.hexdigest()


def _parts(value: Any) -> list[Any]:
    """The value as plain arrays."""
    if hasattr(value, "indptr"):  # a sparse matrix
        return [value.data, value.indices, value.indptr]
    if isinstance(value, np.ndarray) and value.dtype != object:
        return [np.ascontiguousarray(value)]
    text = "\0".join(map(str, value)) if isinstance(value, np.ndarray) else repr(value)
    return [np.frombuffer(text.encode("utf-8", "surrogatepass") + b"\0", dtype=np.uint8)]
