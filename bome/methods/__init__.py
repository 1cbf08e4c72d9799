"""The methods, one file each."""

from bome.methods.base import Info, Method, Step
from bome.methods.bome import BOME

__all__ = ["BOME", "Info", "Method", "Step"]
