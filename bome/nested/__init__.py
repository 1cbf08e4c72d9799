"""The solver with nothing to choose: the value function of the inner problem, descended for a growing penalty."""
