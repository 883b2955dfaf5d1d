"""What is taken for a secret, and what is left of it; and that none is in a cassette."""

from __future__ import annotations

import base64
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from kit import Chat, said, story, user
from pydantic import SecretStr
from pydantic.alias_generators import to_camel

from flowloom import BaseLlm, ConfigurationError, Gemini, LlmAgent, LlmResponse, ModelError
from flowloom.auth import AuthCredential, HttpCredentials, OAuth2Auth
from flowloom.testing import ScriptedModel, call
from flowloom.testing.cassettes import CassetteMissError, RecordingModel
from flowloom.testing.secrets import Secrets

from .cassette_kit import ask, recording, replaying, responses, texts, written

WORD = 'open "sesame"\n12/3'
KNOWN = Secrets([("DOOR_PASSWORD", WORD)])
PLAIN = Secrets()


def mark(name: str) -> str:
    return f"<redacted {name}>"


DOOR = mark("DOOR_PASSWORD")


@pytest.mark.parametrize(
    "written",
    [
        WORD,
        json.dumps(WORD)[1:-1],
        json.dumps(json.dumps(WORD)[1:-1])[1:-1],
        "open%20%22sesame%22%0A12/3",
        "open%20%22sesame%22%0A12%2F3",
        "open+%22sesame%22%0A12%2F3",
    ],
    ids=["plain", "in JSON", "in JSON in JSON", "in a path", "in a query", "in a form"],
)
def test_a_known_secret_is_found_however_it_is_written(written: str) -> None:
    assert KNOWN.redact(f"say {written} twice: {written}") == f"say {DOOR} twice: {DOOR}"


@pytest.mark.parametrize("user", ["", "a", "ab", "abc"])
def test_a_known_secret_is_found_in_base64_wherever_it_begins(user: str) -> None:
    coded = base64.b64encode(f"{user}{WORD}:x".encode()).decode()
    redacted = KNOWN.redact(f"data {coded} end")
    assert DOOR in redacted
    assert len(redacted.replace(DOOR, "")) < len(user) + 24, "no more is left than the digits around it"


def test_a_known_secret_is_found_in_base64_for_urls() -> None:
    coded = base64.urlsafe_b64encode(b"user:??>??>??>??>").decode()
    assert mark("DOOR_KEY") in Secrets([("DOOR_KEY", "??>??>??>??>")]).redact(f"data {coded} end")


def test_what_is_redacted_already_is_left_alone() -> None:
    """Even if a secret is a word of it."""
    assert Secrets([("A_KEY", "redacted"), ("B_KEY", "DOOR_PASSWORD")]).redact(f"say {DOOR}") == f"say {DOOR}"


def test_a_text_that_is_base64_stays_base64() -> None:
    """The bytes of a wire form: what they hold is redacted, and they can be read still."""
    raw = b"\xff\x00 " + WORD.encode() + b" \xfe"
    coded = KNOWN.redact(base64.urlsafe_b64encode(raw).decode())
    assert coded.startswith("_"), "in the alphabet for URLs still"
    assert base64.urlsafe_b64decode(coded) == b"\xff\x00 " + DOOR.encode() + b" \xfe"


def test_keys_numbers_and_nested_values_are_looked_at() -> None:
    secrets = Secrets([("PIN_SECRET", "123456789"), ("DOOR_PASSWORD", WORD)])
    value = {"a": [{"b": (WORD)}, 123456789, 12345678, True, None], WORD: 1.5}
    assert secrets.redact(value) == {"a": [{"b": DOOR}, mark("PIN_SECRET"), 12345678, True, None], DOOR: 1.5}


def test_what_is_given_stays_as_it_is() -> None:
    value: dict[str, Any] = {"a": [WORD]}
    KNOWN.redact(value)
    assert value == {"a": [WORD]}


def test_a_short_value_is_not_looked_for() -> None:
    assert Secrets([("DOOR_KEY", "model")]).redact("a model of") == "a model of"


def test_the_longer_of_two_secrets_is_redacted_as_a_whole() -> None:
    secrets = Secrets([("A_KEY", "sesame-open"), ("B_KEY", "sesame-open-wide")])
    assert secrets.redact("sesame-open-wide") == mark("B_KEY")


def test_what_only_looks_like_a_token_is_left_alone() -> None:
    """What is a secret is declared: by the name of its field, header or variable, or by its value."""
    text = "sk-proj-abc123DEF456ghi789, Authorization: required, postgres://{user}:{password}@host"
    assert PLAIN.redact({"note": text}) == {"note": text}


