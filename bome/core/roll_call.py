"""Which rank is missing? Asked when a message between ranks fails, so that the end of a run names its cause.

Every rank has a thread that answers roll calls through the store of the process group. A rank whose message fails calls
the roll; those who do not answer within some seconds are gone. Ranks that are stuck in a message for a rank that is
gone learn of it by the SIGTERM that torchrun sends to all others: their thread calls the roll and ends the process,
since Python's own handlers wait for the end of the message.
"""

import itertools
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch.distributed as dist

from bome.core.ranks import Ranks
from bome.errors import RankError

PATIENCE = 3.0
"""Seconds in which a rank answers a roll call."""
GRACE = 3.0
"""Seconds that a rank has to end by itself after another is found to be gone."""
_POLL = 0.3
_runs = itertools.count()


class Watch:
    """The roll of the ranks of one run.

    Attributes:
        step: the outer step at work, for messages.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.step = 0
        self._ranks = ranks
        self._store = dist.distributed_c10d._get_default_store()
        self._name = f"bome/roll-{next(_runs)}"

    def missing(self) -> list[int]:
        """Call the roll: the ranks that do not answer."""
        self._store.set(f"{self._name}/call", "1")
        self.answer()
        end = time.monotonic() + PATIENCE
        gone = list(range(self._ranks.size))
        while gone and time.monotonic() < end:
            gone = [rank for rank in gone if not self._store.check([f"{self._name}/{rank}"])]
            time.sleep(0.05)
        return gone

    def answer(self) -> None:
        """Say that this rank is there."""
        self._store.set(f"{self._name}/{self._ranks.rank}", "1")

    def called(self) -> bool:
        """Whether somebody calls the roll."""
        return bool(self._store.check([f"{self._name}/call"]))

    def error(self) -> RankError | None:
        """What to tell of the ranks that are gone, if any are."""
        gone = self.missing()
        return RankError(self.step, gone) if gone else None


@contextmanager
def watched(ranks: Ranks | None) -> Iterator[Watch | None]:
    """Watch over the ranks of a run: a failed message becomes a `RankError` if a rank is gone."""
    if ranks is None:
        yield None
        return
    watch, over = Watch(ranks), threading.Event()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    main = threading.current_thread() is threading.main_thread()
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False) if main else -1
    thread = threading.Thread(target=_listen, args=(watch, reading, over), daemon=True, name="bome-watch")
    thread.start()
    try:
        yield watch
    except RuntimeError as error:  # what gloo and NCCL raise
        lost = watch.error() if not isinstance(error, RankError) else None
        if lost is None:
            raise
        raise lost from error
    finally:
        over.set()
        thread.join()
        if main:
            signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


def _listen(watch: Watch, reading: int, over: threading.Event) -> None:
    """Answer roll calls until the run is over; after SIGTERM end the process if a rank is gone and it is stuck."""
    answered = asked = False
    while not over.is_set():
        if select.select([reading], [], [], _POLL)[0]:
            asked = asked or signal.SIGTERM in os.read(reading, 64)
        try:
            if not answered and watch.called():
                watch.answer()
                answered = True
            if asked:
                asked = False
                error = watch.error()
                if error is not None and not over.wait(GRACE):
                    sys.stderr.write(f"error: {error}\n")
                    sys.stderr.flush()
                    os._exit(error.exit_code)
        except RuntimeError:  # the store is gone, and with it the launcher
            return
