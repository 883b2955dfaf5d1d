"""`OpenCall`: a call that a server works on, and what the server asks meanwhile (protocols spec §1, Mapping).

The call runs in a task of its own, so that it can outlive the run that made it while a person is asked.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, Literal

from flowloom.context.ending import all_ended
from flowloom.protocols.mcp.errors import McpTransportError

QuestionKind = Literal["elicitation", "sampling"]


@dataclass(eq=False)
class Question:
    """What a server asks while it works on a call: its parameters, as the SDK gives them, and where the answer goes."""

    kind: QuestionKind
    params: Any
    context: Any = None
    """The SDK's, for callbacks of the program."""
    answer: asyncio.Future[Any] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class OpenCall:
    """A call at work. `session` says whose it is (app, user, session), `call_id` which call of the session."""

    def __init__(self, session: tuple[str, str, str], call_id: str) -> None:
        self.session = session
        self.call_id = call_id
        self.asked = 0
        """How many questions were answered by a person."""
        self.prompts: set[str] = set()
        """The requests for leave to answer its prompts that were decided."""
        self.asks = False
        """Whether its result is what a server of the newer era asks, and it is kept until that is answered."""
        self.given: dict[str, Any] = {}
        """The answers to that, by the server's names."""
        self.on_progress: Callable[[float, float | None, str | None], Any] | None = None
        self._questions: deque[Question] = deque()
        self._news = asyncio.Event()
        self._task: asyncio.Task[Any] | None = None

    def begin(self, work: Callable[[OpenCall], Coroutine[Any, Any, Any]]) -> None:
        """Begin the work, in a task whose context names this call."""
        context = copy_context()
        context.run(open_call.set, self)
        self._task = asyncio.get_running_loop().create_task(self._worked(work), context=context)
        self._task.add_done_callback(lambda _: self._news.set())

    async def _worked(self, work: Callable[[OpenCall], Coroutine[Any, Any, Any]]) -> Any:
        try:
            return await work(self)
        finally:
            self._news.set()  # whoever waits wakes when this is done, and not a turn of the loop later

    async def next_question(self) -> Question | None:
        """The next question that has no answer; None once the call is done."""
        while True:
            while self._questions and self._questions[0].answer.done():
                self._questions.popleft()
            if self.done:
                return None
            if self._questions:
                return self._questions[0]
            self._news.clear()
            await self._news.wait()

    async def ask(self, question: Question) -> Any:
        """Put a question, and wait for its answer; for the connection."""
        self._questions.append(question)
        self._news.set()
        return await question.answer

    @property
    def done(self) -> bool:
        """Whether the call has its result."""
        return self._task is not None and self._task.done()

    def result(self) -> Any:
        """What came of the call; raises what it raised."""
        assert self._task is not None
        if self._task.cancelled():
            raise McpTransportError("the connection was closed", sent=True)
        return self._task.result()

    def cancel(self) -> None:
        """Cancel the call, whose server is told so."""
        if self._task is not None:
            self._task.cancel()

    async def ended(self) -> None:
        """Cancel the call if it is not done, and return when it is."""
        if self._task is not None:
            self._task.cancel()
            await all_ended((self._task,))

    def when_done(self, call: Callable[[], object]) -> None:
        """Have `call` made when the work is done."""
        assert self._task is not None
        self._task.add_done_callback(lambda _: call())


open_call: ContextVar[OpenCall | None] = ContextVar("flowloom_mcp_call", default=None)
"""The call that is being worked on; over HTTP what a server asks comes in the context of the call that it is about."""
