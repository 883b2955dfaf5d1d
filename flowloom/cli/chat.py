"""A chat with an agent: turn by turn, with the questions in between, kept in a store."""

from __future__ import annotations

import asyncio
import math
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import AsyncExitStack, contextmanager
from typing import Literal, Self

from flowloom.cli.conversation import Conversation
from flowloom.cli.display import Display, OutputClosedError
from flowloom.cli.human import Desk
from flowloom.cli.last_turn import cut_off, standing
from flowloom.cli.loading import Loaded
from flowloom.cli.model_choice import ModelChoice
from flowloom.cli.options import USER_ID
from flowloom.cli.questions import Questions
from flowloom.cli.reading import Reader
from flowloom.cli.slash import Commands, command_in, message_in
from flowloom.cli.stores import MEMORY, opened
from flowloom.cli.transcript import are_words, show_events
from flowloom.cli.usage_error import UsageError, told
from flowloom.context import RunConfig, StreamingMode
from flowloom.errors import RunLostError, SessionBusyError
from flowloom.events import Event
from flowloom.events.parts import content_of
from flowloom.human import HumanObserver
from flowloom.runner.message import Message
from flowloom.runner.pending import pending_calls
from flowloom.runner.runner import Runner
from flowloom.sessions import Session

_LEASE_SECONDS = 5.0
"""How long a session stays taken after its process was killed."""


