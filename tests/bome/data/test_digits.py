"""The digits of scikit-learn, in the form of the other images."""

import numpy as np
import torch

from bome.data.digits import digits


def test_digits_are_those_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    found, known = digits(), load_digits()
    assert len(found.train) + len(found.test) == 1797
    np.testing.assert_allclose(found.train.numpy() / 255 * 16, known.images[:1400], atol=0.04)
    assert torch.cat([found.train_labels, found.test_labels]).tolist() == known.target.tolist()
    assert (found.train.dtype, int(found.train.max())) == (torch.uint8, 255)
