"""Data: streams of batches with a state that can be saved; the data sets are in `bome.data.sets`."""

from bome.data.streams import Batch, Constant, Data, FixedBatches, Loader, Minibatches, Stream

__all__ = ["Batch", "Constant", "Data", "FixedBatches", "Loader", "Minibatches", "Stream"]
