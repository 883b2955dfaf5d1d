"""A chat with an agent: turn by turn, with the questions in between, kept in a store."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Self

from google.genai import types

from flowloom.cli.display import Display
from flowloom.cli.human import Desk
from flowloom.cli.loading import Loaded
from flowloom.cli.model_choice import ModelChoice
from flowloom.cli.reading import Reader
from flowloom.cli.stores import USER_ID, opened
from flowloom.cli.usage_error import UsageError
from flowloom.context import RunConfig, StreamingMode
from flowloom.context.run import RUN_ENDED
from flowloom.errors import ConfigurationError, StorageError
from flowloom.events import Event, new_id
from flowloom.events.parts import content_of
from flowloom.human import HumanObserver
from flowloom.message import Message
from flowloom.pending import PendingCall, pending_calls
from flowloom.runner import Runner
from flowloom.sessions import Session

_DEFAULT_HINT = "Answer with `confirmed` true or false"
_YES = frozenset({"y", "yes"})
_NO = frozenset({"n", "no"})


class Chat:
    """One conversation. A turn that is interrupted leaves a history that the next message goes on from.

    Turns run on one event loop; between them the program waits for the user outside of it, so that Ctrl-C stops a
    turn while there is one, and is an ordinary interrupt otherwise.
    """

    def __init__(
        self,
        loaded: Loaded,
        choice: ModelChoice,
        display: Display,
        reader: Reader,
        *,
        stream: bool,
        store: str | None = None,
        session: str | None = None,
    ) -> None:
        self._dsn = store
        self._display = display
        self._reader = reader
        self._desk = Desk(display, reader)
        self._app_name, self._session_id = loaded.name, session or ""
        self._config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
        self._loaded, self._choice = loaded, choice
        self._loop = asyncio.Runner()
        self._left_open: set[str] = set()

    def __enter__(self) -> Self:
        self._loop.__enter__()
        try:
            self._loop.run(self._open())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._loop.run(self._close())
        self._loop.close()

    async def _open(self) -> None:
        """Open the store, and the session in it; a new one gets a name that can be typed."""
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(opened(self._dsn))
            names: dict[str, Any] = {"app_name": self._app_name, "user_id": USER_ID}
            try:
                if self._session_id:
                    await store.sessions.get_or_create_session(**names, session_id=self._session_id)
                else:
                    made = await store.sessions.create_session(**names, session_id=new_id()[:8])
                    self._session_id = made.id
            except (StorageError, ConfigurationError) as error:
                raise UsageError(str(error)) from error
            self._runner = Runner(
                app_name=self._app_name,
                agent=self._loaded.agent,
                plugins=[*self._choice.plugins, *self._loaded.plugins],
                session_service=store.sessions,
                artifact_service=store.artifacts,
                memory_service=store.memory,
                observers=[HumanObserver(), self._desk],
            )
            stack.push_async_callback(self._runner.close)
            self._stack = stack.pop_all()

    async def _close(self) -> None:
        await self._stack.aclose()

    def run(self, message: str | None) -> bool:
        """Answer `message`, or one message after the other until there are no more; whether that one failed."""
        if message is not None:
            return not self._answer(message)
        if self._reader.asks:
            self._display.notice(
                f"Talk to {self._runner.agent.name} (session {self._session_id}). Ctrl-C stops an answer, Ctrl-D leaves."
            )
        try:
            self._finish_what_was_cut_off()
            self._ask_what_is_open()  # by a session that was left while it waited
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

    def _finish_what_was_cut_off(self) -> None:
        """A turn that ended with its process, and not by itself, can be gone on with."""
        invocation_id = cut_off(self._session().events)
        if invocation_id is None or not self._reader.asks:
            return
        answer = self._reader.answer("The last turn was cut off. Go on with it? [Y/n] ")
        if answer is not None and answer.lower() not in _NO:
            self._turn(None, invocation_id)

    def _turn(self, message: Message | None, invocation_id: str | None = None) -> bool:
        display = self._display
        display.begin_turn()
        try:
            interrupts = self._loop.run(self._run_turn(message, invocation_id))
        except Exception as error:
            if not display.failed:
                display.error(f"{type(error).__name__}: {error}")
            return False
        if interrupts > 1:  # a tool still blocks
            raise KeyboardInterrupt
        return not interrupts and not display.failed

    async def _run_turn(self, message: Message | None, invocation_id: str | None) -> int:
        """Show a turn; how often it was interrupted.

        A first interrupt is told at once, and then what still blocks is waited for; a second one leaves that to itself.
        The history becomes legal in either case.
        """
        turn = asyncio.ensure_future(self._show_turn(message, invocation_id))
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

    async def _show_turn(self, message: Message | None, invocation_id: str | None) -> None:
        events = self._runner.run_async(
            user_id=USER_ID,
            session_id=self._session_id,
            invocation_id=invocation_id,
            new_message=message,
            run_config=self._config,
        )
        try:
            async for event in events:
                self._display.show(event)
        finally:
            await events.aclose()
            await self._desk.close()
            self._display.end_turn()

    def _session(self) -> Session:
        session = self._loop.run(
            self._runner.session_service.get_session(
                app_name=self._app_name, user_id=USER_ID, session_id=self._session_id
            )
        )
        if session is None:
            raise UsageError(f"The session `{self._session_id}` was deleted by somebody else.")
        return session

    # -- questions -----------------------------------------------------------------------------------------

    def _open_calls(self) -> list[PendingCall]:
        """What waits for the user since the latest words."""
        events = self._session().events
        said = (i for i in reversed(range(len(events))) if _are_words(events[i]))
        return [call for call in pending_calls(events[next(said, 0) :]) if call.id not in self._left_open]

    def _ask(self, call: PendingCall) -> types.Part | None:
        """Ask the user about a call; None when it is left open."""
        if call.kind == "confirmation":
            return self._ask_confirmation(call)
        if call.kind == "credential":
            return self._ask_credential(call)
        question = f"{call.message}\n" if call.kind == "input" else ""
        prompt = "> " if question else f"Result of {call.name}({_arguments(call.args)}), as text or JSON> "
        if question:
            self._display.question(question)
        answer = self._reader.answer(prompt)
        if not answer:
            self._left_open.add(call.id)
            self._display.notice(f"No answer; {call.name} stays open.")
            return None
        return call.reply(_value(answer))

    def _ask_confirmation(self, call: PendingCall) -> types.Part:
        if _DEFAULT_HINT not in call.message:  # that one tells programs what to send
            self._display.question(f"{call.message}\n")
        answer = self._reader.answer(f"Run {call.name}({_arguments(call.args)})? [y/N] ")
        if answer is None:
            self._display.notice("No answer; the call is declined.")
        return call.approve() if (answer or "").lower() in _YES else call.reject()

    def _ask_credential(self, call: PendingCall) -> types.Part | None:
        address = call.authorization_url
        if address is None:
            self._left_open.add(call.id)
            self._display.notice("A tool needs a credential that cannot be given in the terminal.")
            return None
        self._display.question(f"Open this address, and give your consent:\n{address}\n")
        answer = self._reader.answer("The address that you were sent to> ")
        if not answer:
            self._left_open.add(call.id)
            return None
        return call.consent(answer)


def _are_words(event: Event) -> bool:
    return event.author == "user" and not event.get_function_responses()


def cut_off(events: Sequence[Event]) -> str | None:
    """The invocation of the latest event, if it did not end by itself."""
    last = events[-1] if events else None
    if last is None or not last.invocation_id or RUN_ENDED in (last.custom_metadata or ()):
        return None
    return last.invocation_id if last.author == "user" or not last.is_final_response() else None


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


def _arguments(args: dict[str, Any] | None) -> str:
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in (args or {}).items())


def _value(answer: str) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        return answer
