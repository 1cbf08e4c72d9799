"""Is the answer right? What was tested, with its numbers, and a verdict in words."""

from bome.certificate.certify import allowed, certify
from bome.certificate.measure import Stationarity, stationarity_at
from bome.certificate.verdict import Certificate, Test, verdict

__all__ = ["Certificate", "Stationarity", "Test", "allowed", "certify", "stationarity_at", "verdict"]
