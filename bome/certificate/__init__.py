"""Is the answer right? What was tested, with its numbers, and a verdict in words."""

from bome.certificate.certify import Stationarity, certify, stationarity_at
from bome.certificate.verdict import Certificate, Test, verdict

__all__ = ["Certificate", "Stationarity", "Test", "certify", "stationarity_at", "verdict"]
