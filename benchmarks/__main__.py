"""Run all benchmarks, or those named: `python -m benchmarks hyperclean toy_step`."""

import sys

import torch

from benchmarks import continual, hyperclean, memory, softmax_step, toy_step

ALL = {
    "softmax_step": softmax_step.main,
    "hyperclean": hyperclean.main,
    "continual": continual.main,
    "toy_step": toy_step.main,
    "memory": memory.main,
}

if __name__ == "__main__":
    torch.set_num_threads(2)
    for name in sys.argv[1:] or ALL:
        if name == "toy_step":
            torch.set_num_threads(1)  # threads only cost time on four numbers
        ALL[name]()
        torch.set_num_threads(2)
