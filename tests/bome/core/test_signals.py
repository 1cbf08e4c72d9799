"""The first Ctrl-C asks, the second acts; afterwards everything is as before."""

import os
import signal
import threading

import pytest

from bome.core.signals import obey, signals


def test_one_signal_of_each_kind_is_collected() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with signals() as asked:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked == [signal.SIGINT, signal.SIGTERM]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_the_second_of_a_kind_has_its_usual_effect() -> None:
    with signals() as asked:
        os.kill(os.getpid(), signal.SIGINT)
        assert asked == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_nothing_is_collected_where_it_is_not_wanted() -> None:
    with pytest.raises(KeyboardInterrupt), signals(wanted=False) as asked:
        os.kill(os.getpid(), signal.SIGINT)
    assert asked == []


def test_another_thread_leaves_signals_alone() -> None:
    handlers = []

    def work() -> None:
        with signals():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]


def test_a_signal_is_obeyed_where_there_is_nothing_to_give_back() -> None:
    obey([])
    with pytest.raises(KeyboardInterrupt):
        obey([signal.SIGINT])
    with pytest.raises(SystemExit) as end:
        obey([signal.SIGTERM])
    assert end.value.code == 143
