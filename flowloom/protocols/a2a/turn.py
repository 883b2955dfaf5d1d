"""`RemoteTurn`: one turn of a remote agent: what it is told, and what comes of it (protocols spec §4)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from inspect import isawaitable
from typing import Any

from google.genai import types

from flowloom.auth.bounded import AnswerTooLongError
from flowloom.context import InvocationContext
from flowloom.errors import error_text
from flowloom.events import Event
from flowloom.events.parts import text_part
from flowloom.protocols.a2a.asked import reply_parts
from flowloom.protocols.a2a.cards import card_check
from flowloom.protocols.a2a.config import ParametersConfig, RequestInterceptor, card_headers
from flowloom.protocols.a2a.conversation import Conversation, conversation_of, whole_conversation
from flowloom.protocols.a2a.exchange import Exchange
from flowloom.protocols.a2a.failures import RemoteAgentError
from flowloom.protocols.a2a.login import Login
from flowloom.protocols.a2a.parts import sent_part
from flowloom.protocols.a2a.reading import Reading
from flowloom.protocols.a2a.remote import Remote, RemoteSettings
from flowloom.protocols.a2a.remote_agent import RemoteA2aAgent
from flowloom.protocols.a2a.sdk import (
    CANCELED,
    A2AError,
    InvalidParamsError,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskNotFoundError,
    UnsupportedOperationError,
    httpx,
)

_FORGOTTEN = (TaskNotFoundError, InvalidParamsError, UnsupportedOperationError)
"""How a service says that it does not know a task or a context (any more), or that the task is over."""


def remote_of(agent: RemoteA2aAgent) -> Remote:
    """A connection for the agent in the running event loop."""
    return Remote(
        RemoteSettings(
            name=agent.name,
            card=agent.agent_card,
            httpx_client=agent.httpx_client,
            client_factory=agent.a2a_client_factory,
            timeout=agent.timeout,
            streaming=agent.streaming,
            allow_origins=agent.allow_origins,
            extensions=agent.extensions,
            card_check=None if agent.card_keys is None else card_check(agent.name, agent.card_keys),
        )
    )


class RemoteTurn:
    """A turn of `agent` in the place `ctx`, over the connection `remote`: `events` once, and then `close`."""

    def __init__(self, agent: RemoteA2aAgent, remote: Remote, ctx: InvocationContext) -> None:
        self._agent, self._remote, self._ctx = agent, remote, ctx
        self._exchange: Exchange | None = None
        self._granted: dict[str, str] = {}
        """The headers of the credential that goes with the calls, and nowhere else."""

    async def events(self) -> AsyncGenerator[Event, None]:
        """What the agent says in this turn. Raises `RemoteAgentError` if it cannot be asked."""
        agent, ctx = self._agent, self._ctx
        if agent.auth_scheme is not None:
            granted = await Login(ctx, agent.auth_scheme, agent.auth_credential, agent.credential_key).headers()
            if isinstance(granted, Event):
                yield granted
                return
            self._granted = granted
        conversation = conversation_of(ctx)
        message = await self._message(conversation)
        if not message.parts:
            yield ctx.new_event(
                {
                    "error_code": "A2A_NOTHING_TO_SAY",
                    "error_message": f"Nothing was said since the last turn of agent `{agent.name}`: it was not asked.",
                }
            )
            return
        try:
            async with aclosing(self._ask(message)) as events:
                async for event in events:
                    yield event
            return
        except _FORGOTTEN as error:
            knew = message.task_id or message.context_id
            if self._exchange is None or self._exchange.was_heard or not knew:
                raise failure_of(agent, self._remote.address, error) from error
        except (A2AError, httpx.HTTPError, AnswerTooLongError) as error:
            raise failure_of(agent, self._remote.address, error) from error
        await self.close()
        try:
            async with aclosing(self._ask(self._new(_sent(whole_conversation(ctx))))) as events:
                async for event in events:
                    yield event
        except (A2AError, httpx.HTTPError, AnswerTooLongError) as error:
            raise failure_of(agent, self._remote.address, error) from error

    async def close(self) -> None:
        """End what is under way; the agent's task is cancelled unless it is over, or waits."""
        if self._exchange is not None:
            await self._exchange.close()

    async def _ask(self, message: Message) -> AsyncGenerator[Event, None]:
        agent, ctx = self._agent, self._ctx
        headers = await agent.headers(ctx)
        client, card = await self._remote.client({**headers, **await card_headers(agent.config, ctx)})
        with_it = ParametersConfig(self._metadata(message), self._remote.call({**headers, **self._granted}))
        hooks: Sequence[RequestInterceptor] = (agent.config and agent.config.request_interceptors) or ()
        for hook in hooks:
            if hook.before_request is not None:
                given, with_it = await hook.before_request(ctx, message, with_it)
                if isinstance(given, Event):
                    yield given
                    return
                message = given
        self._exchange = Exchange(
            client,
            SendMessageRequest(message=message, metadata=with_it.request_metadata),
            with_it.client_call_context,
            name=agent.name,
            timeout=agent.timeout,
            polling_seconds=agent.polling_seconds,
            streams=agent.streaming and card.capabilities.streaming,
        )
        reading, latest = Reading(ctx, agent.config and agent.config.a2a_part_converter), None
        async with aclosing(self._exchange.updates()) as updates:
            async for latest in updates:
                for event in reading.take(latest):
                    if (kept := await self._hooked(hooks, latest, event)) is not None:
                        yield kept
        if not self._exchange.was_heard:
            raise RemoteAgentError(f"Agent `{agent.name}` at {self._remote.address} ended its answer without a word.")
        for event in reading.finish():
            if (kept := await self._hooked(hooks, latest, event)) is not None:
                yield kept
        if reading.state == CANCELED and ctx.run.caller is None:
            ctx.run.stopped = "cancelled"

    async def _hooked(self, hooks: Sequence[RequestInterceptor], said: Any, event: Event) -> Event | None:
        """An event as the hooks leave it; None if one of them leaves it out."""
        kept: Event | None = event
        for hook in hooks:
            if kept is not None and hook.after_request is not None:
                kept = await hook.after_request(self._ctx, said, kept)
        return kept

    # -- what is sent -------------------------------------------------------------------------------

    async def _message(self, conversation: Conversation) -> Message:
        """The message of this turn."""
        agent, ctx = self._agent, self._ctx
        parts: list[Part] = []
        for reply in conversation.replies:
            taken = ctx.run.keyring.take(reply.answer.id or "")
            parts += reply_parts(reply, dict(taken.response) if taken is not None else None)
        if conversation.task_id is None and agent.context_builder is not None:
            built: Any = agent.context_builder(ctx)
            said: Sequence[Any] = await built if isawaitable(built) else built
        elif agent.full_history_when_stateless and not conversation.context_id:
            said = whole_conversation(ctx)
        else:
            said = conversation.said
        message = self._new([*parts, *_sent([text_part(each) if isinstance(each, str) else each for each in said])])
        begun_in = conversation.context_id or (agent.config.context_id_of(ctx) if agent.config is not None else "")
        message.context_id, message.task_id = begun_in, conversation.task_id or ""
        return message

    def _new(self, parts: Sequence[Part]) -> Message:
        ctx = self._ctx
        return Message(
            role=Role.ROLE_USER,
            message_id=ctx.effects.new_id(ctx),
            parts=parts,
            extensions=sorted(set(self._agent.extensions)),
        )

    def _metadata(self, message: Message) -> dict[str, Any] | None:
        provider = self._agent.a2a_request_meta_provider
        given = None if provider is None else provider(self._ctx, message)
        return None if not given else dict(given)


def _sent(parts: Sequence[types.Part]) -> list[Part]:
    return [sent for sent in map(sent_part, parts) if sent is not None]


def failure_of(agent: RemoteA2aAgent, address: str, error: BaseException) -> RemoteAgentError:
    """The error for a call to a remote agent that failed."""
    return RemoteAgentError(f"Agent `{agent.name}` at {address} could not be asked: {error_text(error)}.")
