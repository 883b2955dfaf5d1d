"""Trees as plain data that is the same on every run: ids as ordinals, bytes as digests, signatures shortened."""

from __future__ import annotations

import datetime
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, cast

from google.genai import types
from pydantic import BaseModel, TypeAdapter
from pydantic.errors import PydanticUserError

from flowloom.auth.fields import is_secret_field, plain_name
from flowloom.events.ids import CLIENT_CALL_PREFIX
from flowloom.events.wire import fields_of
from flowloom.inspection.tree import Blocks, Fields
from flowloom.models.server_tools import BESIDE

Data = Any
"""JSON values: None, bool, int, float, str, lists and dicts of them."""

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_VOLATILE = re.compile(rf"\b({CLIENT_CALL_PREFIX}|e-){_UUID}\b")
_KINDS = {CLIENT_CALL_PREFIX: "call", "e-": "invocation"}
HIDDEN = "(hidden)"


class Ordinals:
    """Ids by the order in which they come up: `call_1`, `call_2`, `invocation_1`, ..."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def add(self, kind: str, value: str) -> str:
        """The name of an id, a new one if it has not come up before."""
        if value not in self._names:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._names[value] = f"{kind}_{self._counts[kind]}"
        return self._names[value]

    def add_calls(self, contents: Iterable[Fields]) -> None:
        """Name the ids of all function calls and responses of these contents."""
        for content in contents:
            parts: list[Fields] = content.get("parts") or []
            for part in parts:
                for name in ("function_call", "function_response"):
                    called: Fields | None = part.get(name)
                    if called is not None and called.get("id"):
                        self.add("call", called["id"])

    def known(self, value: str) -> str:
        """An id by its name; other texts as they are."""
        return self._names.get(value) or self.replace(value)

    def replace(self, text: str) -> str:
        """A text with the generated ids in it by their names."""
        return _VOLATILE.sub(lambda found: self.add(_KINDS[found[1]], found[0]), text)


def canonical(value: Any, ordinals: Ordinals) -> Data:
    """A node as data. Fields go by name, the user's own dicts keep their order."""
    if isinstance(value, Blocks):
        return ordinals.replace(str(value))
    if isinstance(value, Fields):
        return {name: canonical_field(name, value[name], ordinals) for name in sorted(value)}
    if isinstance(value, dict):
        entries = cast(dict[Any, Any], value).items()
        return {ordinals.replace(str(key)): _entry(str(key), item, ordinals) for key, item in entries}
    if isinstance(value, list | tuple):
        return [canonical(item, ordinals) for item in cast(Sequence[Any], value)]
    if isinstance(value, set | frozenset):
        return sorted((canonical(item, ordinals) for item in cast(Iterable[Any], value)), key=repr)
    return _leaf(value, ordinals)


def canonical_at(where: Sequence[str | int], value: Any, ordinals: Ordinals) -> Data:
    """What stands at a place of a request as data; None where nothing stands."""
    if value is not None and "headers" in where:
        return dict.fromkeys(cast(dict[str, Any], value), HIDDEN) if isinstance(value, dict) else HIDDEN
    names = [key for key in where if isinstance(key, str)]
    if names and names[0] == BESIDE:
        return canonical(_without_credentials(names[-1], value), ordinals)
    return canonical_field(names[-1] if names else "", value, ordinals)


def canonical_field(name: str, value: Any, ordinals: Ordinals) -> Data:
    """The value of a field as data. Some fields hold what is no data, or is not to be seen."""
    if name == "thought_signature" and isinstance(value, bytes):
        return f"signature:{hashlib.sha256(value).hexdigest()[:8]}… ({len(value)} bytes)"
    if name.partition("[")[0] == BESIDE or name == "auth_config":
        return canonical(_without_credentials(name, value), ordinals)
    if name == "headers" and isinstance(value, dict):  # keys and tokens are sent in them
        return dict.fromkeys(cast(dict[str, Any], value), HIDDEN)
    if name in ("response_schema", "response_json_schema") and not isinstance(value, Fields | dict):
        return schema_of(value)
    return _entry(name, value, ordinals)


def _without_credentials(name: str, value: Any) -> Any:
    """What stands under a name in a tool that the provider runs, which it may be given credentials for."""
    if name == "headers" and isinstance(value, dict):
        return dict.fromkeys(cast(dict[str, Any], value), HIDDEN)
    if value is not None and (is_secret_field(name) or plain_name(name).startswith(("authorization", "apikeystring"))):
        return HIDDEN
    if isinstance(value, dict):
        return {key: _without_credentials(key, each) for key, each in cast(dict[str, Any], value).items()}
    if isinstance(value, list):
        return [_without_credentials("", each) for each in cast(list[Any], value)]
    return value


def _entry(name: str, value: Any, ordinals: Ordinals) -> Data:
    """The value under a name or key. What is called an id may be one that has a name."""
    if name.lower().endswith("id") and isinstance(value, str):
        return ordinals.known(value)
    if name.lower().endswith("ids") and isinstance(value, list):
        ids = cast(list[Any], value)
        return [ordinals.known(each) if isinstance(each, str) else canonical(each, ordinals) for each in ids]
    return canonical(value, ordinals)


def _leaf(value: Any, ordinals: Ordinals) -> Data:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        return ordinals.replace(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, bytes):
        return f"sha256:{hashlib.sha256(value).hexdigest()[:16]}… ({len(value)} bytes)"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, BaseModel):
        return canonical(Fields(type(value), {k: v for k, v in fields_of(value).items() if v is not None}), ordinals)
    name = getattr(value, "__qualname__", None) or type(value).__qualname__
    return f"<{name}>"


def schema_of(value: Any) -> Data:
    """The JSON schema of a type that answers are to follow."""
    if isinstance(value, types.Schema):
        return value.model_dump(mode="json", exclude_none=True)
    try:
        return cast(Mapping[str, Any], TypeAdapter(value).json_schema())
    except PydanticUserError:
        return _leaf(value, Ordinals())
