"""Signals that stop a command."""

import signal
import threading

import pytest

from obygaze_features.core import system
from obygaze_features.core.signals import on_signals


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_handler_is_called_within_the_block_alone(name: str) -> None:
    number = signal.Signals[name]
    before = signal.getsignal(number)
    heard: list[int] = []
    with on_signals(system.STOP_SIGNALS, lambda number, _: heard.append(number)):
        signal.raise_signal(number)
    assert heard == [number]
    assert signal.getsignal(number) == before


def test_what_nohup_started_goes_on() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    heard: list[int] = []
    try:
        with on_signals(system.STOP_SIGNALS, lambda number, _: heard.append(number)):
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
    assert heard == []


def test_another_thread_handles_no_signals() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def work() -> None:
        with on_signals(["SIGTERM"], lambda number, _: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
