"""Authorization servers whose answers have no end, in bytes instead of time."""

from __future__ import annotations

from typing import Any

import httpx
import httpx2
import pytest
from auth.endless import ENOUGH, endless_server

from flowloom import OAuth2Auth
from flowloom.auth.bounded import MAX_BYTES, AnswerTooLongError, bound
from flowloom.auth.exchange import TokenExchange
from flowloom.auth.schemes import AuthScheme, Endpoints
from flowloom.errors import CredentialError

pytestmark = pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])


async def test_no_more_than_a_megabyte_is_read_of_a_tokens_answer(packed: bool) -> None:
    """The rest is left where it is, and the error says why there is no token."""
    async with endless_server(packed=packed) as server:
        url = f"{server.url}/token"
        with pytest.raises(CredentialError, match=f"more than {MAX_BYTES} bytes"):
            await TokenExchange().own(Endpoints(None, url, url, ()), OAuth2Auth(client_id="me", client_secret="s"))
    assert packed or server.sent < ENOUGH


async def test_no_more_than_a_megabyte_is_read_of_a_description(packed: bool) -> None:
    """What a server says of itself is no longer than that."""
    async with endless_server(packed=packed) as server:
        scheme = AuthScheme.model_validate({"type": "openIdConnect", "openIdConnectUrl": f"{server.url}/known"})
        with pytest.raises(CredentialError, match=f"more than {MAX_BYTES} bytes"):
            await TokenExchange().endpoints(scheme)


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_a_bounded_answer_within_its_limit_is_what_it_was(library: Any, packed: bool) -> None:
    """Text, headers and encoding are those of the server."""
    async with endless_server(lambda _: '{"é": 1}'.encode()) as server, library.AsyncClient() as client:
        answer = await client.send(client.build_request("GET", server.url), stream=True)
        bound(answer, 9)
        await answer.aread()
        assert (answer.json(), answer.status_code) == ({"é": 1}, 200)


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_a_stream_of_events_has_a_limit_for_each_event(library: Any, packed: bool) -> None:
    """All of them together may be longer."""
    for event, fails in ((b"data: 12345\n\n", False), (b"data: 12345\r\n\r\n", False), (b"data: 12345\n", True)):
        piece = event * 2000
        server = endless_server(media="text/event-stream", piece=piece, packed=packed)
        async with server as endless, library.AsyncClient() as client:
            answer = await client.send(client.build_request("GET", endless.url), stream=True)
            bound(answer, 65_536)
            read, failure = 0, None
            try:
                async for each in answer.aiter_bytes():
                    read += len(each)
                    if read > 200_000:
                        break
            except AnswerTooLongError as error:
                failure = error
            finally:
                await answer.aclose()
            assert (failure is not None) == fails
