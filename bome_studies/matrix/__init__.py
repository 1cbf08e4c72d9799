"""Every method on every kind of training: oracles, precision, ranks."""
