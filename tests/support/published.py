"""Small data sets in the formats in which the large ones are published."""

import gzip
import io
import pickle
import tarfile
from typing import Any

import numpy as np

from bome.data import formats

random = np.random.default_rng(0)


def idx(values: np.ndarray[Any, Any]) -> bytes:
    """An array of bytes, as MNIST has it."""
    header = bytes((0, 0, 8, values.ndim)) + b"".join(n.to_bytes(4, "big") for n in values.shape)
    return gzip.compress(header + values.astype(np.uint8).tobytes())


PICTURES = {"train": random.integers(0, 256, (7, 4, 5)), "test": random.integers(0, 256, (3, 4, 5))}
LABELS = {"train": np.array([0, 9, 1, 2, 3, 4, 5]), "test": np.array([9, 0, 8])}


def idx_files() -> dict[str, bytes]:
    """The four files of MNIST."""
    return {
        formats.TRAIN_IMAGES: idx(PICTURES["train"]),
        formats.TRAIN_LABELS: idx(LABELS["train"]),
        formats.TEST_IMAGES: idx(PICTURES["test"]),
        formats.TEST_LABELS: idx(LABELS["test"]),
    }


def tar(files: dict[str, bytes]) -> bytes:
    """A compressed archive."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


def cifar_files(**changed: object) -> dict[str, bytes]:
    """The archive of CIFAR-100 with two pictures, some parts of which may be others."""
    rows = np.arange(2 * 3072).reshape(2, 3072).astype(np.uint8)
    train: dict[str, object] = {"data": rows, "fine_labels": [1, 0], "coarse_labels": [0, 0], **changed}
    parts = {"train": train, "test": train, "meta": {"fine_label_names": ["apple", "baby"]}}
    return {"c.tar.gz": tar({f"cifar-100-python/{name}": pickle.dumps(part, 4) for name, part in parts.items()})}
