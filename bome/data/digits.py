"""The small digits that come with scikit-learn: no file, no download."""

import torch

from bome.data.sets import DIGITS, Images

TRAIN = 1400
"""How many of the 1,797 images are for training; the rest are for test."""


def digits() -> Images:
    """8 x 8 images of handwritten digits."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = torch.from_numpy(bunch.images * (255 / 16)).round().to(torch.uint8)
    labels = torch.from_numpy(bunch.target).long()
    return Images(pixels[:TRAIN], labels[:TRAIN], pixels[TRAIN:], labels[TRAIN:], DIGITS)
