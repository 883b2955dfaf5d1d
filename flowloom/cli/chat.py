"""A chat with an agent: turn by turn, with the questions in between, saved after each."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from google.genai import types

from flowloom.artifacts import InMemoryArtifactService
from flowloom.cli.display import Display
from flowloom.cli.human import Desk
from flowloom.cli.loading import Loaded
from flowloom.cli.model_choice import ModelChoice
from flowloom.cli.reading import Reader
from flowloom.cli.session_file import SessionFile
from flowloom.context import RunConfig, StreamingMode
from flowloom.events import Event
from flowloom.events.parts import content_of, response_part
from flowloom.human import HumanObserver
from flowloom.memory import InMemoryMemoryService
from flowloom.message import Message
from flowloom.runner import Runner
from flowloom.sessions import InMemorySessionService, Session

_CONFIRMATION = "adk_request_confirmation"
_DEFAULT_HINT = "Answer with `confirmed` true or false"
_YES = frozenset({"y", "yes"})


class Chat:
    """One conversation. A turn that is interrupted leaves a history that the next message goes on from.

    Turns run on one event loop; between them the program waits for the user outside of it, so that Ctrl-C stops a
    turn while there is one, and is an ordinary interrupt otherwise.
    """

    def __init__(
        self,
        loaded: Loaded,
        choice: ModelChoice,
        file: SessionFile,
        display: Display,
        reader: Reader,
        *,
        stream: bool,
    ) -> None:
        self._file = file
        self._display = display
        self._reader = reader
        self._desk = Desk(display, reader)
        self._sessions = InMemorySessionService()
        self._sessions.adopt(file.session)
        self._user_id, self._session_id = file.session.user_id, file.session.id
        self._config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
        self._runner = Runner(
            app_name=file.session.app_name,
            agent=loaded.agent,
            plugins=[*choice.plugins, *loaded.plugins],
            session_service=self._sessions,
            artifact_service=InMemoryArtifactService(),
            memory_service=InMemoryMemoryService(),
            observers=[HumanObserver(), self._desk],
        )
        self._loop = asyncio.Runner()
        self._left_open: set[str] = set()

    def __enter__(self) -> Self:
        self._loop.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.run(self._runner.close())
        self._loop.close()

    def run(self, message: str | None) -> bool:
        """Answer `message`, or one message after the other until there are no more; whether that one failed."""
        if message is not None:
            return not self._answer(message)
        if self._reader.asks:
            self._display.notice(f"Talk to {self._runner.agent.name}. Ctrl-C stops an answer, Ctrl-D leaves.")
        try:
            self._ask_what_is_open()  # by a session that was saved while it waited
            while (text := self._reader.message()) is not None:
                self._answer(text)
        except KeyboardInterrupt:
            pass
        if self._reader.asks:
            self._display.notice("Goodbye.")
        return False

    def _answer(self, message: Message) -> bool:
        """One turn and those that answers to its questions lead to; whether they went well."""
        well = self._turn(message)
        return self._ask_what_is_open() and well

    def _ask_what_is_open(self) -> bool:
        well = True
        while well and (calls := self._open_calls()):
            parts = [part for call in calls if (part := self._ask(call)) is not None]
            if parts:
                well = self._turn(content_of("user", parts))
        return well

    def _turn(self, message: Message) -> bool:
        display = self._display
        display.begin_turn()
        try:
            interrupts = self._loop.run(self._run_turn(message))
        except Exception as error:
            if not display.failed:
                display.error(f"{type(error).__name__}: {error}")
            return False
        finally:
            self._file.save(self._session())
        if interrupts > 1:  # a tool still blocks
            raise KeyboardInterrupt
        return not interrupts and not display.failed

    async def _run_turn(self, message: Message) -> int:
        """Show a turn; how often it was interrupted.

        A first interrupt is told at once, and then what still blocks is waited for; a second one leaves that to itself.
        The history becomes legal in either case.
        """
        turn = asyncio.ensure_future(self._show_turn(message))
        loop = asyncio.get_running_loop()
        pressed = 0

        def stop() -> None:
            nonlocal pressed
            pressed += 1
            if pressed == 1:
                turn.cancel()
                self._desk.stop()
                self._display.interrupt()
                self._display.notice("Stopped. The conversation goes on with the next message; Ctrl-C leaves.")
            elif pressed == 2:
                abandon()

        def abandon() -> None:
            if not turn.done():
                turn.cancel()
                loop.call_later(0.01, abandon)

        with _interrupts_call(stop):
            await asyncio.wait({turn})
        if pressed:
            await asyncio.gather(turn, return_exceptions=True)
        else:
            await turn
        return pressed

    async def _show_turn(self, message: Message) -> None:
        events = self._runner.run_async(
            user_id=self._user_id, session_id=self._session_id, new_message=message, run_config=self._config
        )
        try:
            async for event in events:
                self._display.show(event)
        finally:
            await events.aclose()
            await self._desk.close()
            self._display.end_turn()

    def _session(self) -> Session:
        session = self._sessions.get_session_sync(
            app_name=self._runner.app_name, user_id=self._user_id, session_id=self._session_id
        )
        assert session is not None
        return session

    # -- questions -----------------------------------------------------------------------------------------

    def _open_calls(self) -> list[types.FunctionCall]:
        """The calls since the user's latest words that wait for the user."""
        return [call for call in open_calls(self._session().events) if call.id not in self._left_open]

    def _ask(self, call: types.FunctionCall) -> types.Part | None:
        """Ask the user about a call; None when it is left open."""
        if call.name == _CONFIRMATION:
            return self._ask_confirmation(call)
        answer = self._reader.answer(f"Result of {call.name}({_arguments(call.args)}), as text or JSON> ")
        if not answer:
            self._left_open.add(call.id or "")
            self._display.notice(f"No answer; {call.name} stays open.")
            return None
        return response_part(call.id, call.name, _as_result(answer))

    def _ask_confirmation(self, call: types.FunctionCall) -> types.Part:
        args = call.args or {}
        original: dict[str, Any] = args.get("originalFunctionCall") or {}
        decision: dict[str, Any] = args.get("toolConfirmation") or {}
        hint = str(decision.get("hint") or "")
        if _DEFAULT_HINT not in hint:  # that one tells programs what to send
            self._display.question(f"{hint}\n")
        shown = f"{original.get('name')}({_arguments(original.get('args'))})"
        answer = self._reader.answer(f"Run {shown}? [y/N] ")
        if answer is None:
            self._display.notice("No answer; the call is declined.")
        confirmed = (answer or "").lower() in _YES
        return response_part(call.id, _CONFIRMATION, {"confirmed": confirmed})


