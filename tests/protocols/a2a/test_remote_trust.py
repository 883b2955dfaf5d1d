"""What a remote agent may not do: lead calls elsewhere, require what we do not speak, see what is not its own."""

from __future__ import annotations

import json
import logging
import re

import pytest
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import AgentCapabilities, AgentCard, AgentExtension, AgentInterface
from a2a.utils.signing import create_agent_card_signer
from a2a_peer import Talk, peer, peer_card
from google.genai import types
from kit import WHERE, Chat
from starlette.responses import RedirectResponse

from flowloom import AuthCredential, RemoteA2aAgent
from flowloom.auth import AuthScheme
from flowloom.errors import ConfigurationError
from flowloom.protocols.a2a import RemoteAgentError, cards
from flowloom.protocols.a2a.links import card_addresses, refusal_of

SECRET = "s3cr3t-of-20-letters"


async def ok(talk: Talk) -> None:
    await talk.answer("ok")


def interface(url: str, version: str = "1.0") -> AgentInterface:
    return AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=version)


async def test_a_service_of_another_origin_is_not_called() -> None:
    """The card may not send calls to another origin, unless that is listed."""
    async with peer(ok) as elsewhere, peer(ok, interfaces=[interface(f"{elsewhere.url}/")]) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        with pytest.raises(RemoteAgentError, match=f"`{elsewhere.url}` is not the origin".replace("127.0.0.1", ".*")):
            await chat.say("a")
        assert not elsewhere.heard
        allowed = Chat(RemoteA2aAgent("weather", other.url, allow_origins=[elsewhere.url]))
        events = await allowed.say("a")
        await chat.runner.close()
        await allowed.runner.close()
    assert (events[-1].text, len(elsewhere.heard)) == ("ok", 1)


async def test_a_card_without_a_service_that_may_be_called_uses_the_one_that_may() -> None:
    """Of several services those that are refused are left out."""
    async with peer(ok) as other:
        card = peer_card("", interfaces=[interface("http://weather.example/"), interface(f"{other.url}/")])
        chat = Chat(RemoteA2aAgent("weather", card))
        events = await chat.say("a")
        await chat.runner.close()
    assert events[-1].text == "ok"


@pytest.mark.parametrize(
    ("address", "home", "refused"),
    [
        ("https://a.example/x", "https://a.example:443", False),
        ("https://a.example:444/x", "https://a.example:443", True),
        ("https://b.example/", "https://a.example:443", True),
        ("http://a.example/", None, True),
        ("http://localhost:9/", "http://localhost:9", False),
        ("http://[::1]:9/", "http://localhost:9", False),
        ("file:///etc/passwd", None, True),
        ("//a.example/", None, True),
        ("https://a.example@b.example/", "https://a.example:443", True),
    ],
)
def test_services_are_of_the_cards_origin_and_encrypted(address: str, home: str | None, refused: bool) -> None:
    """https unless loopback; the origin of the card; what is listed goes before both."""
    assert (refusal_of(address, home, ()) is not None) is refused
    if address.startswith(("http://a", "https://")):
        assert refusal_of(address, home, [address]) is None


def test_cards_are_found_by_their_address_or_the_agents() -> None:
    """An address of a JSON file is the card's; of any other the card is at the well-known place below it."""
    assert card_addresses("https://a.example/cards/b.json") == ["https://a.example/cards/b.json"]
    assert card_addresses("https://a.example/b/?x=1")[0] == "https://a.example/b/.well-known/agent-card.json"


async def test_an_address_without_encryption_is_refused() -> None:
    """Before anything is sent."""
    chat = Chat(RemoteA2aAgent("weather", "http://weather.example/"))
    with pytest.raises(RemoteAgentError, match="not encrypted"):
        await chat.say("a")
    await chat.runner.close()


