"""Clients that sign what they say to an authorization server, and send it no secret (RFC 7523)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from auth.desk import Calendar, Desk, asked, asker, consent, oauth, openid
from auth.oauth_server import CLIENT, CLIENT_SECRET, OAuthServer
from joserfc.jwk import ECKey, OctKey, OKPKey, RSAKey
from kit import story

from flowloom import OAuth2Auth
from flowloom.auth.exchange import TokenExchange
from flowloom.auth.schemes import Endpoints
from flowloom.errors import ConfigurationError
from flowloom.testing import call

DAY = call("read_calendar", day="monday")
RSA, P256, P384, P521 = RSAKey.generate_key(2048), *(ECKey.generate_key(f"P-{size}") for size in (256, 384, 521))


def pem(key: Any) -> str:
    return key.as_pem(private=True).decode()


def endpoints(server: OAuthServer, **more: Any) -> Endpoints:
    token = f"{server.url}/token"
    return Endpoints(None, token, token, **more)


def client(**fields: Any) -> OAuth2Auth:
    return OAuth2Auth(client_id=CLIENT, **fields)


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (P256, "ES256"), (P384, "ES384"), (P521, "ES512")], ids=lambda x: str(x)[:6]
)
async def test_a_client_with_a_key_signs_with_what_its_kind_is_for(
    server: OAuthServer, key: Any, algorithm: str
) -> None:
    """The key alone says so: no method and no algorithm has to be given."""
    server.key = key, algorithm
    tokens = await TokenExchange().own(endpoints(server), client(private_key=pem(key)))
    assert tokens.access_token == server.issued[-1]
    assert server.signed[0][0]["alg"] == algorithm


async def test_what_is_signed_holds_for_this_server_once_and_for_minutes(server: OAuthServer) -> None:
    """Issuer and subject are the client, the audience is the server's issuer, or else its token endpoint."""
    server.key = P256, "ES256"
    own = client(private_key=pem(P256), key_id="key-7")
    for where in (endpoints(server, issuer="https://issuer.example"), endpoints(server)):
        await TokenExchange().own(where, own)
    (header, first), (_, second) = server.signed
    assert header["kid"] == "key-7"
    assert (first["iss"], first["sub"], first["aud"]) == (CLIENT, CLIENT, "https://issuer.example")
    assert second["aud"] == f"{server.url}/token"
    assert first["exp"] - first["iat"] == 300
    assert first["jti"] != second["jti"]


async def test_a_json_web_key_says_which_it_is(server: OAuthServer) -> None:
    """Its `kid` goes into the header."""
    key = OKPKey.generate_key("Ed25519", parameters={"kid": "my-key"})
    server.key = key, "Ed25519"
    own = client(private_key=json.dumps(key.as_dict(private=True)), signing_algorithm="Ed25519")
    await TokenExchange().own(endpoints(server), own)
    assert server.signed[0][0]["kid"] == "my-key"


async def test_a_secret_can_sign_too(server: OAuthServer) -> None:
    """`client_secret_jwt`: the secret is not sent."""
    server.key = OctKey.import_key(CLIENT_SECRET), "HS256"
    own = client(client_secret=CLIENT_SECRET, token_endpoint_auth_method="client_secret_jwt")
    await TokenExchange().own(endpoints(server), own)
    assert CLIENT_SECRET not in server.requests[0].body.decode()


async def test_a_server_that_takes_only_what_is_signed_gets_it_from_a_secret(server: OAuthServer) -> None:
    """The client is told no method, and the server describes what it takes."""
    server.key = OctKey.import_key(CLIENT_SECRET), "HS256"
    await TokenExchange().own(endpoints(server, methods=("client_secret_jwt",)), client(client_secret=CLIENT_SECRET))
    assert server.signed


async def test_codes_and_refresh_tokens_are_exchanged_by_what_is_signed(server: OAuthServer) -> None:
    """Whatever the grant, the client proves itself in the same way; the key is in nothing that is stored."""
    server.key, server.lifetime = (RSA, "PS256"), 10
    config = oauth(server, client_secret=None, private_key=pem(RSA), signing_algorithm="PS256")
    calendar, desk = Calendar(), Desk()
    chat = desk.chat(asker([calendar.tool(config)], DAY, "ok", DAY, "ok"))
    (request,) = asked(await chat.say("what is on?"))
    await chat.answer(consent(server, request))
    await chat.say("and now?")
    assert server.grants() == ["authorization_code", "refresh_token"]
    assert len(server.signed) == 2
    stored = "".join(event.model_dump_json() for event in await chat.stored())
    assert pem(RSA)[40:80] not in stored.replace("\\n", "\n")
    assert "PRIVATE KEY" not in stored + repr(config)


async def test_a_servers_description_is_the_audience(server: OAuthServer) -> None:
    """What its discovery document calls it."""
    server.key = P256, "ES256"
    config = openid(server, client_secret=None, private_key=pem(P256))
    chat = Desk().chat(asker([Calendar().tool(config)], DAY, "ok"))
    (request,) = asked(await chat.say("what is on?"))
    await chat.answer(consent(server, request))
    assert server.signed[0][1]["aud"] == server.url


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"private_key": "garbage-of-a-key"}, r"`private_key` cannot be read: give an RSA, EC or Ed25519 key"),
        ({"private_key": P256.as_pem(private=False).decode()}, "cannot be read"),
        ({"private_key": '{"kty": "oct", "k": "Z2FyYmFnZS1vZi1hLWtleQ"}'}, "cannot be read"),
        ({"private_key": pem(P256), "signing_algorithm": "RS256"}, "`RS256`, but the client's key signs with ES256"),
        ({"private_key": pem(P256), "client_id": None}, "needs the client's `client_id`"),
        ({"token_endpoint_auth_method": "private_key_jwt"}, "needs the client's `private_key`"),
        ({"token_endpoint_auth_method": "client_secret_jwt"}, "needs the client's `client_secret`"),
    ],
)
async def test_a_client_that_cannot_sign_says_what_is_missing(
    server: OAuthServer, fields: dict[str, Any], why: str
) -> None:
    """Before anything is sent, and without a word of the key."""
    with pytest.raises(ConfigurationError, match=why) as caught:
        await TokenExchange().own(endpoints(server), OAuth2Auth(**({"client_id": CLIENT} | fields)))
    assert "garbage" not in repr(caught.getrepr(style="native"))
    assert server.requests == []


async def test_a_key_that_the_server_does_not_take_is_said_so(server: OAuthServer) -> None:
    """It is not sent there; with a secret beside it that is used."""
    where = endpoints(server, methods=("client_secret_basic",))
    with pytest.raises(ConfigurationError, match="takes `client_secret_basic` of its clients, and no"):
        await TokenExchange().own(where, client(private_key=pem(P256)))
    assert server.requests == []
    await TokenExchange().own(where, client(private_key=pem(P256), client_secret=CLIENT_SECRET))
    assert server.requests[0].header("authorization")


async def test_a_refusal_of_what_was_signed_does_not_quote_it(server: OAuthServer) -> None:
    """The server repeats the whole request in its error."""
    server.refuses = "invalid_client"
    server.key = P256, "ES256"
    config = oauth(server, client_secret=None, private_key=pem(P256))
    chat = Desk().chat(asker([Calendar().tool(config)], DAY, "ok"))
    (request,) = asked(await chat.say("what is on?"))
    told = story(await chat.answer(consent(server, request)))
    assert "`invalid_client`" in str(told)
    assert "eyJ" not in str(told)
