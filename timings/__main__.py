"""Run all timings, or those named: `python -m timings --threads 1 hyperclean toy_step`."""

import argparse

import torch

from timings import constrained, continual, hessian, hyperclean, memory, softmax_step, toy_step

ALL = {
    "softmax_step": softmax_step.main,
    "hyperclean": hyperclean.main,
    "hyperclean_step": hyperclean.step,
    "hyperclean_bounds": hyperclean.bounds,
    "hyperclean_sweep": hyperclean.sweep,
    "constrained": constrained.main,
    "constrained_bolib": constrained.bolib,
    "continual": continual.main,
    "hessian": hessian.main,
    "toy_step": toy_step.main,
    "memory": memory.main,
}
PARTS = ("hyperclean_step", "hyperclean_bounds", "hyperclean_sweep")
"""Parts of another one, run only where they are named."""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m timings")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(ALL)}; all if none is given")
    parser.add_argument("--threads", type=int, default=2, help="of torch (default 2)")
    told = parser.parse_args()
    unknown = sorted(set(told.names) - set(ALL))
    if unknown:
        parser.error(f"unknown benchmark {unknown[0]!r}")
    for name in told.names or [name for name in ALL if name not in PARTS]:
        # threads only cost time on four numbers
        torch.set_num_threads(1 if name == "toy_step" else told.threads)
        ALL[name]()
