"""What v is worth: f at a θ that is trained with it on g alone, F(v) = f(v, θ*(v))."""

from bome.worth.assessment import Assessment, Wish, Worth
from bome.worth.candidates import copies
from bome.worth.judgement import Refit
from bome.worth.refit import refit
from bome.worth.start import Start

__all__ = ["Assessment", "Refit", "Start", "Wish", "Worth", "copies", "refit"]
