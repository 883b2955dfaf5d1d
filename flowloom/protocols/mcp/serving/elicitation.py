"""What a run waits for, as questions of the protocol, and the answers to them (protocols spec §2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from google.genai import types

from flowloom.events.parts import response_part
from flowloom.events.requests import CREDENTIAL_CALL
from flowloom.protocols.mcp.serving.callers import Caller
from flowloom.protocols.mcp.serving.sdk import mcp
from flowloom.runner import PendingCall
from flowloom.schemas.words import value_of_words

_PRIMITIVES = ("string", "number", "integer", "boolean")
_CONFIRMED = {
    "type": "object",
    "properties": {"confirmed": {"type": "boolean", "title": "Approve", "description": "Whether it may be done."}},
    "required": ["confirmed"],
}
_ADDRESS = {
    "type": "object",
    "properties": {
        "address": {
            "type": "string",
            "format": "uri",
            "title": "Address",
            "description": "The address of the page that you were sent to after you had given access.",
        }
    },
    "required": ["address"],
}
Refused = Literal["declined", "cancelled"]


@dataclass(frozen=True, slots=True)
class Question:
    """One question to a person at a client: what is `pending`, and the `params` of the request that asks it.

    `form` is how a value is read out of the form: `whole`, the value of one field (`value`), or its JSON text
    (`json`).
    """

    pending: PendingCall
    params: mcp.ElicitRequestFormParams | mcp.ElicitRequestURLParams
    form: Literal["whole", "value", "json"] = "whole"

    def answer(self, given: mcp.ElicitResult) -> types.Part | Refused | None:
        """The part that answers; None for a page that was visited, whose question is followed by another.

        A person who does not decide is `cancelled`, one who gives no input `declined`, unless the schema has words for
        that: null, and `false` beside an object.
        """
        pending, content = self.pending, given.content or {}
        kinds = _kinds(pending.response_schema or {}) if pending.kind == "input" else ()
        if given.action == "cancel":
            return pending.reply(None) if "null" in kinds else "cancelled"
        if pending.kind == "confirmation":
            agrees = given.action == "accept" and content.get("confirmed") is True
            return pending.approve() if agrees else pending.reject()
        if pending.kind == "credential":
            if given.action == "decline":
                return response_part(pending.id, CREDENTIAL_CALL, {})
            if isinstance(self.params, mcp.ElicitRequestURLParams):
                return None if _comes_back(pending) else pending.consent(self.params.url)
            return pending.consent(str(content.get("address") or ""))
        if given.action == "decline":
            return pending.reply(False) if "boolean" in kinds and "object" in kinds else "declined"
        return pending.reply(self._value(cast(dict[str, Any], content)))

    def _value(self, content: dict[str, Any]) -> Any:
        if self.form == "whole":
            return content
        value = content.get("value")
        if self.form == "json" and isinstance(value, str):
            return value_of_words(value, self.pending.response_schema)
        return value


def _comes_back(pending: PendingCall) -> bool:
    """Whether the page at which a person gives access sends them on to an address, which is the answer."""
    config: dict[str, Any] = pending.raw.get("authConfig") or {}
    exchanged: dict[str, Any] = config.get("exchangedAuthCredential") or {}
    oauth2: dict[str, Any] = exchanged.get("oauth2") or {}
    return bool(oauth2.get("redirectUri"))


def question_of(pending: PendingCall, caller: Caller, visited: Sequence[str] = ()) -> Question | None:
    """The question that a call which waits puts to the person at a client; None if they cannot be asked that.

    `visited` are the ids of requests for a credential whose page the person has been sent to.
    """
    if pending.kind == "confirmation" and caller.form:
        return Question(pending, _form(_approval(pending), _CONFIRMED))
    if pending.kind == "input" and caller.form:
        schema, form = _form_schema(pending.response_schema)
        return Question(pending, _form(pending.message or "Please answer.", schema), form)
    url = pending.authorization_url if pending.kind == "credential" else None
    if url is None or not caller.url or (_comes_back(pending) and not caller.form):
        return None
    if pending.id in visited:
        return Question(pending, _form("Where were you sent to after you had given access?", _ADDRESS))
    said = pending.message or f"Agent `{pending.agent}` needs you to give it access."
    return Question(pending, mcp.ElicitRequestURLParams(message=said, url=url, elicitation_id=pending.id))


def _form(message: str, schema: dict[str, Any]) -> mcp.ElicitRequestFormParams:
    return mcp.ElicitRequestFormParams(message=message, requested_schema=cast(Any, schema))


def _approval(pending: PendingCall) -> str:
    """What a person reads who is to decide about a call."""
    told = [f"Approve the call of `{pending.name}`?", pending.message]
    if pending.args:
        told.append(json.dumps(pending.args, ensure_ascii=False, indent=2))
    if pending.payload is not None:
        told.append(json.dumps(pending.payload, ensure_ascii=False, indent=2))
    return "\n".join(filter(None, told))


def _form_schema(schema: dict[str, Any] | None) -> tuple[dict[str, Any], Literal["whole", "value", "json"]]:
    """The form in which a value of `schema` is given. Forms are flat: what is not is asked for as JSON."""
    if not schema:
        return _field({"type": "string"}), "value"
    if "object" in _kinds(schema) and schema.get("properties"):
        properties = cast(dict[str, Any], schema["properties"])
        if all(map(_is_flat, properties.values())):
            kept = {key: schema[key] for key in ("properties", "required") if key in schema}
            return {"type": "object", **kept}, "whole"
    if _is_flat(schema):
        return _field(schema), "value"
    told = json.dumps(schema, ensure_ascii=False)
    return _field({"type": "string", "title": "JSON", "description": f"JSON of the schema {told}"}), "json"


def _kinds(schema: dict[str, Any]) -> Sequence[str]:
    """The types that a schema takes."""
    kinds: Any = schema.get("type") or ()
    return (kinds,) if isinstance(kinds, str) else kinds


def _field(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"value": schema}, "required": ["value"]}


def _is_flat(schema: Any) -> bool:
    """Whether a schema is one that a field of a form can have: of a text, a number, yes or no, or choices."""
    if not isinstance(schema, dict):
        return False
    held = cast(dict[str, Any], schema)
    kind = held.get("type")
    if kind == "array":
        items: Any = held.get("items")
        return isinstance(items, dict) and ("enum" in items or "anyOf" in items)
    return kind in _PRIMITIVES and "$ref" not in held


def waiting_told(pending: Sequence[PendingCall], why: str = "which cannot be given over this connection") -> str:
    """What a run waits for, in words."""
    told = [f"- {each.kind} of `{each.name}`" + (f": {each.message}" if each.message else "") for each in pending]
    return "\n".join([f"The agent waits for what follows, {why}:", *told])