@contextmanager
def _interrupts_call(stop: Callable[[], None]) -> Generator[None]:
    """Let Ctrl-C call `stop` in the event loop. As an exception it could come anywhere, and break the loop itself.

    A third one is an exception all the same, for a program that blocks the loop.
    """
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGINT)
    count = 0

    def pressed(*_: object) -> None:
        nonlocal count
        count += 1
        if count > 2:
            raise KeyboardInterrupt
        loop.call_soon_threadsafe(stop)

    if sys.platform != "win32":  # a handler of the loop's own wakes it up; there loops have none
        loop.add_signal_handler(signal.SIGINT, lambda: None)
    signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        if sys.platform != "win32":
            loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


def open_calls(events: Sequence[Event]) -> list[types.FunctionCall]:
    """The calls since the user's latest words that run on until the user answers, in call order."""
    found: dict[str, types.FunctionCall] = {}
    for event in events:
        if event.author == "user":
            answered = event.get_function_responses()
            if not answered:
                found = {}
            for response in answered:
                found.pop(response.id or "", None)
        else:
            waiting = event.long_running_tool_ids or ()
            found.update({call.id: call for call in event.get_function_calls() if call.id and call.id in waiting})
    return list(found.values())


def _arguments(args: dict[str, Any] | None) -> str:
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in (args or {}).items())


def _as_result(answer: str) -> dict[str, Any]:
    try:
        data: Any = json.loads(answer)
    except ValueError:
        data = answer
    return data if isinstance(data, dict) else {"result": data}  # pyright: ignore[reportUnknownVariableType]
