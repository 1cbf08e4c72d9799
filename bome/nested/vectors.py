"""A variable of a problem as one vector, and back; where a problem has no v, the vector is one 0 that nothing feels."""

from functools import reduce

import torch
from torch import Tensor

from bome._typing import Leaves
from bome.errors import UnsupportedError
from bome.projections import Rows, Rules
from bome.variable import Variable


class Vector:
    """How the tensors of a variable lie in one vector, and where that vector may be.

    Attributes:
        variable: the variable.
        start: what it holds at the beginning.
    """

    def __init__(self, variable: Variable, rules: Rules) -> None:
        self.variable, self._rules = variable, rules
        self._sizes = [leaf.numel() for leaf in variable.leaves]
        self._dtype = reduce(torch.promote_types, (leaf.dtype for leaf in variable.leaves), torch.float32)
        self.start = self.pack(variable.leaves).clone()

    def pack(self, leaves: Leaves) -> Tensor:
        """The entries of some tensors in a row; of one tensor it is a view."""
        if not leaves:
            return torch.zeros(1, dtype=self._dtype)
        parts = [leaf.detach().reshape(-1).to(self._dtype) for leaf in leaves]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def leaves(self, x: Tensor) -> Leaves:
        """The tensors of a vector: views of it where their dtype is its own."""
        leaves = self.variable.leaves
        if not leaves:
            return ()
        parts = (x,) if len(leaves) == 1 else torch.split(x, self._sizes)
        return tuple(part.view(leaf.shape).to(leaf.dtype) for part, leaf in zip(parts, leaves, strict=True))

    def project(self, x: Tensor) -> Tensor:
        """The nearest point of the set."""
        return self.pack(self._rules(self.leaves(x))) if self._rules else x

    def rows(self) -> Rows:
        """The set as linear constraints on the vector."""
        if not self.variable.leaves:
            none = torch.zeros(0, 1, dtype=torch.float64)
            return Rows(none, none[:, 0], none, none[:, 0])
        rows = self._rules.rows(self.variable.leaves)
        if rows is None:
            role = self.variable.role
            raise UnsupportedError(f"beside constraints the set of {role} must be flat: write it as constraints, too")
        return rows

    def write(self, x: Tensor) -> None:
        """Put a vector into the live tensors."""
        with torch.no_grad():
            for leaf, part in zip(self.variable.leaves, self.leaves(x), strict=True):
                leaf.copy_(part)
