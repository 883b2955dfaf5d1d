"""What a `RemoteA2aAgent` may be given as its `config`: hooks for requests, answers, parts and the card (spec §4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from flowloom.context import InvocationContext
from flowloom.errors import ConfigurationError
from flowloom.events import Event

if TYPE_CHECKING:
    from a2a.types.a2a_pb2 import Message


@dataclass(slots=True)
class ParametersConfig:
    """What goes with a message: the metadata of the request, and the `client_call_context` of the SDK, with headers."""

    request_metadata: dict[str, Any] | None = None
    client_call_context: Any = None


BeforeRequest = Callable[
    [InvocationContext, "Message", ParametersConfig], Awaitable["tuple[Message | Event, ParametersConfig]"]
]
AfterRequest = Callable[[InvocationContext, Any, Event], Awaitable[Event | None]]


@dataclass(frozen=True, slots=True)
class RequestInterceptor:
    """`before_request` gives the message that is sent, and what goes with it; an `Event` in its place is the agent's
    answer, and nothing is sent. `after_request` is called with what the agent said last and an event that comes of it,
    and gives the event; None leaves it out."""

    before_request: BeforeRequest | None = None
    after_request: AfterRequest | None = None


@dataclass(frozen=True, slots=True)
class A2aCardRequestConfig:
    """The `headers` of a request for a card."""

    headers: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class CardRequestInterceptor:
    """`before_request` gives the headers of the requests for the card of an agent, beside those of its provider."""

    before_request: Callable[[InvocationContext], Awaitable[A2aCardRequestConfig]] | None = None


@dataclass(slots=True)
class A2aRemoteAgentConfig:
    """Hooks of a `RemoteA2aAgent`, by google-adk's names.

    `a2a_part_converter` reads a part that the agent has sent, and gives a `types.Part`, several, or None for what says
    nothing; by default files, texts and data are read. `request_interceptors` look at messages and at events, in their
    order; `card_request_interceptors` give headers for the card. With `forward_session_id_as_context_id` a conversation
    begins in a context of the session's id, with `"namespaced"` in one that tells apps and users apart, too.

    Raises `ConfigurationError` for google-adk's converters of whole messages, tasks and updates: what chunks, states
    and interruptions come to is read in one place.
    """

    a2a_part_converter: Callable[[Any], Any] | None = None
    request_interceptors: Sequence[RequestInterceptor] | None = None
    card_request_interceptors: Sequence[CardRequestInterceptor] | None = None
    forward_session_id_as_context_id: bool | Literal["namespaced"] = False
    a2a_message_converter: None = field(default=None, repr=False)
    a2a_task_converter: None = field(default=None, repr=False)
    a2a_status_update_converter: None = field(default=None, repr=False)
    a2a_artifact_update_converter: None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for kind in ("message", "task", "status_update", "artifact_update"):
            if getattr(self, f"a2a_{kind}_converter") is not None:
                raise ConfigurationError(
                    f"`a2a_{kind}_converter` is not used here: chunks, states and interruptions are read in one place. "
                    f"Give `a2a_part_converter` for parts, or `request_interceptors` with `after_request` for events."
                )

    def context_id_of(self, ctx: InvocationContext) -> str:
        """The context that a conversation begins in; empty if the agent is to choose."""
        session = ctx.session
        if self.forward_session_id_as_context_id == "namespaced":
            return sha256("\0".join((session.app_name, session.user_id, session.id)).encode()).hexdigest()
        return session.id if self.forward_session_id_as_context_id else ""


async def card_headers(config: A2aRemoteAgentConfig | None, ctx: InvocationContext) -> dict[str, str]:
    """The headers that the hooks of `config` give for the card."""
    headers: dict[str, str] = {}
    for each in (config.card_request_interceptors if config is not None else None) or ():
        if each.before_request is not None:
            headers |= (await each.before_request(ctx)).headers or {}
    return headers
