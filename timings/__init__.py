"""Measurements of cost: `make bench`. Ratios, interleaved in one run, with repeats; never part of the tests."""
