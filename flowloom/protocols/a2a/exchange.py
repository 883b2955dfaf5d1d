"""`Exchange`: one message to a remote agent, and all that it says until its task is over or waits.

A task of its own speaks with the service: it reads the stream, looks again where one breaks, and asks for the task's
end when the exchange is closed before (protocols spec §4).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from importlib import import_module
from typing import Any, cast

from flowloom.context.ending import to_its_end
from flowloom.protocols.a2a.failures import RemoteAgentTimeoutError
from flowloom.protocols.a2a.remote import task_named
from flowloom.protocols.a2a.sdk import (
    OVER,
    WAITS,
    A2AClientError,
    A2AError,
    Client,
    ClientCallContext,
    InvalidParamsError,
    SendMessageRequest,
    StreamResponse,
    TaskNotFoundError,
    UnsupportedOperationError,
    httpx,
)
from flowloom.protocols.spans import protocol_span

CANCEL_SECONDS = 2.0
"""How long the service has to take the request for a task's end."""
_LINGER_SECONDS = 0.2
"""How long a stream may stay open when there is nothing more to say."""
_FIRST_LOOK = 0.1
_MOST_FAILURES = 5
"""How often in a row a look at the task may fail."""
_MOST_STREAMS = 3
"""How often a stream is resumed."""


class Exchange:
    """Sends `request` through `client`, with `call` as the context of each call; see `updates` and `close`.

    `name` is the agent's, for error texts; `timeout` limits it all, `polling_seconds` is the longest time between two
    looks, in seconds; `streams` says whether the service can be asked to stream.
    """

    def __init__(
        self,
        client: Client,
        request: SendMessageRequest,
        call: ClientCallContext,
        *,
        name: str,
        timeout: float,
        polling_seconds: float,
        streams: bool,
    ) -> None:
        self._client, self._request, self._call = client, request, call
        self._name, self._timeout, self._polling, self._streams = name, timeout, polling_seconds, streams
        self._end = asyncio.get_running_loop().time() + timeout
        self._updates: asyncio.Queue[StreamResponse | BaseException | None] = asyncio.Queue()
        self._heard = asyncio.Event()
        self.context_id = request.message.context_id
        self.task_id = request.message.task_id
        self.settled = False
        """Whether the task is over or waits, or there is none: nothing more comes."""
        self._task = asyncio.create_task(self._speak(), name=f"a2a exchange with {name}")

    async def updates(self) -> AsyncGenerator[StreamResponse, None]:
        """What the agent says, in order. Raises what ends it before it is settled: `A2AError`, an error of `httpx`, or
        `RemoteAgentTimeoutError`."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout_at(self._end):
                    update = await self._updates.get()
            except TimeoutError:
                raise RemoteAgentTimeoutError(
                    f"Agent `{self._name}` did not finish within {self._timeout:g} s. Its task is cancelled. Give it "
                    f"more time by `timeout=`."
                ) from None
            if update is None:
                return
            if isinstance(update, BaseException):
                raise update
            started = loop.time()
            yield update
            self._end += loop.time() - started  # what the consumer takes is not the agent's

    @property
    def was_heard(self) -> bool:
        """Whether the agent has said anything."""
        return self._heard.is_set()

    async def close(self) -> None:
        """End the exchange; the agent's task is cancelled unless it is settled. Takes two seconds at the most."""
        if self._task.done() and (self.settled or not self.task_id):
            return
        if self.settled:  # the stream lingers
            await asyncio.wait((self._task,), timeout=2 * _LINGER_SECONDS)
        late = f"Agent `{self._name}` has not confirmed that its task is cancelled"
        await to_its_end(self._cancel(), hurried=True, grace=CANCEL_SECONDS, late=late)

    async def _cancel(self) -> None:
        try:
            if not self.was_heard and not self.task_id and not self._task.done():
                hearing = asyncio.create_task(self._heard.wait())
                try:  # the task's id is in the first answer
                    await asyncio.wait((hearing, self._task), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    hearing.cancel()
        finally:
            self._task.cancel()
            await asyncio.wait((self._task,))
        if self.task_id and not self.settled:
            try:
                await self._client.cancel_task(task_named(self.task_id)[2], context=self._call)
            except (A2AError, httpx.HTTPError, httpx.StreamError):
                pass  # it is over already, or the service is gone: there is nothing left to end

    # -- in the task of its own ---------------------------------------------------------------------

    async def _speak(self) -> None:
        with protocol_span("a2a.send_message", {"a2a.agent": self._name}) as span:
            if span is not None and self._call.service_parameters is not None:
                import_module("opentelemetry.propagate").inject(self._call.service_parameters)
            await self._exchange()
            if span is not None and self.task_id:
                span.set_attribute("a2a.task_id", self.task_id)

    async def _exchange(self) -> None:
        try:
            try:
                await self._take(self._client.send_message(self._request, context=self._call))
            except (A2AClientError, httpx.HTTPError) as error:
                if not (self.was_heard and self.task_id):
                    raise error
            await self._follow()
        except Exception as error:
            self._updates.put_nowait(error)
        else:
            self._updates.put_nowait(None)

    async def _take(self, stream: AsyncIterator[StreamResponse]) -> None:
        """Take in what a stream gives, until it ends or nothing more can come."""
        loop, settled = asyncio.get_running_loop(), asyncio.timeout(None)
        async with aclosing(cast(AsyncGenerator[StreamResponse, None], stream)) as events:
            try:
                async with settled:
                    async for event in events:
                        if self.settled:
                            continue
                        self._note(event)
                        self._updates.put_nowait(event)
                        self._heard.set()
                        if self.settled:
                            self._updates.put_nowait(None)
                            settled.reschedule(loop.time() + _LINGER_SECONDS)  # most services end the stream by now
            except TimeoutError:
                if not settled.expired():
                    raise

    def _note(self, event: StreamResponse) -> None:
        """Whose conversation it is, and whether it goes on."""
        kind = event.WhichOneof("payload")
        if kind is None:
            return
        said: Any = getattr(event, kind)
        self.context_id = said.context_id or self.context_id
        if kind == "message":
            self.settled = True
            self.task_id = said.task_id
            return
        self.task_id = (said.id if kind == "task" else said.task_id) or self.task_id
        if kind != "artifact_update":
            self.settled = said.status.state in OVER | WAITS

    async def _follow(self) -> None:
        """Stay with a task that goes on though its stream has ended: take the stream up again, or look at the task."""
        streams = _MOST_STREAMS if self._streams else 0
        pause, failures = _FIRST_LOOK, 0
        while not self.settled and self.task_id:
            get, subscribe, _ = task_named(self.task_id)
            try:
                if streams:
                    streams -= 1
                    await self._take(self._client.subscribe(subscribe, context=self._call))
                else:
                    task = await self._client.get_task(get, context=self._call)
                    await self._take(_only(StreamResponse(task=task)))
                failures = 0
            except TaskNotFoundError:
                raise
            except (A2AError, httpx.HTTPError) as error:
                failures += 1
                if isinstance(error, UnsupportedOperationError | InvalidParamsError):
                    streams = 0  # the task is over, or cannot be subscribed to: a look tells
                    continue
                if failures >= _MOST_FAILURES:
                    raise
            if not self.settled:
                await asyncio.sleep(pause)
                pause = min(pause * 2, self._polling)


async def _only(event: StreamResponse) -> AsyncGenerator[StreamResponse, None]:
    yield event
