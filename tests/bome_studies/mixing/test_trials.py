"""The trials of the mixing study."""

from dataclasses import replace

import pytest
import torch

from bome_studies.mixing.protocol import PROTOCOLS
from bome_studies.mixing.trials import JUNK, extra_copies, read_texts

SMOKE = PROTOCOLS["smoke"]


def test_the_package_is_text_for_tests_and_junk_has_its_letters() -> None:
    texts = read_texts(SMOKE)
    assert set(texts.sources) == {SMOKE.target, "oracles", "reports", JUNK}
    assert all(len(tokens) > 10_000 for tokens in texts.sources.values())
    assert torch.equal(texts.sources[JUNK].sort().values, texts.sources[SMOKE.target].sort().values)
    assert abs(len(texts.target) - len(texts.held_out)) <= 1
    assert texts is read_texts(replace(SMOKE))


def test_bome_keeps_two_copies_and_f2sa_more() -> None:
    assert extra_copies("bome") == pytest.approx(2, abs=0.1)
    assert extra_copies("f2sa") > 3
