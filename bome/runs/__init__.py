"""From a name to a result: plans, run directories, sweeps."""