def redirected(target: str, only: str):
    """What answers requests for one path with a redirect to another host."""

    def behind(app):
        async def redirecting(scope, receive, send) -> None:
            if scope["type"] == "http" and scope["path"] == only:
                await RedirectResponse(target, status_code=307)(scope, receive, send)
            else:
                await app(scope, receive, send)

        return redirecting

    return behind


async def test_no_redirect_to_another_origin_is_followed() -> None:
    """Neither for the card nor for calls; headers reach no other host."""
    headers = {"x-key": SECRET}
    async with peer(ok) as elsewhere:
        async with peer(ok, behind=redirected(f"{elsewhere.url}/", "/")) as other:
            chat = Chat(RemoteA2aAgent("weather", other.url, header_provider=lambda ctx: headers))
            with pytest.raises(RemoteAgentError):
                await chat.say("a")
            await chat.runner.close()
        card = f"{elsewhere.url}/.well-known/agent-card.json"
        async with peer(ok, behind=redirected(card, "/.well-known/agent-card.json")) as other:
            chat = Chat(RemoteA2aAgent("weather", other.url, header_provider=lambda ctx: headers))
            with pytest.raises(RemoteAgentError, match="another origin"):
                await chat.say("a")
            await chat.runner.close()
        assert (elsewhere.heard, elsewhere.card_requests) == ([], 0)


async def test_headers_of_the_provider_go_to_the_service_and_nowhere_else(caplog: pytest.LogCaptureFixture) -> None:
    """They are in no event, no log record and no error."""
    caplog.set_level(logging.DEBUG)

    async def script(talk: Talk) -> None:
        if talk.words == "a":
            await talk.answer("ok")
            return
        await talk.begin()
        await talk.status("failed", "no")

    async def provide(ctx) -> dict[str, str]:
        return {"X-Key": f"{SECRET}-{ctx.session.user_id}"}

    async with peer(script) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url, header_provider=provide))
        await chat.say("a")
        await chat.say("b")
        session = await chat.session()
        await chat.runner.close()
    result = await chat.runner.start(**WHERE, new_message="c").result()
    assert {headers["x-key"] for headers in other.headers} == {f"{SECRET}-ann"}
    assert SECRET not in session.model_dump_json()
    assert SECRET not in str(result.error)
    ours = [r for r in caplog.records if r.name.startswith(("flowloom", "httpx", "httpcore", "a2a.client"))]
    assert not [each for each in ours if SECRET in each.getMessage()]


async def test_a_required_extension_that_is_not_spoken_is_an_error_before_the_first_message() -> None:
    """One that is listed is asked for by a header."""
    needed = AgentExtension(uri="urn:example:geo:v1", required=True)
    capabilities = AgentCapabilities(streaming=True, extensions=[needed])
    async with peer(ok, capabilities=capabilities) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        with pytest.raises(RemoteAgentError, match="urn:example:geo:v1"):
            await chat.say("a")
        assert not other.heard
        spoken = Chat(RemoteA2aAgent("weather", other.url, extensions=["urn:example:geo:v1"]))
        await spoken.say("a")
        await chat.runner.close()
        await spoken.runner.close()
    assert other.headers[0]["a2a-extensions"] == "urn:example:geo:v1"


async def test_a_card_is_looked_at_again_after_an_hour_and_only_read_if_it_has_changed(monkeypatch) -> None:
    """The service is asked by the `ETag`; what has changed counts from then on."""
    async with peer(ok) as other:
        remote = RemoteA2aAgent("weather", other.url)
        chat = Chat(remote)
        await chat.say("a")
        await chat.say("b")
        assert other.card_requests == 1
        monkeypatch.setattr(cards, "FRESH_SECONDS", 0.0)
        await chat.say("c")
        assert other.card_requests == 2
        known = (await remote.remote())._known
        assert known.etag
        await chat.runner.close()


