"""What an authorization server may do to those who ask it."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
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
            async with asyncio.timeout(3):
                await TokenExchange().own(Endpoints(None, url, url, ()), client)
