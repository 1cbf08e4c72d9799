"""The paper's experiments and the benchmarks: a package of its own, which bome never imports."""