@pytest.mark.parametrize("card", ["", "  ", "/no/such/card.json"])
async def test_a_card_that_cannot_be_read_says_where(card: str) -> None:
    """An empty address is refused when the agent is made, a missing file when it is needed."""
    if not card.strip():
        with pytest.raises(ConfigurationError, match="empty `agent_card`"):
            RemoteA2aAgent("weather", card)
        return
    with pytest.raises(ConfigurationError, match=re.escape(card)):
        await Chat(RemoteA2aAgent("weather", card)).say("a")


async def test_a_card_may_be_a_file(tmp_path) -> None:
    """As google-adk reads it."""

    async with peer(ok) as other:
        path = tmp_path / "card.json"
        path.write_text(json.dumps(agent_card_to_dict(peer_card(f"{other.url}/"))))
        chat = Chat(RemoteA2aAgent(name="weather", agent_card=str(path)))
        events = await chat.say("a")
        await chat.runner.close()
    assert events[-1].text == "ok"


async def test_a_credential_goes_to_the_service_alone(caplog: pytest.LogCaptureFixture) -> None:
    """A key of the program's own is a header of the calls; it is in no event, log record or error."""
    caplog.set_level(logging.DEBUG)
    scheme = AuthScheme(type="apiKey", **{"in": "header"}, name="X-Api-Key")
    credential = AuthCredential(auth_type="apiKey", api_key=SECRET)
    async with peer(ok) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url, auth_scheme=scheme, auth_credential=credential))
        await chat.say("a")
        session = await chat.session()
        await chat.runner.close()
    assert other.headers[0]["x-api-key"] == SECRET
    assert SECRET not in session.model_dump_json()
    ours = [r for r in caplog.records if r.name.startswith(("flowloom", "httpx", "httpcore", "a2a.client"))]
    assert not [each for each in ours if SECRET in each.getMessage()]


async def test_a_missing_credential_is_asked_for_and_the_words_wait() -> None:
    """The run pauses before anything is sent; with the answer the user's words go out, with the credential."""
    scheme = AuthScheme(type="http", scheme="bearer")
    async with peer(ok) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url, auth_scheme=scheme))
        asked = await chat.runner.run_to_result(**WHERE, new_message="a")
        assert (asked.status, asked.pending[0].kind, other.heard) == ("paused", "credential", [])
        given = {"authType": "http", "http": {"scheme": "bearer", "credentials": {"token": SECRET}}}
        config = {**asked.pending[0].raw["authConfig"], "exchangedAuthCredential": given}
        answer = types.FunctionResponse(id=asked.pending[0].id, name="adk_request_credential", response=config)
        told = await chat.runner.run_to_result(**WHERE, new_message=types.Part(function_response=answer))
        again = await chat.runner.run_to_result(**WHERE, new_message="b")
        session = await chat.session()
        await chat.runner.close()
    assert (told.text, again.text, other.words) == ("ok", "ok", ["a", "b"])
    assert [headers["authorization"] for headers in other.headers] == [f"Bearer {SECRET}"] * 2
    assert SECRET not in session.model_dump_json()


async def test_a_card_that_is_not_signed_by_a_known_key_is_refused() -> None:
    """One that is signed is taken."""
    pytest.importorskip("jwt")
    private, public = _key_pair()
    sign = create_agent_card_signer(private, {"kid": "k1", "alg": "ES256", "typ": "JOSE", "jku": None})
    async with peer(ok) as other:
        signed = sign(peer_card(f"{other.url}/"))
        forged = AgentCard()
        forged.CopyFrom(signed)
        forged.description = "Another."
        for card, fine in ((signed, True), (forged, False), (peer_card(f"{other.url}/"), False)):
            chat = Chat(RemoteA2aAgent("weather", card, card_keys={"k1": public}))
            result = await chat.runner.start(**WHERE, new_message="a").result()
            await chat.runner.close()
            assert (result.status == "final") is fine
            assert fine or "card_keys" in str(result.error)


def _key_pair() -> tuple[bytes, bytes]:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return private, public
