"""The small models and losses of the matrix: a residual network, a transformer, low-rank layers."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - its usual name
from torch.utils.checkpoint import checkpoint

WIDTH, CLASSES, SOURCES, TOKENS = 12, 4, 3, 6


class Batch(NamedTuple):
    """Samples: inputs, labels and the number of the source each comes from."""

    x: Tensor
    y: Tensor
    source: Tensor


def samples(n: int, seed: int, shape: tuple[int, ...] = (WIDTH,)) -> Batch:
    """Random samples, the same in every process."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, *shape, generator=generator)
    y = torch.randint(CLASSES, (n,), generator=generator)
    return Batch(x, y, torch.arange(n) % SOURCES)


def share(batch: Batch, part: int, parts: int) -> Batch:
    """Every `parts`-th sample: what one rank, or one micro-batch, sees."""
    return Batch(*(tensor[part::parts] for tensor in batch))


class Block(nn.Module):
    """One residual layer."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """x + W₂ tanh(W₁ x)."""
        out: Tensor = x + self.down(torch.tanh(self.up(x)))
        return out


class Attention(nn.Module):
    """One layer of self-attention by `scaled_dot_product_attention`, and a feed-forward part."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.rest = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH), Block()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Two heads."""
        n, length, _ = x.shape
        q, k, v = (part.view(n, length, 2, -1).transpose(1, 2) for part in self.qkv(self.norm(x)).chunk(3, dim=-1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, length, -1)
        out: Tensor = self.rest(x + self.out(mixed))
        return out


class Net(nn.Module):
    """Some layers and a head; of sequences the last token is classified.

    Args:
        layers: the body.
        call: how a layer is called, such as by way of activation checkpointing.
    """

    def __init__(self, layers: list[nn.Module], call: Callable[[nn.Module, Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.layers, self.head = nn.ModuleList(layers), nn.Linear(WIDTH, CLASSES)
        self._call = call

    def forward(self, x: Tensor) -> Tensor:
        """The logits."""
        for layer in self.layers:
            x = layer(x) if self._call is None else self._call(layer, x)
        logits: Tensor = self.head(x if x.dim() == 2 else x[:, -1])
        return logits


class LowRank(nn.Module):
    """A frozen linear layer with a trainable part of rank 2."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(2, base.in_features) / 4)
        self.b = nn.Parameter(torch.randn(base.out_features, 2) / 4)

    def forward(self, x: Tensor) -> Tensor:
        """W x + B A x."""
        out: Tensor = self.base(x) + x @ self.a.T @ self.b.T
        return out


def residual() -> Net:
    """The network of most cells."""
    torch.manual_seed(7)
    return Net([Block(), Block()])


def transformer() -> Net:
    """Two layers with fused attention."""
    torch.manual_seed(7)
    return Net([Attention(), Attention()])


def low_rank() -> Net:
    """The residual network with its layers frozen but for a part of low rank, and its head frozen."""
    net = residual()
    for block in net.layers:
        block.up = LowRank(block.up)  # type: ignore[arg-type]
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(name.endswith((".a", ".b")))
    return net


def checkpointed(reentrant: bool) -> Net:
    """The residual network with its activations computed twice instead of stored."""
    torch.manual_seed(7)

    def call(layer: nn.Module, x: Tensor) -> Tensor:
        x = x if x.requires_grad else x.detach().requires_grad_()  # reentrant checkpointing passes others over
        out: Tensor = checkpoint(layer, x, use_reentrant=reentrant)
        return out

    return Net([Block(), Block()], call)


def inner(v: Tensor, net: nn.Module, batch: Batch) -> Tensor:
    """g: the training loss, each source with its weight."""
    weights, logits = torch.softmax(v, 0)[batch.source] * SOURCES, net(batch.x)
    losses = F.cross_entropy(logits, batch.y, reduction="none") + 0.5 * logits.square().mean(1)
    loss: Tensor = (weights * losses).mean()
    return loss


def outer(v: Tensor, net: nn.Module, batch: Batch) -> Tensor:
    """f: the loss on the target."""
    loss: Tensor = F.cross_entropy(net(batch.x), batch.y)
    return loss


def in_bfloat16(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The loss with its products in bfloat16."""

    def mixed(v: Tensor, net: nn.Module, batch: Batch) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return loss(v, net, batch)

    return mixed
