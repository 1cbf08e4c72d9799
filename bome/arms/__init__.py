"""Solve with minibatches and nothing to choose: two arms that learn v, raced, judged by training θ anew."""
