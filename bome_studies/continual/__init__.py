"""Continual learning, as in the paper."""
