"""A small GPT: for text files from the command line, and for tests. Any causal language model may take its place."""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from bome._checks import check_count
from bome.errors import ProblemError


class GPT(nn.Module):
    """A decoder with fused attention, learned positions and tied embeddings (Radford et al., 2019, in small).

    Args:
        vocabulary: the number of different tokens.
        length: the longest sequence, in tokens.
        width: of the hidden states.
        layers: blocks of attention and a perceptron.
        heads: of each attention.
    """

    def __init__(self, vocabulary: int, length: int, width: int = 64, layers: int = 2, heads: int = 4) -> None:
        super().__init__()
        for name, value in (("length", length), ("width", width), ("layers", layers), ("heads", heads)):
            check_count(name, value)
        if width % heads:
            raise ProblemError(f"width must be a multiple of the number of heads, got {width} and {heads}")
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next token at each place: (sequences, length) to (sequences, length, vocabulary)."""
        x: Tensor = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.norm(x) @ self.tokens.weight.T
        return logits


class Block(nn.Module):
    """Causal attention and a perceptron, each with a layer norm before and a sum after it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.perceptron = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """One block."""
        n, length, width = x.shape
        parts = self.attention(self.before(x)).view(n, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).reshape(n, length, width))
        after: Tensor = x + self.perceptron(self.between(x))
        return after


def trainable(model: nn.Module) -> list[nn.Parameter]:
    """The parameters that are trained: all, or with LoRA and its like a few."""
    return [p for p in model.parameters() if p.requires_grad]


def bytes_of(text: bytes) -> Tensor:
    """Text as tokens: its bytes, one number each."""
    return torch.frombuffer(bytearray(text), dtype=torch.uint8) if text else torch.empty(0, dtype=torch.uint8)
