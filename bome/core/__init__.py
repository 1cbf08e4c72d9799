"""What everything stands on: trees of tensors, the barrier, products, ranks, threads."""
