"""What a conversation waits for, asked of the person at the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.genai import types
from pydantic_core import from_json

from flowloom.cli.display import Display, call_text
from flowloom.cli.reading import Reader
from flowloom.runner.pending import PendingCall
from flowloom.schemas.words import value_of_words

_DEFAULT_HINT = "Answer with `confirmed` true or false"
_YES = frozenset({"y", "yes"})
_NO = frozenset({"", "n", "no"})


class Questions:
    """Asks about the calls that wait. One that gets no answer stays open, and is not asked about a second time."""

    def __init__(self, display: Display, reader: Reader) -> None:
        self._display = display
        self._reader = reader
        self._left_open: set[str] = set()

    def answers(self, calls: Iterable[PendingCall]) -> list[types.Part]:
        """The answers to what waits, as far as there are any."""
        found: list[types.Part] = []
        for call in calls:
            if call.id in self._left_open:
                continue
            part = self._ask(call)
            if part is None:
                self._left_open.add(call.id)
            else:
                found.append(part)
        return found

    def _ask(self, call: PendingCall) -> types.Part | None:
        if call.kind == "confirmation":
            return self._ask_confirmation(call)
        if call.kind == "credential":
            return self._ask_credential(call)
        if call.kind == "input":
            self._display.question(f"{call.message}\n")
            answer = self._reader.answer("answer> ")
        else:
            answer = self._reader.answer(f"Result of {call_text(call.name, call.args)}, as text or JSON> ")
        if not answer:
            self._leave_open(call)
            return None
        return call.reply(_value(answer, call.response_schema))

    def _ask_confirmation(self, call: PendingCall) -> types.Part | None:
        if call.message and _DEFAULT_HINT not in call.message:  # that one tells programs what to send
            self._display.question(f"{call.message}\n")
        answer = self._reader.answer(f"Run {call_text(call.name, call.args)}? [y/N] ")
        if answer is None:
            self._leave_open(call)
            return None
        if answer.lower() in _YES:
            return call.approve()
        if not answer:
            self._display.notice("No answer; the call is declined.")
        return call.reject(None if answer.lower() in _NO else answer)

    def _ask_credential(self, call: PendingCall) -> types.Part | None:
        address = call.authorization_url
        if address is None:
            self._display.notice(f"{call.name} needs a credential, which cannot be given in the terminal.")
            return None
        self._display.question(f"Open this address, and give your consent:\n{address}\n")
        answer = self._reader.answer("The address that you were sent to then> ")
        if not answer:
            self._leave_open(call)
            return None
        return call.consent(answer)

    def _leave_open(self, call: PendingCall) -> None:
        self._display.notice(f"No answer; {'the question' if call.kind == 'input' else call.name} stays open.")


def _value(answer: str, schema: dict[str, Any] | None) -> Any:
    if schema:
        return value_of_words(answer, schema)
    try:
        return from_json(answer)
    except ValueError:
        return answer
