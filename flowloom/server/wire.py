"""What is answered, as JSON: camelCase, without nulls, and without secrets (server spec §2, §3).

All that tells of sessions, events and traces goes through `public_json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, cast

from google.genai import types
from pydantic import BaseModel, ConfigDict, ValidatorFunctionWrapHandler, WrapValidator
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python
from starlette.responses import Response

from flowloom.auth.fields import is_secret_field
from flowloom.events.actions import EventActions
from flowloom.events.event import Event
from flowloom.events.json_data import without_halves
from flowloom.events.requests import CREDENTIAL_CALL
from flowloom.events.wire import copier, fields_of
from flowloom.server.places import Places
from flowloom.sessions import Session

INTERNAL = "__adk_internal_"
"""How keys of metadata begin that are neither taken nor given."""
_AUTH_KEYS = frozenset(
    "authConfig auth_config requestedAuthConfigs requested_auth_configs rawAuthCredential raw_auth_credential "
    "exchangedAuthCredential exchanged_auth_credential authType auth_type".split()
)
_MARKS = (b"uthConfig", b"uth_config", b"uthCredential", b"uth_credential", b"uthType", b"uth_type")
"""What stands in any JSON that holds one of those keys, in texts within it, too."""
_MARK = re.compile(b"uth_?[cCtT]")
"""Found wherever one of these is, in a tenth of the time that a look for each takes."""
_OUR_NAMES = b"adk_"
"""What stands in `INTERNAL` and in `CREDENTIAL_CALL`."""
_NOWHERE = b'{"path":""}'
_EMPTY: Places = {}
_NO_REQUESTS = b'"requestedAuthConfigs":{}'
"""What stands in every event."""
_OURS = {"actions": {"requested_inputs": True}}
"""What google-adk's clients refuse an event for."""


def _keys_of(model: type[BaseModel], *left_out: str) -> dict[str, str]:
    fields = model.model_fields.items()
    return {name: field.alias or name for name, field in fields if not field.exclude and name not in left_out}


_EVENT_KEYS = _keys_of(Event)
_ACTIONS_KEYS = _keys_of(EventActions, *_OURS["actions"])
"""By its name, the key of each field that is told."""


class Body(BaseModel):
    """The body of a request: camelCase or snake_case, and what is not known in it is passed over."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


def _read(value: Any, read: ValidatorFunctionWrapHandler) -> Any:
    try:
        return _plain_message(value) or read(value)
    except (AttributeError, TypeError) as error:  # an enum of google-genai that is given a number, or a list
        raise ValueError(f"what should be one of a few names is none: {error}") from error


def _plain_message(value: Any) -> types.Content | None:
    """The message of a user that is one text, at a tenth of what pydantic takes; None for all else."""
    match value:
        case {"role": str() as role, "parts": [{"text": str() as text, **others}], **more} if not (others or more):
            return _message(role=role, parts=[_text_part(text=text)])
        case _:
            return None


_text_part = copier(types.Part(text=""))
_message = copier(types.Content(role="", parts=[]))
Content = Annotated[types.Content, WrapValidator(_read)]
"""A message in a request."""
Part = Annotated[types.Part, WrapValidator(_read)]
"""A part in a request."""


def answer(body: bytes, status: int = 200) -> Response:
    """The response that has this JSON."""
    return Response(body, status, media_type="application/json")


def json_bytes(value: Any) -> bytes:
    """The JSON of any value, with U+FFFD in the place of halves of characters."""
    try:
        return to_json(value, fallback=repr, inf_nan_mode="strings", bytes_mode="base64")
    except PydanticSerializationError:
        text = json.dumps(value, default=_plain, ensure_ascii=False)
        return to_json(json.loads(without_halves(text), parse_constant=str))


def _plain(value: Any) -> Any:
    return to_jsonable_python(value, fallback=repr, inf_nan_mode="strings", bytes_mode="base64")


def event_json(event: Event, places: Places = _EMPTY) -> bytes:
    """An event as it is answered and streamed: on one line, without spaces, in UTF-8."""
    try:
        dumped = _dumped(event)
    except PydanticSerializationError:
        dumped = json_bytes(event.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=_OURS))
    data = public_json(dumped)
    if event.node_info is None:
        return b'%b,"nodeInfo":%b}' % (data[:-1], places.get(event.author, _NOWHERE))
    return data


def _dumped(event: Event) -> bytes:
    """What `model_dump_json` gives, for two thirds of the time where an event holds what this release knows."""
    actions = event.actions
    if event.__pydantic_extra__ or actions.__pydantic_extra__ or type(event) is not Event:
        return event.model_dump_json(by_alias=True, exclude_none=True, exclude=_OURS, fallback=repr).encode()
    data = _told_fields(event, _EVENT_KEYS)
    data["actions"] = _NO_ACTIONS if fields_of(actions) == _DEFAULTS else _told_fields(actions, _ACTIONS_KEYS)
    return to_json(data, exclude_none=True, inf_nan_mode="null", bytes_mode="base64", fallback=repr)


def _told_fields(model: BaseModel, keys: Mapping[str, str]) -> dict[str, Any]:
    return {keys[name]: value for name, value in fields_of(model).items() if value is not None and name in keys}


_DEFAULTS = fields_of(EventActions())
_NO_ACTIONS = _told_fields(EventActions(), _ACTIONS_KEYS)
"""What is told of these, which most events have."""


def session_json(session: Session, events: Iterable[Event] = (), places: Places = _EMPTY) -> bytes:
    """A session as it is answered, with these events of it, made at these places."""
    head: dict[str, Any] = {
        "id": session.id,
        "appName": session.app_name,
        "userId": session.user_id,
        "state": session.state,
        "events": [],
        "lastUpdateTime": session.last_update_time,
    }
    listed = b",".join(event_json(event, places) for event in events)
    before, between, after = public_json(json_bytes(head)).rpartition(b'"events":[')
    return b"".join((before, between, listed, after))


def public_json(data: bytes) -> bytes:
    """The JSON without what opens a door: secrets, tokens and codes of credentials, and internal metadata."""
    told = data.replace(_NO_REQUESTS, b"")
    if _OUR_NAMES not in told and _MARK.search(told) is None:
        return data
    if INTERNAL.encode() not in told and CREDENTIAL_CALL.encode() not in told and not any(m in told for m in _MARKS):
        return data
    return json_bytes(public_data(from_json(data)))


def public_data(value: Any) -> Any:
    """The same for data of JSON; what is given stays as it is."""
    return _public(value, secret=False)


def _public(value: Any, *, secret: bool) -> Any:
    if isinstance(value, dict):
        held = cast(dict[str, Any], value)
        secret = secret or held.get("name") == CREDENTIAL_CALL or not _AUTH_KEYS.isdisjoint(held)
        return {
            key: _public(each, secret=secret or key in _AUTH_KEYS)
            for key, each in held.items()
            if not (secret and is_secret_field(key)) and not key.startswith(INTERNAL)
        }
    if isinstance(value, list):
        return [_public(each, secret=secret) for each in cast(list[Any], value)]
    if isinstance(value, str) and value[:1] in ("{", "["):
        return _public_text(value, secret)
    return value


def _public_text(text: str, secret: bool) -> str:
    """A text that is JSON itself, as attributes of spans are."""
    if not secret and INTERNAL not in text and not any(mark.decode() in text for mark in _MARKS):
        return text
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return json.dumps(_public(data, secret=secret), ensure_ascii=False)
