"""Continual learning as bilevel problems: streams of tasks, networks, memories, strategies."""
