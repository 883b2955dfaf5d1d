"""The keyboard of a terminal: what is typed shows at a prompt, and nowhere else."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any, Self, TextIO

if sys.platform != "win32":
    import termios

_LOCAL_FLAGS = 3
"""Where the attributes of a terminal hold what it does with each key."""


class Keyboard:
    """Keeps what is typed off the screen while it is open, so that no answer has it in its midst.

    Nothing typed is lost, not by Ctrl-C either, which stays a signal: it waits to be read by whoever reads next.
    `by_line` lets the terminal make lines of it; else each key is handed on as it is, Ctrl-D like any other. A keyboard
    that is no terminal, or another program's at the moment, is left alone.
    """

    def __init__(self, stream: TextIO, *, by_line: bool) -> None:
        self._descriptor = stream.fileno() if stream.isatty() else None
        self._by_line = by_line
        self._usual = self._attributes()
        self._is_hidden = False

    @property
    def is_terminal(self) -> bool:
        """Whether a person types on it."""
        return self._usual is not None

    def __enter__(self) -> Self:
        if sys.platform != "win32" and self._usual is not None:
            self._continued = signal.signal(signal.SIGCONT, self._hide_again)
        self._hide()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._show()
        if sys.platform != "win32" and self._usual is not None:
            signal.signal(signal.SIGCONT, self._continued)

    @contextmanager
    def shown(self) -> Generator[None]:
        """Show what is typed meanwhile: it is asked for."""
        self._show()
        try:
            yield
        finally:
            self._hide()

    def _hide(self) -> None:
        self._is_hidden = True
        if sys.platform == "win32" or self._usual is None:
            return
        hidden = list(self._usual)
        hidden[_LOCAL_FLAGS] &= ~(termios.ECHO | termios.ECHONL)
        hidden[_LOCAL_FLAGS] |= termios.NOFLSH
        if not self._by_line:
            hidden[_LOCAL_FLAGS] &= ~(termios.ICANON | termios.IEXTEN)
        self._set(hidden)

    def _show(self) -> None:
        self._is_hidden = False
        self._set(self._usual)

    def _hide_again(self, *_: object) -> None:
        """After the program was stopped and continued by a shell, which has given the terminal its usual attributes."""
        if self._is_hidden and self._attributes() == self._usual:
            self._hide()

    def _attributes(self) -> list[Any] | None:
        if sys.platform != "win32" and self._descriptor is not None:
            with suppress(termios.error):
                return termios.tcgetattr(self._descriptor)
        return None

    def _set(self, attributes: list[Any] | None) -> None:
        if sys.platform == "win32" or self._descriptor is None or attributes is None:
            return
        with suppress(OSError, termios.error):  # the terminal has gone
            if os.tcgetpgrp(self._descriptor) == os.getpgrp():  # a program in the background would be stopped
                termios.tcsetattr(self._descriptor, termios.TCSANOW, attributes)
