"""The experiments of the paper and the benchmarks, one file each."""
