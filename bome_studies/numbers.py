"""Numbers in words: means with their standard errors."""

import math

Number = tuple[float, float | None]
"""A mean, and its standard error where there are several values."""


def points(number: Number) -> str:
    """Mean and standard error of what is measured in per cent."""
    mean, error = number
    return "unknown" if math.isnan(mean) else f"{mean:.2f}" if error is None else f"{mean:.2f} ± {error:.2f}"


def digits(number: Number) -> str:
    """Mean and standard error of what has no natural size."""
    mean, error = number
    return f"{mean:.4g}" if error is None else f"{mean:.4g} ± {error:.2g}"
