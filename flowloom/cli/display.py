"""What a chat looks like: the events of a run as lines, on a terminal in colour, elsewhere as plain text."""

from __future__ import annotations

import errno
import json
import os
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from google.genai import types

from flowloom.events import Event
from flowloom.events.event import UNFIT_OUTPUT, asks_again
from flowloom.events.parts import parts_of
from flowloom.events.requests import RESERVED_CALLS, looks_like_request

if TYPE_CHECKING:
    from rich.console import Console

_PLAIN_WIDTH = 160
_UNPRINTABLE = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}
"""Characters that could steer the terminal; no model or tool may."""

Speaker = tuple[str, str | None]
"""An agent's name and its branch."""


class OutputClosedError(BrokenPipeError):
    """The program that read what is shown has gone, as `head` does: there is nothing left to do."""


class Display:
    """Shows the events of a run as they come.

    One agent at a time writes on the open line. What others say meanwhile, in parallel, waits until it has finished.
    """

    def __init__(self, out: TextIO, err: TextIO) -> None:
        self.is_terminal = out.isatty()
        self._colour = "auto" if self.is_terminal and not os.environ.get("NO_COLOR") else None
        self._streams = out, err
        for stream in (out, err):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # type: ignore[union-attr] - an answer must not fail to be shown
        self._live: Speaker | None = None
        self._thinking = False
        self._waiting: list[Event] = []
        self._missed: set[Speaker] = set()
        self._held = False
        self.failed = False
        """Whether the turn that is shown has told of an error."""

    @cached_property
    def _out(self) -> Console:
        return _console(self._streams[0], self._colour)

    @cached_property
    def _err(self) -> Console:
        err = self._streams[1]
        return _console(err, self._colour if err.isatty() else None)

    # -- lines of the chat itself ----------------------------------------------------------------------

    def notice(self, text: str) -> None:
        """A remark of the command line's, beside the conversation."""
        if text:
            self._end_line()
            self._write(self._err, text + "\n", "dim")

    def error(self, text: str) -> None:
        """What went wrong."""
        self._end_line()
        self._write(self._err, f"Error: {text}\n", "red")

    def user(self, text: str) -> None:
        """What the user said, where it is not seen already."""
        self._write(self._out, "you: ", "bold")
        self._write(self._out, text + "\n")

    def question(self, text: str) -> None:
        """What the user is asked, without an end of line."""
        self._end_line()
        self._write(self._out, text, "yellow")

    def page(self, text: str) -> None:
        """Something to read, on lines of its own."""
        self._end_line()
        self._write(self._out, text + "\n")

    def hold(self) -> None:
        """Put off what happens until `release`: somebody is typing."""
        self._end_line()
        self._held = True

    def release(self) -> None:
        """Show what has happened meanwhile."""
        self._held = False
        self._catch_up()

    # -- a turn ------------------------------------------------------------------------------------------

    def begin_turn(self) -> None:
        """Forget the turn before."""
        self.failed = False
        self._missed.clear()

    def show(self, event: Event) -> None:
        """Show an event, or put it off while another agent is writing."""
        speaker = (event.author, event.branch)
        if event.partial and (self._held or speaker in self._missed or self._live not in (None, speaker)):
            self._missed.add(speaker)  # its complete event will tell it all
            return
        if not event.partial:
            self._missed.discard(speaker)
        if self._held or (self._live is not None and self._live != speaker):
            self._waiting.append(event)
            return
        self._show(event, speaker)
        if self._live is None:
            self._catch_up()

    def end_turn(self) -> None:
        """End the open line, and show what still waits."""
        self._end_line()
        self.release()

    def _catch_up(self) -> None:
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self._show(event, (event.author, event.branch))

    def _show(self, event: Event, speaker: Speaker) -> None:
        parts = parts_of(event.content)
        if event.partial:
            for part in parts:
                if part.text:
                    self._speak(speaker, part.text, thought=bool(part.thought))
            return
        marks = event.custom_metadata or {}
        if asks_again(event):
            self.step(event.author, f"is to answer again: {' '.join(str(marks[UNFIT_OUTPUT]).split())}")
            return
        streamed = self._live == speaker
        if not streamed:
            for part in parts:
                if part.text:
                    self._speak(speaker, part.text, thought=bool(part.thought))
        self._end_line()
        actions = event.actions  # results come once the user has answered
        asked = {*actions.requested_tool_confirmations, *actions.requested_auth_configs}
        asked.update(actions.requested_inputs or ())
        for part in parts:
            call, answer = part.function_call, part.function_response
            if call is not None and call.name != "transfer_to_agent" and not looks_like_request(event, call):
                self._step(event.author, f"calls {call_text(call.name, call.args)}")
            elif answer is not None and answer.id not in asked and not _is_told(answer, event):
                self._step(event.author, f"got {answer.name}: {_compact(answer.response)}")
            elif part.executable_code is not None:
                self._step(event.author, f"runs code: {_compact(part.executable_code.code)}")
            elif part.code_execution_result is not None:
                self._step(event.author, f"got output: {_compact(part.code_execution_result.output)}")
            elif part.inline_data is not None or part.file_data is not None:
                data: Any = part.inline_data or part.file_data
                self._step(event.author, f"sends a file ({data.mime_type})")
        if event.actions.transfer_to_agent:
            self._step(event.author, f"hands over to {event.actions.transfer_to_agent}")
        if event.error_code:
            self.failed = self.failed or UNFIT_OUTPUT not in marks
            self._write(
                self._out, ": ".join(filter(None, (event.author, event.error_code, event.error_message))) + "\n", "red"
            )

    def _speak(self, speaker: Speaker, text: str, *, thought: bool) -> None:
        if self._live is not None and self._thinking != thought:
            self._end_line()
        if self._live is None:
            self._live, self._thinking = speaker, thought
            self._write(self._out, f"{speaker[0]}{' (thinks)' if thought else ''}: ", "dim" if thought else "bold cyan")
        self._write(self._out, text, "dim" if thought else None)

    def step(self, author: str, text: str) -> None:
        """What somebody does, on a line of its own."""
        self._end_line()
        self._step(author, text)

    def _step(self, author: str, text: str) -> None:
        width = self._out.width if self.is_terminal else _PLAIN_WIDTH
        line = f"  [{author}] {text}"
        self._write(self._out, (line if len(line) <= width else line[: width - 1] + "…") + "\n", "dim")

    def _end_line(self) -> None:
        if self._live is not None:
            self._live = None
            self._write(self._out, "\n")

    def _write(self, console: Console, text: str, style: str | None = None) -> None:
        console.out(text.translate(_UNPRINTABLE), style=style, end="", highlight=False)
        console.file.flush()


def _is_told(answer: types.FunctionResponse, event: Event) -> bool:
    """Whether the person knows of an answer in another way: it is a transfer, or the person's own."""
    return answer.name == "transfer_to_agent" or (event.author == "user" and answer.name in RESERVED_CALLS)


def _console(stream: TextIO, colour: Any) -> Console:
    """What writes on a stream; without a colour system it writes no escape sequence at all."""
    from rich.console import Console  # by those who write: most servers never do, and it takes 2 MiB

    console = Console(
        file=stream, color_system=colour, force_terminal=stream.isatty(), markup=False, emoji=False, highlight=False
    )
    console.on_broken_pipe = _output_closed  # rich would exit, in the midst of the event loop
    return console


def _output_closed() -> NoReturn:
    raise OutputClosedError(errno.EPIPE, os.strerror(errno.EPIPE))


def call_text(name: str | None, args: dict[str, Any] | None) -> str:
    """A call as it is shown: `book(nights=3)`."""
    return f"{name}({', '.join(f'{key}={_compact(value)}' for key, value in (args or {}).items())})"


def _compact(value: Any) -> str:
    """Data on one line."""
    return json.dumps(value, ensure_ascii=False, default=repr)