def test_a_declared_field_or_header_is_redacted_whatever_it_holds() -> None:
    headers = {"Authorization": "Digest x", "X-Api-Key": "short", "Accept": "text/html"}
    headers["Proxy-Authorization"] = "(hidden)"  # by the view of a request
    value = {"headers": headers, "password": 1234, "client_secret": "", "apiKey": None}
    value["properties"] = {"idToken": {"type": "string"}}  # the schema of such a field
    value["$defs"] = {"Password": {"type": "string"}}
    assert PLAIN.redact(value) == {
        "headers": headers | {"Authorization": mark("Authorization"), "X-Api-Key": mark("X-Api-Key")},
        "password": mark("password"),
        "client_secret": "",
        "apiKey": None,
        "properties": {"idToken": {"type": "string"}},
        "$defs": {"Password": {"type": "string"}},
    }


@pytest.mark.parametrize("model", [AuthCredential, HttpCredentials, OAuth2Auth], ids=lambda model: model.__name__)
def test_the_secret_fields_of_credentials_are_declared(model: type[AuthCredential]) -> None:
    """In both spellings of their wire forms."""
    for name in model.secrets:
        assert PLAIN.redact({name: "x"}) == {name: mark(name)}
        assert PLAIN.redact({to_camel(name): "x"}) == {to_camel(name): mark(to_camel(name))}


def test_the_headers_of_a_credential_and_a_service_account_are_redacted_as_a_whole() -> None:
    value = {"additional_headers": {"x-door": "word"}, "serviceAccountCredential": {"private_key": "k", "type": "t"}}
    assert PLAIN.redact(value) == {
        "additional_headers": {"x-door": mark("additional_headers")},
        "serviceAccountCredential": dict.fromkeys(("private_key", "type"), mark("serviceAccountCredential")),
    }


def test_fields_of_ones_own_are_declared_by_name() -> None:
    secrets = Secrets(fields=["door_word", "X-Door"])
    assert secrets.redact({"doorWord": "a", "x-door": [1, "b"], "door": "c"}) == {
        "doorWord": mark("doorWord"),
        "x-door": [mark("x-door"), mark("x-door")],
        "door": "c",
    }


def test_declared_fields_are_found_in_a_text_that_is_json() -> None:
    """Tools answer with JSON in texts, and with JSON in that."""
    inner = json.dumps({"password": "swordfish", "n": 1})
    redacted = PLAIN.redact({"result": json.dumps([inner])})
    assert json.loads(json.loads(redacted["result"])[0]) == {"password": mark("password"), "n": 1}
    spaced = '{ "a" :  1 }'
    assert PLAIN.redact(spaced) == spaced, "a text without a secret stays as it is written"


def test_the_tokens_of_log_probabilities_are_no_secrets() -> None:
    value = {"logprobsResult": {"chosenCandidates": [{"token": "Rome", "logProbability": -0.1}]}}
    assert PLAIN.redact(value) == value


@given(st.text(max_size=60), st.integers(0, 59))
def test_redacting_twice_is_redacting_once(text: str, at: int) -> None:
    text = f"{text[:at]} {WORD} {text[at:]}"
    once = KNOWN.redact({"api_key": text, "b": text})
    assert KNOWN.redact(once) == once


@given(st.lists(st.integers(0, 60), max_size=6))
def test_a_secret_in_pieces_is_found_wherever_it_is_cut(cuts: list[int]) -> None:
    """A stream cuts texts anywhere; what is left, joined, is the text without its secrets."""
    text = f"say {WORD} and {WORD} here"
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(edges)]
    assert "".join(KNOWN.redact_pieces(pieces)) == f"say {DOOR} and {DOOR} here"


def test_secrets_are_known_from_the_environment_by_the_names_of_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MY_API_KEY", "DB_PASSWORD", "GH_TOKEN", "APP_SECRET", "SOME_CREDENTIALS"):
        monkeypatch.setenv(name, f"value-of-{name.lower()}")
    monkeypatch.setenv("PGPASSWORD", "value-of-pgpassword")
    monkeypatch.setenv("KEYBOARD_LAYOUT", "qwerty-layout")
    monkeypatch.setenv("TOKENIZER", "sentencepiece")
    text = "value-of-my_api_key value-of-db_password value-of-gh_token value-of-app_secret value-of-some_credentials"
    text += " value-of-pgpassword"
    redacted = "<redacted MY_API_KEY> <redacted DB_PASSWORD> <redacted GH_TOKEN> <redacted APP_SECRET>"
    assert Secrets.known().redact(text) == f"{redacted} <redacted SOME_CREDENTIALS> <redacted PGPASSWORD>"
    assert Secrets.known().redact("qwerty-layout sentencepiece") == "qwerty-layout sentencepiece"


