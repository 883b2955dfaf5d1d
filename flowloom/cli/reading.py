"""Where the user's words come from: a prompt on a terminal, else the lines of standard input."""

from __future__ import annotations

import sys
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from flowloom.cli.display import Display

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession


class Reader(Protocol):
    """Reads what the user says."""

    asks: bool
    """Whether a person sits in front of it."""

    def message(self) -> str | None:
        """The next message; None when there will be no more. An interrupt is raised."""
        ...

    def answer(self, question: str) -> str | None:
        """The answer to a question; None when there will be none."""
        ...


class LineReader:
    """Each line is a message, or the answer to a question."""

    asks = False

    def __init__(self, display: Display) -> None:
        self._display = display

    def message(self) -> str | None:
        while (line := sys.stdin.readline()) != "":
            if line.strip():
                self._display.user(line.strip())
                return line.strip()
        return None

    def answer(self, question: str) -> str | None:
        self._display.question(question)
        line = sys.stdin.readline()
        self._display.question(f"{line.strip()}\n")
        return line.strip() if line else None


class PromptReader:
    """A prompt that can be edited, with a history."""

    asks = True

    @cached_property
    def _sessions(self) -> tuple[PromptSession[str], PromptSession[str]]:
        """The prompts for messages and for answers, each with its history; made when the first is shown."""
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

        return PromptSession(key_bindings=keys), PromptSession(key_bindings=keys)

    def message(self) -> str | None:
        try:
            while True:
                text = self._sessions[0].prompt("you> ").strip()
                if text:
                    return text
        except EOFError:
            return None

    def answer(self, question: str) -> str | None:
        try:
            return self._sessions[1].prompt(question).strip()
        except (EOFError, KeyboardInterrupt):
            return None


def open_reader(display: Display) -> Reader:
    """A prompt where both ends are a terminal, else lines."""
    return PromptReader() if sys.stdin.isatty() and display.is_terminal else LineReader(display)