class Chat:
    """One conversation. A turn that is interrupted leaves a history that the next message goes on from.

    Turns run on one event loop; between them the program waits for the user outside of it, so that Ctrl-C stops a
    turn while there is one, and is an ordinary interrupt otherwise. A session that is new is made by its first message.
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
        user: str = USER_ID,
        go_on: bool | None = None,
    ) -> None:
        self._loaded, self._choice = loaded, choice
        self._display, self._reader = display, reader
        self._dsn = store
        self._names = user, session
        self._go_on = go_on
        self._config = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
        self._desk = Desk(display, reader)
        self._questions = Questions(display, reader)
        self._loop = asyncio.Runner()
        self._leaves = False
        """Whether one message is all there is to be answered."""
        self._told_name: str | None = None
        """The name of a new session, once the person knows it."""

    def __enter__(self) -> Self:
        self._loop.__enter__()
        try:
            self._loop.run(self._open())
        except BaseException:
            self._loop.close()
            raise
        return self

    def __exit__(self, *exc_info: object) -> None:
        try:
            self._loop.run(self._stack.aclose())
        finally:
            self._loop.close()

    async def _open(self) -> None:
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(opened(self._dsn, make=True))
            runner = Runner(
                app_name=self._loaded.name,
                agent=self._loaded.agent,
                plugins=[*self._choice.plugins, *self._loaded.plugins],
                session_service=store.sessions,
                artifact_service=store.artifacts,
                memory_service=store.memory,
                observers=[HumanObserver(), self._desk],
                lease_seconds=_LEASE_SECONDS,
            )
            if self._loaded.app is not None:
                runner.take_settings(self._loaded.app)
            stack.push_async_callback(runner.close)
            self._runner = runner
            self._is_kept = store.name != MEMORY
            self._conversation = Conversation(runner, *self._names)
            self._commands = Commands(self._conversation, self._loaded, self._choice, self._display)
            self._stack = stack.pop_all()

    # -- the conversation ------------------------------------------------------------------------------

    def run(self, message: str | None) -> bool:
        """Answer `message`, or one message after the other until there are no more; whether that one failed.

        Raises `KeyboardInterrupt` when it was stopped before that: at a terminal, a chat that is left is over.
        """
        self._leaves = message is not None
        if message is not None and not self._go_on:
            return not self._answer(message)
        well = True
        try:
            if self._reader.asks and message is None:
                self._greet()
            well = self._take_up(shown=message is None)
            if message is not None:
                return not (well and self._answer(message))
            while not self._commands.has_left and (text := self._reader.message()) is not None:
                command = command_in(text)
                if command is None:
                    self._answer(message_in(text))
                else:
                    self._obey(command)
        except KeyboardInterrupt:
            if self._leaves or not self._reader.asks:
                raise
        if self._reader.asks:
            self._display.notice("Goodbye.")
        return bool(self._go_on) and not well

    def _greet(self) -> None:
        name = f" (session {self._conversation.session_id})" if self._is_kept else ""
        self._display.notice(
            f"Talk to {self._runner.agent.name}{name}. Ctrl-C stops an answer, Ctrl-D leaves, /help tells more."
        )
        self._told_name = self._conversation.session_id

    def _take_up(self, *, shown: bool = True) -> bool:
        """Go on where the session was left; whether it went well."""
        session = self._session()
        if shown and self._reader.asks and session is not None and session.events:
            self._display.notice("This is where it was left:")
            show_events(self._display, _since_words(session))
        return self._go_on_with(session)

    def _obey(self, command: str) -> None:
        """Carry out a command. What goes wrong is told, and the chat goes on."""
        before = self._conversation.session_id
        try:
            try:
                self._loop.run(self._commands.obey(command))
            except KeyboardInterrupt:
                self._display.notice("Stopped.")
            if self._conversation.session_id != before:
                self._display.notice(f"Session {self._conversation.session_id}.")
                self._take_up()
        except UsageError as error:
            self._display.error(str(error))
        except OutputClosedError:
            raise
        except Exception as error:
            self._display.error(told(error))

    def _answer(self, message: Message) -> bool:
        """One turn and those that answers to its questions lead to; whether they went well."""
        well = self._turn(message)
        return self._ask_what_is_open() and well

    def _session(self) -> Session | None:
        return self._loop.run(self._conversation.session())

    def _go_on_with(self, session: Session | None) -> bool:
        """Finish what was cut off, and ask what waits, of whatever turn; whether it went well."""
        if session is None:
            return True
        well, invocation_id = True, cut_off(self._runner.agent, session)
        if invocation_id is not None and self._wants_to_go_on():
            well = self._turn(None, invocation_id)
            session = self._session()
        parts = self._questions.answers(pending_calls(standing(session))) if session is not None else []
        return self._turn(content_of("user", parts)) and self._ask_what_is_open() if parts else well

    def _wants_to_go_on(self) -> bool:
        if self._go_on is None and self._reader.asks:
            question = "The last turn did not come to its end. Go on with it? [Y/n] "
            answer = self._reader.answer(question, interrupted="n")
            return answer is not None and answer.lower() in ("", "y", "yes")
        if self._go_on is None:
            self._display.notice("The last turn did not come to its end; `--go-on` would resume it.")
        return bool(self._go_on)

    def _ask_what_is_open(self) -> bool:
        """Ask what waits since the latest words, until nothing does that can be answered; whether it went well."""
        well = True
        while well and (session := self._session()) is not None:
            parts = self._questions.answers(pending_calls(_since_words(session)))
            if not parts:
                break
            well = self._turn(content_of("user", parts))
        return well

    def _turn(self, message: Message | None, invocation_id: str | None = None) -> bool:
        display = self._display
        display.begin_turn()
        try:
            interrupts = self._loop.run(self._run_turn(message, invocation_id))
        except OutputClosedError:
            raise
        except Exception as error:
            if not display.failed:
                display.error(f"{type(error).__name__}: {error}")
            return False
        if interrupts > 1 or (interrupts and self._leaves):  # the first, if a tool still blocks
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
                self._display.end_turn()
                further = "" if self._leaves else " The conversation goes on with the next message; Ctrl-C leaves."
                self._display.notice(f"Stopped.{further}")
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
        try:
            is_new, name = await self._conversation.make(), self._conversation.session_id
            if is_new and self._is_kept and name != self._told_name:
                self._display.notice(f"Session {name}: `--session {name}` goes on with it.")
            try:
                await self._show_events(message, invocation_id, "reject")
            except SessionBusyError as busy:
                if busy.session_id != self._conversation.session_id or isinstance(busy, RunLostError):
                    raise
                seconds = math.ceil(busy.retry_after or _LEASE_SECONDS)
                self._display.notice(
                    f"Another program is at work on this session; waiting for it ({seconds} seconds, if it was killed)."
                )
                await self._show_events(message, invocation_id, "queue")
        finally:
            await self._desk.close()
            self._display.end_turn()

    async def _show_events(
        self, message: Message | None, invocation_id: str | None, concurrency: Literal["queue", "reject"]
    ) -> None:
        self._runner.concurrency = concurrency
        events = self._runner.run_async(
            user_id=self._conversation.user_id,
            session_id=self._conversation.session_id,
            invocation_id=invocation_id,
            new_message=message,
            run_config=self._config,
        )
        try:
            async for event in events:
                self._display.show(event)
        finally:
            await events.aclose()


def _since_words(session: Session) -> list[Event]:
    """The latest turn, from the user's words on."""
    events = standing(session)
    said = (i for i in reversed(range(len(events))) if are_words(events[i]))
    return list(events[next(said, 0) :])


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
