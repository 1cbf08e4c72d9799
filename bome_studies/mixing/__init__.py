"""Weights of data sources, against trivial mixtures."""
