"""What an agent that waits says it waits for: its question as a person reads it, and as programs answer it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from flowloom.events.parts import as_object
from flowloom.log.answers import read_input
from flowloom.protocols.a2a.conversation import PEER, Reply
from flowloom.protocols.a2a.parts import CALL, KIND, LONG_RUNNING, RESPONSE, said, text_of
from flowloom.protocols.a2a.sdk import Message, Part, data_part, plain

PENDING = "urn:flowloom:a2a:pending:v1"
"""The extension by which what a task waits for is told as data: `{"pending": [{id, kind, name, args, message,
schema}]}`."""

Data = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Question:
    """What a task waits for: the words (`text`), what else is `shown`, the `schema` of the answer if it has one, and
    what an answer needs to know (`peer`: calls by `pending` or `calls`)."""

    text: str
    shown: Any
    schema: Data | None
    peer: Data


def question_of(message: Message) -> Question:
    """The question in the message of a task that waits. It is a peer's: nothing of it is taken for more than data."""
    pending: list[Data] = []
    calls: list[Data] = []
    others: list[Any] = []
    for part in message.parts:
        if part.WhichOneof("content") != "data":
            continue
        data: Any = plain(part.data)
        marks: Data = plain(part.metadata) if part.HasField("metadata") else {}
        listed = _objects(data.get("pending")) if isinstance(data, dict) else []  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if listed:
            pending += listed
        elif marks.get(KIND) == CALL and marks.get(LONG_RUNNING) is True and isinstance(data, dict):
            calls.append(cast(Data, data))
        elif KIND not in marks:
            others.append(data)
    shown: list[Any] = [*pending, *others] or [*calls]
    schema = pending[0].get("schema") if len(pending) == 1 and pending[0].get("kind") == "input" else None
    peer: Data = {"pending": pending} if pending else {"calls": calls} if calls else {}
    text = text_of(message.parts) or _told(pending or calls)
    return Question(text, shown or None, cast(Data, schema) if isinstance(schema, dict) else None, peer)


def _objects(data: Any) -> list[Data]:
    listed = cast(list[Any], data) if isinstance(data, list) else []
    return [cast(Data, each) for each in listed if isinstance(each, dict)]


def _told(waiting: list[Data]) -> str:
    """What an agent waits for that has not said it in words."""
    told: list[str] = []
    for each in waiting:
        args = each.get("args")
        words = each.get("message") or (cast(Data, args).get("message") if isinstance(args, dict) else None)
        told.append(str(words) if words else f"It waits for the result of `{each.get('name')}`.")
    return "\n".join(told)


def authorization_of(agent: str, question: Question) -> Data:
    """What a person is asked who has to log in: where, as far as the remote agent says that."""
    asked: Data = {"authScheme": {"type": "oauth2", "flows": {}}, "credentialKey": f"a2a:{agent}"}
    address = _address_in(question.shown)
    if address is not None:
        asked["exchangedAuthCredential"] = {"authType": "oauth2", "oauth2": {"authUri": address}}
    return asked


_ADDRESSES = ("authUri", "auth_uri", "authorization_url", "authorizationUrl", "auth_url", "authUrl", "url")


def _address_in(data: Any) -> str | None:
    """The first address of the web that data names as the one to log in at."""
    if isinstance(data, dict):
        named = cast(Data, data)
        for key in _ADDRESSES:
            value = named.get(key)
            if isinstance(value, str) and value.startswith(("https://", "http://")):
                return value
        return next(filter(None, map(_address_in, named.values())), None)
    if isinstance(data, list):
        return next(filter(None, map(_address_in, cast(list[Any], data))), None)
    return None


def reply_parts(reply: Reply, secret: Data | None) -> list[Part]:
    """A person's answer as it goes to the remote agent. `secret` is what they gave who were asked to log in."""
    peer: Data = reply.asked.get(PEER) or {}
    value = _address_given(secret or {}) if "authConfig" in reply.asked else read_input(reply.answer)
    calls = _objects(peer.get("calls"))
    if calls:
        return [_called_back(calls[0], value)]
    pending = _objects(peer.get("pending"))
    if len(pending) != 1:
        return [said(value) if isinstance(value, str) else data_part(value)]
    one = pending[0]
    told: Data = {"id": one.get("id")}
    if one.get("kind") != "confirmation":
        return [data_part({**told, "value": value})]
    if isinstance(value, str):
        return [said(value)]
    decided = cast(Data, value).get("confirmed") if isinstance(value, dict) else value
    return [data_part({**told, "confirmed": decided is True})]


def _called_back(call: Data, value: Any) -> Part:
    """The answer to a call of google-adk's that waits."""
    response = as_object(value, "result")
    return data_part({"id": call.get("id"), "name": call.get("name"), "response": response}, {KIND: RESPONSE})


def _address_given(secret: Data) -> str:
    """The address that a person was sent to after logging in, or their words."""
    if isinstance(words := secret.get("result"), str):
        return words
    exchanged: Any = secret.get("exchangedAuthCredential") or secret.get("exchanged_auth_credential") or {}
    oauth2: Any = exchanged.get("oauth2") or {}
    return str(oauth2.get("authResponseUri") or oauth2.get("auth_response_uri") or "The login is done.")
