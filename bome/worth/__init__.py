"""What v is worth: f at a θ that is trained with it on g alone, F(v) = f(v, θ*(v))."""

from bome.worth.judgement import Refit
from bome.worth.refit import refit
from bome.worth.start import Start

__all__ = ["Refit", "Start", "refit"]
