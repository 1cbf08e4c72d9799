"""Data mixture for a causal language model of Hugging Face, or any module whose output has `.logits`."""

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

import bome
from bome.mixture import GPT


def language_model() -> nn.Module:
    """A small GPT-2 if `transformers` is installed, a stand-in of the same interface if not."""
    try:
        from transformers import GPT2Config, GPT2LMHeadModel
    except ImportError:
        return StandIn()
    config = GPT2Config(
        bos_token_id=None,
        eos_token_id=None,
        vocab_size=64,
        n_positions=16,
        n_embd=16,
        n_layer=1,
        n_head=2,
        attn_pdrop=0.0,
    )
    model: nn.Module = GPT2LMHeadModel(config)
    return model


class StandIn(nn.Module):
    """Gives an object with `.logits`, as models of Hugging Face do."""

    def __init__(self) -> None:
        super().__init__()
        self.model = GPT(64, 16, width=16, layers=1, heads=2)

    def forward(self, input_ids: Tensor) -> Any:
        """Logits in an object."""
        return SimpleNamespace(logits=self.model(input_ids))


torch.manual_seed(0)
counting = torch.arange(2000) % 10  # the target counts; so does one source
sources = {
    "counting": torch.arange(5000) % 10,
    "in threes": torch.arange(5000) * 3 % 10,
    "junk": torch.randint(10, (5000,)),
}
mixture = bome.DataMixture(
    steps=60, warmup=60, length=16, batch=4, target_batch=12, inner_lr=0.02, inner_steps=3, outer_lr=0.2
)
mixture.fit(language_model(), sources, target=counting)
print({name: round(weight, 3) for name, weight in mixture.weights_.items()})
