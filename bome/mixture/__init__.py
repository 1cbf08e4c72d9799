"""Learning how much of each data source a language model should be trained on."""

from bome.mixture.fit import DataMixture
from bome.mixture.gpt import GPT
from bome.mixture.sources import MixedText, Text, Tokens

__all__ = ["GPT", "DataMixture", "MixedText", "Text", "Tokens"]
