"""Is the answer right? What was tested, with its numbers, and a verdict in words."""

from bome.certificate.certify import allowed, certify
from bome.certificate.descent import falls_on
from bome.certificate.measure import Stationarity, stationarity_at
from bome.certificate.verdict import BOUND, Certificate, Test, verdict

__all__ = [
    "BOUND",
    "Certificate",
    "Stationarity",
    "Test",
    "allowed",
    "certify",
    "falls_on",
    "stationarity_at",
    "verdict",
]
