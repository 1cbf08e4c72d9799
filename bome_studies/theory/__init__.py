"""The rates that the theory promises, measured."""
