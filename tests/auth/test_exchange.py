"""What an authorization server may do to those who ask it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest
from auth.endless import endless_server
from loopback import listening

from flowloom import OAuth2Auth
from flowloom.auth.exchange import TokenExchange
from flowloom.auth.schemes import Endpoints
from flowloom.errors import CredentialError


async def test_a_server_that_never_ends_its_answer_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is one of the whole answer, however often something comes."""
    monkeypatch.setattr(TokenExchange, "TIMEOUT_SECONDS", 0.2)

    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100000\r\n\r\n{")
        with contextlib.suppress(ConnectionError):
            for _ in range(500):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)

    async with listening(drip) as port:
        url = f"http://127.0.0.1:{port}/token"
        client = OAuth2Auth(client_id="me", client_secret="secret")
        with pytest.raises(CredentialError, match=r"TimeoutError"):
            async with asyncio.timeout(60):
                await TokenExchange().own(Endpoints(None, url, url, ()), client)


BENT: list[dict[str, Any]] = [
    {"expires_in": "soon"},
    {"expires_in": [3600]},
    {"expires_in": float("inf")},
    {"refresh_token": 7},
    {"id_token": {"sub": "ann"}},
    {"access_token": ["secret-1234"]},
    {"access_token": {"token": "secret-1234"}},
]


@pytest.mark.parametrize("more", BENT, ids=str)
async def test_an_answer_of_another_form_is_an_error_that_shows_nothing_of_it(more: dict[str, Any]) -> None:
    """None of it is taken for a token, and the model may try again."""
    body = json.dumps({"access_token": "secret-1234", "token_type": "Bearer", **more}).encode()
    async with endless_server(lambda _: body) as server:
        url = f"{server.url}/token"
        with pytest.raises(CredentialError, match="no usable answer") as raised:
            await TokenExchange().own(Endpoints(None, url, url, ()), OAuth2Auth(client_id="me", client_secret="s"))
    assert "secret-1234" not in f"{raised.value!r}{raised.value.__cause__!r}"


@pytest.mark.parametrize(
    ("told", "taken"), [(3600, 3600), ("3600", 3600), (3600.0, 3600), (0, 0), (None, None), ("", None)]
)
async def test_the_lifetime_of_a_token_may_be_told_as_servers_do(told: Any, taken: int | None) -> None:
    body = json.dumps({"access_token": "a", "token_type": "Bearer", "expires_in": told}).encode()
    async with endless_server(lambda _: body) as server:
        url = f"{server.url}/token"
        token = await TokenExchange().own(Endpoints(None, url, url, ()), OAuth2Auth(client_id="me", client_secret="s"))
    assert token.expires_in == taken
