"""`RemoteA2aAgent`: an agent of another service as an agent of ours (protocols spec §4)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from importlib import import_module
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, ClassVar, cast
from weakref import WeakKeyDictionary

from google.genai import types

from flowloom.agents import BaseAgent
from flowloom.context import InvocationContext, ReadonlyContext
from flowloom.errors import ConfigurationError
from flowloom.events import Event
from flowloom.objects.no_collection import NoCollection
from flowloom.protocols.a2a.config import A2aRemoteAgentConfig, card_headers
from flowloom.protocols.a2a.failures import RemoteAgentError
from flowloom.protocols.a2a.status import RemoteStatus
from flowloom.protocols.loading import in_thread
from flowloom.protocols.words import cleaned

if TYPE_CHECKING:
    from flowloom.protocols.a2a.remote import Remote


_LONGEST_DESCRIPTION = 2000
_log = logging.getLogger("flowloom.a2a")

HeaderProvider = Callable[[ReadonlyContext], "Mapping[str, str] | Awaitable[Mapping[str, str]]"]
"""The headers that go with the calls to a remote agent; sync or async."""
ContextBuilder = Callable[[InvocationContext], "Sequence[types.Part | str] | Awaitable[Sequence[types.Part | str]]"]
"""What a remote agent is told in a turn, in place of what it has not heard; sync or async."""
MetaProvider = Callable[[InvocationContext, Any], "Mapping[str, Any] | None"]
"""The metadata of a request, from the context and the protocol's message."""


