"""How much memory tensors take, counted and not guessed."""

from typing import Any
from weakref import finalize

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Ledger(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Adds up the bytes of the tensors that live at the same time, from when it is entered.

    Attributes:
        live: bytes of the tensors made since and still there.
        peak: the most of these at any time.
        largest: bytes of the largest of them.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live, self.peak, self.largest = 0, 0, 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do it, and note what was made."""
        for x in torch.utils._pytree.tree_leaves((args, kwargs)):
            if isinstance(x, Tensor):
                self._note(x)
        out = func(*args, **(kwargs or {}))
        for x in torch.utils._pytree.tree_leaves(out):
            if isinstance(x, Tensor):
                self._add(x)
        return out

    def _note(self, x: Tensor) -> None:
        """What was there before counts for nothing."""
        key = x.untyped_storage().data_ptr()
        if key not in self._known:
            self._known.add(key)
            finalize(x.untyped_storage(), self._known.discard, key)

    def _add(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        key, size = storage.data_ptr(), storage.nbytes()
        if key in self._known or not size:
            return
        self._known.add(key)
        self.live += size
        self.peak, self.largest = max(self.peak, self.live), max(self.largest, size)
        finalize(storage, self._drop, key, size)

    def _drop(self, key: int, size: int) -> None:
        self._known.discard(key)
        self.live -= size