def test_secrets_are_known_from_the_attributes_of_models() -> None:
    class Guarded(ScriptedModel):
        login: SecretStr = SecretStr("correct horse")
        token: str = "Bearer battery-staple"

    options = types.HttpOptions(headers={"x-goog-api-key": "from-the-headers"})
    gemini = Gemini(model="gemini-2.5-flash", api_key="the-api-key-itself", http_options=options)
    secrets = Secrets.known(Guarded(), gemini)
    assert secrets.redact("correct horse, battery-staple") == "<redacted login>, <redacted token>"
    assert secrets.redact("the-api-key-itself") == "<redacted api_key>"
    assert secrets.redact("from-the-headers") == "<redacted x-goog-api-key>"


# -- in cassettes ----------------------------------------------------------------------------------

HELD = {
    "DOOR_PASSWORD": 'open "sesame"!',
    "API_KEY_OF_OURS": "k-0123456789",
    "SOME_TOKEN": "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "c.jsonl"


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name, value in HELD.items():
        monkeypatch.setenv(name, value)
    return HELD


def no_secrets(path: Path, *more: str) -> None:
    text = written(path)
    for secret in (*HELD.values(), *more):
        for form in (secret, json.dumps(secret)[1:-1], json.dumps(json.dumps(secret)[1:-1])[1:-1]):
            assert form not in text


class WithKey(ScriptedModel):
    api_key: str = "only-this-model-has-it"


async def test_no_secret_reaches_the_file(path: Path, held: dict[str, str]) -> None:
    """From instructions, messages, tools' results, nested JSON, headers, answers, metadata and calls."""
    door, key, token = held.values()

    def look(where: str) -> dict[str, Any]:
        """Look somewhere."""
        return {"where": where, "headers": {"Authorization": "Bearer xyzxyzxyz1"}, "body": json.dumps({"k": [door]})}

    loud = LlmResponse(
        content=said(f"it is {door}", types.Part(inline_data=types.Blob(data=key.encode(), mime_type="a/b"))),
        custom_metadata={"deep": [{door: token}], "key": "only-this-model-has-it"},
    )
    inner = WithKey([call("look", where=token), loud])
    root = LlmAgent(name="root", model=RecordingModel(inner, path, "record"), instruction=f"{door} {key}", tools=[look])
    recorded = await Chat(root).say(f"my key is {key}")
    no_secrets(path, "xyzxyzxyz1", "only-this-model-has-it", "ay0wMTIzNDU2Nzg5")
    assert f"root: it is {door}" in story(recorded), "who records gets what the model said"
    assert "<redacted DOOR_PASSWORD>" in written(path)


async def test_no_secret_that_the_user_declares_reaches_the_file(path: Path) -> None:
    """Values by the names that stand in their places, and names of fields."""
    inner = ScriptedModel([call("look", door_word="x1"), "the word is sesame-open"])
    declared = RecordingModel(inner, path, "record", secrets={"door": "sesame-open"}, secret_fields=["door_word"])

    def look(door_word: str) -> str:
        """Look behind a door."""
        return f"{door_word}, sesame-open"

    await Chat(LlmAgent(name="root", model=declared, tools=[look])).say("sesame-open?")
    assert "sesame-open" not in written(path)
    assert '"door_word": "<redacted door_word>"' in written(path)
    assert "<redacted door>?" in written(path)
    assert "sesame" not in repr(RecordingModel(ScriptedModel(), path, secrets={"door": "sesame-open"}))


async def test_a_declared_secret_of_a_short_value_is_refused(path: Path) -> None:
    """Instead of being written, although it was declared."""
    for pin in ("1234", "Bearer 1234"):
        with pytest.raises(ConfigurationError, match=r"`pin`.*8 characters"):
            RecordingModel(ScriptedModel([]), path, "record", secrets={"pin": pin})


async def test_no_secret_of_the_headers_of_a_request_reaches_the_file(path: Path) -> None:
    """Not where the answer repeats it either."""
    request = ask()
    request.config.http_options = types.HttpOptions(headers={"Authorization": "Bearer only-in-the-header"})
    await responses(recording(path, "you sent only-in-the-header"), request)
    assert "only-in-the-header" not in written(path)
    assert "you sent <redacted Authorization>" in written(path)


async def test_no_secret_of_an_error_reaches_the_file(path: Path, held: dict[str, str]) -> None:
    door, key, _ = held.values()
    error = ModelError(f"401 for {key}", code=door)
    error.url = f"https://x/?key={key}"  # type: ignore[attr-defined]
    with pytest.raises(ModelError, match=key):
        await responses(recording(path, error))
    no_secrets(path)
    with pytest.raises(ModelError, match="401 for <redacted API_KEY_OF_OURS>"):
        await responses(replaying(path))


@pytest.mark.parametrize("size", [1, 3, 7])
async def test_no_secret_reaches_the_file_in_the_chunks_of_a_stream(
    path: Path, held: dict[str, str], size: int
) -> None:
    inner = f"use {held['SOME_TOKEN']} now"
    await responses(recording(path, inner, stream_chunks=True, chunk_size=size), stream=True)
    replayed = await texts(replaying(path), "go", stream=True)
    assert "".join(replayed[:-1]) == replayed[-1] == "use <redacted SOME_TOKEN> now"


async def test_no_secret_reaches_the_file_in_the_pieces_of_an_argument(path: Path, held: dict[str, str]) -> None:
    pieces = [types.PartialArg(json_path="$.key", string_value=value) for value in ("k-0123", "456789")]
    calls = [types.Part(function_call=types.FunctionCall(name="f", partial_args=[piece])) for piece in pieces]
    chunks = [LlmResponse(content=said(each), partial=True) for each in calls]
    await responses(recording(path, [*chunks, LlmResponse(content=said("done"))]), stream=True)
    assert "456789" not in written(path)
    assert "<redacted API_KEY_OF_OURS>" in written(path)


async def test_no_secret_reaches_the_file_over_the_parts_of_a_message(path: Path, held: dict[str, str]) -> None:
    request = ask()
    request.contents = [user("say k-0123", "456789")]
    await responses(recording(path, LlmResponse(content=said("k-0123", "456789"))), request)
    assert "456789" not in written(path)
    assert [each.text for each in await responses(replaying(path), request)] == ["<redacted API_KEY_OF_OURS>"]


async def test_a_miss_shows_no_secret(path: Path, held: dict[str, str]) -> None:
    await texts(recording(path, "one"), f"{held['DOOR_PASSWORD']} 1")
    with pytest.raises(CassetteMissError, match="<redacted DOOR_PASSWORD> 2") as caught:
        await texts(replaying(path), f"{held['DOOR_PASSWORD']} 2")
    assert held["DOOR_PASSWORD"] not in str(caught.value)


@pytest.mark.parametrize("now", ["the door's new word", "AIzaSyB-0000000000000000000000000000000", None])
async def test_replay_matches_without_the_secret_in_the_environment(
    path: Path, monkeypatch: pytest.MonkeyPatch, now: str | None
) -> None:
    """Where the recorded request has a secret, anything may stand: another one, a text, nothing at all."""
    monkeypatch.setenv("DOOR_PASSWORD", "open sesame")
    made = {"Say": "open sesame"}

    def find_word() -> dict[str, Any]:
        """Find the word."""
        return {"word": made["Say"], "number": 1}

    def root(model: BaseLlm) -> LlmAgent:
        return LlmAgent(name="root", model=model, tools=[find_word])

    await Chat(root(recording(path, call("find_word"), "done"))).say("go")
    assert "<redacted DOOR_PASSWORD>" in written(path)
    monkeypatch.delenv("DOOR_PASSWORD")
    made["Say"] = now  # type: ignore[assignment]
    assert "root: done" in story(await Chat(root(replaying(path))).say("go"))


async def test_the_rest_of_a_request_with_a_secret_is_compared(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR_PASSWORD", "open sesame")
    await texts(recording(path, "one"), "say open sesame twice")
    monkeypatch.delenv("DOOR_PASSWORD")
    with pytest.raises(CassetteMissError):
        await texts(replaying(path), "say anything once")
    assert await texts(replaying(path), "say anything twice") == ["one"]


async def test_calls_with_a_secret_are_played_in_order_without_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOOR_PASSWORD", "open sesame")
    await texts(recording(path, "first", "second"), "say open sesame", "say open sesame")
    monkeypatch.delenv("DOOR_PASSWORD")
    model = replaying(path)
    assert await texts(model, "say please", "say please") == ["first", "second"]
    with pytest.raises(CassetteMissError):
        await texts(model, "say please")


async def test_what_is_a_secret_only_here_matches_what_was_recorded(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable with a common word for its value does not spoil cassettes that were recorded elsewhere."""
    await texts(recording(path, "one"), "in production")
    monkeypatch.setenv("SECRET_STAGE", "production")
    assert await texts(replaying(path), "in production") == ["one"]


async def test_the_next_request_matches_an_answer_that_was_redacted(path: Path, held: dict[str, str]) -> None:
    """The recorded run went on with the secret, the replayed one with what stands in its place."""

    async def turns(model: BaseLlm) -> list[str]:
        chat = Chat(LlmAgent(name="root", model=model))
        return story([*await chat.say("what?"), *await chat.say("thanks")])

    await turns(recording(path, f"It is {held['DOOR_PASSWORD']}.", "Welcome."))
    assert await turns(replaying(path)) == ["root: It is <redacted DOOR_PASSWORD>.", "root: Welcome."]