class RemoteA2aAgent(BaseAgent):
    """An agent that another service runs, behind the A2A protocol. Needs the extra `a2a`.

    `name` is its name here. `agent_card` says where it is: its `AgentCard`, the path of a file with one, or an address,
    of the card or of the agent. The card is fetched when it is first needed, and looked at again after an hour; the
    `description` is the card's if none is given.

    A turn sends what the agent has not had yet: the user's words, and what other agents said since its last turn,
    marked as theirs; or what `context_builder` returns for the context. State, instructions, thoughts, credentials and
    calls are never sent, and the agent's answers change no state. Its questions pause the run; the answer, a function
    response or plain words, goes to the task that asked.

    `timeout` limits a turn, in seconds; one that ends before has its task cancelled. `streaming=False` has the task
    looked at, every `polling_seconds` at the most, which is also done where a stream breaks. `header_provider` gives
    headers for each call. `auth_scheme`, `auth_credential` and `credential_key` name the credential that goes with
    calls, as `AuthConfig` does. `allow_origins` lists origins that the agent may be served from beside that of its
    card, and those of its services without https. `extensions` are those of the protocol that are asked for, by their
    URIs. `card_keys`, by key id, verify the signature of a card, which then has to have one. `httpx_client` makes the
    calls instead of one of the agent's own, which is closed with it; `a2a_client_factory` is a `ClientFactory` of the
    SDK. `a2a_request_meta_provider` gives the metadata of a request. With `full_history_when_stateless` an agent that
    keeps no context is told all each time. `config` holds hooks for requests, parts and the card, see
    `A2aRemoteAgentConfig`.

    Raises `ConfigurationError` for an address without https that is not of this machine.
    """

    takes_words: ClassVar[bool] = True

    agent_card: Any
    httpx_client: Any = None
    timeout: float = 600.0
    a2a_client_factory: Any = None
    a2a_request_meta_provider: Any = None
    full_history_when_stateless: bool = False
    context_builder: Any = None
    auth_scheme: Any = None
    auth_credential: Any = None
    credential_key: str | None = None
    config: Any = None
    header_provider: Any = None
    streaming: bool = True
    allow_origins: Sequence[str] = ()
    polling_seconds: float = 2.0
    extensions: Sequence[str] = ()
    card_keys: Any = None

    __slots__ = ("_remotes",)

    def __init__(
        self,
        name: str,
        agent_card: Any,
        *,
        description: str = "",
        httpx_client: Any = None,
        timeout: float = 600.0,
        a2a_client_factory: Any = None,
        a2a_request_meta_provider: MetaProvider | None = None,
        full_history_when_stateless: bool = False,
        context_builder: ContextBuilder | None = None,
        auth_scheme: Any = None,
        auth_credential: Any = None,
        credential_key: str | None = None,
        config: A2aRemoteAgentConfig | None = None,
        header_provider: HeaderProvider | None = None,
        streaming: bool = True,
        allow_origins: Sequence[str] = (),
        polling_seconds: float = 2.0,
        extensions: Sequence[str] = (),
        card_keys: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        object.__setattr__(self, "_remotes", WeakKeyDictionary[asyncio.AbstractEventLoop, Any]())
        given = {
            "name": name,
            "agent_card": agent_card,
            "description": description,
            "httpx_client": httpx_client,
            "timeout": timeout,
            "a2a_client_factory": a2a_client_factory,
            "a2a_request_meta_provider": a2a_request_meta_provider,
            "full_history_when_stateless": full_history_when_stateless,
            "context_builder": context_builder,
            "auth_scheme": auth_scheme,
            "auth_credential": auth_credential,
            "credential_key": credential_key,
            "config": config,
            "header_provider": header_provider,
            "streaming": streaming,
            "allow_origins": allow_origins,
            "polling_seconds": polling_seconds,
            "extensions": extensions,
            "card_keys": card_keys,
        }
        super().__init__(**given, **fields)

    def _when_made(self) -> None:
        super()._when_made()
        if isinstance(self.agent_card, str) and not self.agent_card.strip():
            raise ConfigurationError(f"Agent `{self.name}` has an empty `agent_card`. Give an address or a card.")
        if self.config is not None and not isinstance(self.config, A2aRemoteAgentConfig):
            raise ConfigurationError(
                f"Agent `{self.name}`: `config` takes an `A2aRemoteAgentConfig` of `flowloom.protocols.a2a`, not "
                f"{type(self.config).__module__}.{type(self.config).__name__}."
            )
        for field in ("timeout", "polling_seconds"):
            if getattr(self, field) <= 0:
                raise ConfigurationError(f"Agent `{self.name}`: `{field}` is {getattr(self, field)}; give more than 0.")

    # -- the connection -----------------------------------------------------------------------------

    async def look_up_description(self, ctx: InvocationContext) -> None:
        """Get the description from the card, if there is none. An agent whose card cannot be had stays without one: it
        is told when the agent is called."""
        if self.description:
            return
        remote = await self.remote()
        try:
            card = await remote.card({**await self.headers(ctx), **await card_headers(self.config, ctx)})
        except RemoteAgentError as error:
            remote.last_error = str(error)
            _log.warning("%s Until then, other agents know its name alone.", error)
            return
        if card.description and not self.description:
            self.description = " ".join(cleaned(card.description).split())[:_LONGEST_DESCRIPTION]

    async def remote(self) -> Remote:
        """The connection of the running event loop. What it needs is loaded in a thread, which takes a second."""
        loop = asyncio.get_running_loop()
        turns = None if loop in self._remotes else await in_thread(_turns)
        if turns is not None and loop not in self._remotes:
            self._remotes[loop] = turns.remote_of(self)
        return cast("Remote", self._remotes[loop])

    async def headers(self, ctx: InvocationContext) -> dict[str, str]:
        """The headers that `header_provider` gives."""
        if self.header_provider is None:
            return {}
        given: Any = self.header_provider(ReadonlyContext(ctx))
        if isawaitable(given):
            given = await given
        return {str(name): str(value) for name, value in dict(given or {}).items()}

    def status(self) -> RemoteStatus:
        """How the connection of the running event loop is, or the only one."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        made: list[Remote] = [self._remotes[loop]] if loop in self._remotes else [*self._remotes.values()]
        return made[0].status() if made else RemoteStatus("idle")

    async def close(self) -> None:
        """End the connection of the running event loop; the agent can be used again."""
        remote = self._remotes.pop(asyncio.get_running_loop(), None)
        if remote is not None:
            await remote.close()

    # -- running ------------------------------------------------------------------------------------

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        remote = await self.remote()
        turn: Any = _turns().RemoteTurn(self, remote, ctx)
        try:
            async for event in turn.events():
                yield event
            remote.last_error = None
        except RemoteAgentError as error:
            remote.last_error = str(error)
            raise
        finally:
            await turn.close()


def _turns() -> Any:
    """What speaks with agents; loads the SDK the first time."""
    with NoCollection():
        return import_module("flowloom.protocols.a2a.turn")
