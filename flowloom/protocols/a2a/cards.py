"""The card of a remote agent: read, fetched, kept for an hour, and checked (protocols spec §4)."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from flowloom.auth.bounded import AnswerTooLongError, bound
from flowloom.errors import ConfigurationError, error_text
from flowloom.protocols.a2a.failures import RemoteAgentError
from flowloom.protocols.a2a.links import card_addresses, is_address, is_safe, origin_of, refusal_of
from flowloom.protocols.a2a.sdk import AgentCard, httpx, parse_agent_card
from flowloom.protocols.spans import protocol_span

_log = logging.getLogger("flowloom.a2a")
FRESH_SECONDS = 3600.0
"""How long a card is taken as it is; then the service is asked whether it has changed."""
FETCH_SECONDS = 30.0
BINDINGS = ("JSONRPC", "HTTP+JSON")
"""The forms of the protocol that are spoken."""
_MAX_REDIRECTS = 5
_ALGORITHMS = ("ES256", "ES384", "ES512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "EdDSA")
"""Those of signatures whose keys are public; a secret that both sides know signs no card."""


@dataclass(slots=True)
class Known:
    """A card, with where and when it was found."""

    card: AgentCard
    origin: str | None
    """Where it came from; None for a card that was given."""
    etag: str | None = None
    since: float = 0.0

    @property
    def fresh(self) -> bool:
        return self.origin is None or time.monotonic() - self.since < FRESH_SECONDS


def given_card(name: str, card: Any) -> Known | None:
    """The card that an agent was given: itself, or a file; None for an address, which is fetched.

    Raises `ConfigurationError` if it cannot be read.
    """
    if isinstance(card, AgentCard):
        return Known(card, None)
    if isinstance(card, Mapping):
        return Known(_parsed(name, "the mapping that was given", dict(card)), None)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(card, str) and is_address(card):
        return None
    try:
        text = Path(card).read_text(encoding="utf-8")
        return Known(_parsed(name, str(card), json.loads(text)), None)
    except (OSError, ValueError, TypeError) as error:
        raise ConfigurationError(f"The card of agent `{name}` cannot be read from `{card}`: {error}.") from error


async def fetched_card(
    name: str, address: str, client: httpx.AsyncClient, headers: Mapping[str, str], before: Known | None
) -> Known:
    """The card at `address`, which is its own or the agent's; the one from `before` if it has not changed.

    `headers` go to its origin alone. Raises `RemoteAgentError` if there is none.
    """
    if not is_safe(address):
        raise RemoteAgentError(f"Agent `{name}`: `{origin_of(address)}` is not encrypted. Use https.")
    tried: list[str] = []
    for url in card_addresses(address):
        try:
            with protocol_span("a2a.card", {"a2a.agent": name, "server.address": origin_of(url)}):
                response = await _get(client, url, headers, before)
        except AnswerTooLongError as error:
            raise _no_card(name, url, f"it has {error.told}") from None
        except httpx.HTTPError as error:
            raise _no_card(name, url, error_text(error)) from None
        if response.status_code == 304 and before is not None:
            return Known(before.card, before.origin, before.etag, time.monotonic())
        if response.status_code == 404:
            tried.append(url)
            continue
        if response.status_code != 200:
            raise _no_card(name, url, f"HTTP {response.status_code}")
        try:
            card = _parsed(name, url, response.json())
        except (ValueError, ConfigurationError) as error:
            raise _no_card(name, url, f"it is no card ({error})") from None
        return Known(card, origin_of(url), response.headers.get("etag"), time.monotonic())
    raise _no_card(name, " nor ".join(tried), "HTTP 404")


async def _get(client: httpx.AsyncClient, url: str, headers: Mapping[str, str], before: Known | None) -> httpx.Response:
    """The answer to a request for a card; redirects are followed within the origin."""
    asked = {"Accept": "application/json", **headers}
    if before is not None and before.etag:
        asked["If-None-Match"] = before.etag
    home, at = origin_of(url), url
    for _ in range(_MAX_REDIRECTS + 1):
        request = client.build_request("GET", at, headers=asked, timeout=FETCH_SECONDS)
        response = await client.send(request, stream=True, follow_redirects=False)
        bound(response)
        await response.aread()
        if not response.has_redirect_location:
            return response
        at = str(response.url.join(response.headers["location"]))
        if refusal_of(at, home, ()) is not None:
            raise httpx.RequestError(f"it is redirected to another origin, `{origin_of(at)}`, which is not followed")
    raise httpx.TooManyRedirects("it is redirected too often")


def _no_card(name: str, url: str, why: str) -> RemoteAgentError:
    return RemoteAgentError(f"The card of agent `{name}` could not be had from {url}: {why}.")


def _parsed(name: str, where: str, data: Any) -> AgentCard:
    try:
        return parse_agent_card(data)
    except Exception as error:  # whatever the SDK's reader meets in a stranger's JSON
        raise ConfigurationError(f"{where} holds no card of an agent: {str(error)[:200]}.") from None


def card_check(name: str, keys: Mapping[str, Any]) -> Callable[[AgentCard], None]:
    """What raises `RemoteAgentError` for a card that none of `keys`, by key id, has signed.

    Raises `ConfigurationError` without the library that reads signatures.
    """
    try:
        signing: Any = import_module("a2a.utils.signing")
    except ImportError as error:
        raise ConfigurationError('Signatures of cards need a library: `pip install "a2a-sdk[signing]"`.') from error

    def key_of(key_id: str | None, _: str | None) -> Any:
        return keys[key_id or ""]

    verify = signing.create_signature_verifier(key_of, [*_ALGORITHMS])

    def check(card: AgentCard) -> None:
        try:
            verify(card)
        except Exception as error:  # whatever a stranger's signature is made of
            raise RemoteAgentError(
                f"The card of agent `{name}` is not signed by one of the `card_keys`: {type(error).__name__}."
            ) from None

    return check


def usable_card(name: str, known: Known, allowed: Sequence[str], extensions: Sequence[str]) -> AgentCard:
    """The card with the services of it that may be called.

    Raises `RemoteAgentError` if none is left, or the agent requires an extension that is not among `extensions`.
    """
    card, refused = known.card, list[str]()
    required = [each.uri for each in card.capabilities.extensions if each.required and each.uri not in extensions]
    if required:
        raise RemoteAgentError(
            f"Agent `{name}` requires extensions of the protocol that are not in `extensions=`: {', '.join(required)}."
        )
    usable = AgentCard()
    usable.CopyFrom(card)
    del usable.supported_interfaces[:]
    for each in card.supported_interfaces:
        if each.protocol_binding not in BINDINGS:
            refused.append(f"`{each.url}` speaks {each.protocol_binding or 'nothing that it names'}")
            continue
        why = refusal_of(each.url, known.origin, allowed)
        if why is None:
            usable.supported_interfaces.append(each)
        else:
            refused.append(why)
    if not usable.supported_interfaces:
        told = "; ".join(dict.fromkeys(refused)) or "its card names none"
        raise RemoteAgentError(f"Agent `{name}` has no service that may be called: {told}.")
    return usable
