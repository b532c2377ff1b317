"""Ctrl-C that waits for the end of an iteration."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupt:
    """Whether the user has asked to stop."""

    requested = False


@contextmanager
def deferred_interrupt() -> Iterator[Interrupt]:
    """Note a first Ctrl-C instead of raising it; a second one raises at once.

    Outside the main thread, where signals cannot be handled, nothing changes.
    """
    interrupt = Interrupt()
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return

    def note(number: int, frame: Any) -> None:
        if interrupt.requested:
            raise KeyboardInterrupt
        interrupt.requested = True

    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, before)
