"""The form of what `EventStore.to_dict` writes, and where data does not have it."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Annotated, Any, NotRequired, get_type_hints

from pydantic import Field, JsonValue, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from flowloom.client.store_records import CallRecord, ErrorRecord, Message, TimelineEntry, Totals
from flowloom.errors import ConfigurationError

FORMAT = 1

_dict_of: Any = TypedDict
_JSON: dict[Any, Any] = {
    dict[str, Any]: dict[str, JsonValue],
    dict[str, Any] | None: dict[str, JsonValue] | None,
}
"""What may be anything in a record has to be JSON in its stored form."""


def check_stored(data: Any) -> None:
    """Raise `ConfigurationError` for what `EventStore.to_dict` did not write; it says what is wrong where."""
    try:
        _form().validate_python(data, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f"[{each!r}]" for each in first["loc"])
        raise ConfigurationError(f"This is not the data of an event store: `data{place}`: {first['msg']}.") from None


@cache
def _form() -> TypeAdapter[Any]:
    pair: Any = Annotated[list[str], Field(min_length=2, max_length=2)]
    session: dict[str, Any] = {
        "totals": _fields(Totals),
        "last_event_id": str,
        "last_invocation_id": str,
        "last_author": str,
        "last_timestamp": float,
        "done": bool,
        "messages": list[_fields(Message)],
        "timeline": list[_fields(TimelineEntry)],
        "errors": list[_fields(ErrorRecord)],
        "calls": list[_fields(CallRecord)],
        "sources": list[pair],
        "seen": list[pair],
    }
    store = {
        "format": Annotated[int, Field(ge=FORMAT, le=FORMAT)],
        "max_events": int,
        "sessions": dict[str, _dict_of("SessionForm", session)],
    }
    return TypeAdapter(_dict_of("StoreForm", store))


def _fields(kind: type) -> Any:
    """The form of a record, by the arguments that it is made of."""
    types = get_type_hints(kind.__init__)
    form: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        held = _JSON.get(types[name], types[name])
        form[name] = held if parameter.default is parameter.empty else NotRequired[held]
    return _dict_of(kind.__name__, form)
