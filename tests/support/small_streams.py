"""Small streams of tasks for the tests of continual learning."""

import torch

from bome.continual.streams import Stream

BRIGHT = 128
"""Training images have darker pixels than this, test images brighter ones."""


def small_stream(
    seed: int = 0, part: str = "learning", *, tasks: int = 3, samples: int = 30, pixels: int = 6, shared: bool = True
) -> Stream:
    """Random images, of which those for training can be told from those that judge."""
    draw = torch.Generator().manual_seed(seed)
    train = torch.randint(0, BRIGHT, (tasks, samples, pixels), dtype=torch.uint8, generator=draw)
    test = torch.randint(BRIGHT, 256, (tasks, 20, pixels), dtype=torch.uint8, generator=draw)
    labels, test_labels = (torch.randint(3, (tasks, n), generator=draw) for n in (samples, 20))
    assert part in ("learning", "tuning")
    return Stream("continual-digits", "learning", train, labels, test, test_labels, None, 3, shared, seed)


def coloured_stream(seed: int = 0, part: str = "learning", *, samples: int = 15, size: int = 8) -> Stream:
    """Two tasks of random images in colour with three classes each and heads of their own."""
    draw = torch.Generator().manual_seed(seed)
    train = torch.randint(0, BRIGHT, (2, samples, size, size, 3), dtype=torch.uint8, generator=draw)
    test = torch.randint(BRIGHT, 256, (2, 4, size, size, 3), dtype=torch.uint8, generator=draw)
    labels, test_labels = (torch.randint(3, (2, n), generator=draw) for n in (samples, 4))
    assert part in ("learning", "tuning")
    return Stream("continual-cifar", "learning", train, labels, test, test_labels, None, 3, False, seed)
