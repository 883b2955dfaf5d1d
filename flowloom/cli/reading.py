"""Where the user's words come from: a prompt on a terminal, else the lines of standard input."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from flowloom.cli.display import Display
from flowloom.cli.keyboard import Keyboard

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyPress


class Reader(Protocol):
    """Reads what the user says."""

    asks: bool
    """Whether a person sits in front of it."""

    def message(self) -> str | None:
        """The next message; None when there will be no more. An interrupt is raised."""
        ...

    def answer(self, question: str, *, interrupted: str = "") -> str | None:
        """The answer to a question; what an interrupt stands for, or None when nobody is there any more.

        What a person typed before the question could be seen answers none: it is for the next message.
        """
        ...

    async def ask(self, question: str) -> str | None:
        """The same in the middle of a turn, which goes on meanwhile. An interrupt stops the turn."""
        ...


class _Lines:
    """The lines of standard input, read in such a way that waiting for one can be given up without losing it."""

    def __init__(self, keyboard: Keyboard) -> None:
        self._keyboard = keyboard
        self._read = b""
        self._aside = b""
        self._ended = False

    def next(self) -> str:
        """The next line; an empty text when there are no more."""
        with self._keyboard.shown():
            while not self._has_line():
                self._fill()
        return self._take()

    async def wait(self) -> str:
        """The same while the event loop goes on."""
        with self._keyboard.shown():
            while not self._has_line():
                await _readable(sys.stdin.fileno())
                self._fill()
        return self._take()

    def put_aside(self) -> None:
        """Keep what a person has typed so far from being read until `bring_back`."""
        if self._keyboard.is_terminal:
            while not self._ended and select.select([sys.stdin], [], [], 0)[0]:
                self._fill()
            self._aside, self._read = self._aside + self._read, b""

    def bring_back(self) -> None:
        """Let what was put aside be read before all else."""
        self._aside, self._read = b"", self._aside + self._read

    def _has_line(self) -> bool:
        return self._ended or b"\n" in self._read

    def _fill(self) -> None:
        data = os.read(sys.stdin.fileno(), 65536)
        self._read += data
        self._ended = not data

    def _take(self) -> str:
        line, newline, self._read = self._read.partition(b"\n")
        return (line + newline).decode(sys.stdin.encoding, "replace")


async def _readable(descriptor: int) -> None:
    """Wait until there is something to read."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except (NotImplementedError, PermissionError):  # Windows; a plain file, which never blocks
        return
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


class LineReader:
    """Each line is a message, or the answer to a question."""

    asks = False

    def __init__(self, display: Display, keyboard: Keyboard) -> None:
        self._display = display
        self._lines = _Lines(keyboard)

    def message(self) -> str | None:
        self._lines.bring_back()
        while (line := self._lines.next()) != "":
            if line.strip():
                self._display.user(line.strip())
                return line.strip()
        return None

    def answer(self, question: str, *, interrupted: str = "") -> str | None:
        self._lines.put_aside()
        self._display.question(question)
        return self._shown(self._lines.next())

    async def ask(self, question: str) -> str | None:
        self._display.question(question)
        return self._shown(await self._lines.wait())

    def _shown(self, line: str) -> str | None:
        self._display.question(f"{line.strip()}\n")
        return line.strip() if line else None


class PromptReader:
    """A prompt that can be edited, with a history."""

    asks = True

    def __init__(self) -> None:
        self._aside: list[KeyPress] = []
        """What was typed before a question was shown."""

    @cached_property
    def _sessions(self) -> tuple[PromptSession[str], PromptSession[str], PromptSession[str]]:
        """The prompts for messages, for answers, and for what is asked in a turn, each with its history; made when the
        first is shown."""
        from prompt_toolkit import PromptSession
        from prompt_toolkit.key_binding import KeyBindings

        keys = KeyBindings()

        @keys.add("c-c")
        def clear_or_leave(event: Any) -> None:  # pyright: ignore[reportUnusedFunction]
            buffer = event.app.current_buffer
            if buffer.text:
                buffer.reset()
            else:
                event.app.exit(exception=KeyboardInterrupt)

        return PromptSession(key_bindings=keys), PromptSession(key_bindings=keys), PromptSession(key_bindings=keys)

    def message(self) -> str | None:
        self._bring_back()
        try:
            while True:
                text = self._sessions[0].prompt("you> ").strip()
                if text:
                    return text
        except EOFError:
            return None

    def answer(self, question: str, *, interrupted: str = "") -> str | None:
        self._put_aside()
        try:
            return self._sessions[1].prompt(question).strip()
        except KeyboardInterrupt:
            return interrupted
        except EOFError:
            return None

    async def ask(self, question: str) -> str | None:
        try:
            return (await self._sessions[2].prompt_async(question, handle_sigint=False)).strip()
        except EOFError:
            return None
        except KeyboardInterrupt:  # a key on this terminal; as a signal it stops the turn
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()
            raise

    def _put_aside(self) -> None:
        from prompt_toolkit.input.typeahead import get_typeahead

        keyboard = self._sessions[1].input
        self._aside += get_typeahead(keyboard)
        while keys := keyboard.read_keys():
            self._aside += keys

    def _bring_back(self) -> None:
        from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead

        keyboard = self._sessions[0].input
        aside, self._aside = self._aside, []
        store_typeahead(keyboard, [*aside, *get_typeahead(keyboard)])


@contextmanager
def open_reader(display: Display) -> Generator[Reader]:
    """A prompt where both ends are a terminal, else lines. What is typed is not seen until it is asked for."""
    asks = sys.stdin.isatty() and display.is_terminal
    with Keyboard(sys.stdin, by_line=not asks) as keyboard:
        yield PromptReader() if asks else LineReader(display, keyboard)
