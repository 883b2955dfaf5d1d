"""`Event`: one entry of a session's log, and of the stream that a run yields (spec §0.4 to §0.8)."""

# no annotations as texts: pydantic would compile each of the fields' by itself

import datetime
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Self, cast

from pydantic import ConfigDict, Field, field_validator, model_validator

from flowloom.events.actions import EventActions
from flowloom.events.clock import now
from flowloom.events.ids import new_id
from flowloom.events.response import LlmResponse
from flowloom.events.shown import line_of, table_of
from flowloom.events.wire import WireModel, assemble, fields_of, folded_name

EARLIEST, LATEST = -62135596800.0, 253402300800.0
"""Between which times events lie, in epoch seconds: the years 1 to 9999."""

UNFIT_OUTPUT = "unfit_output"
"""The key of an event's `custom_metadata` that says what is wrong with a structured answer. It marks the answer and the
message that asks the model for another; neither ends a turn."""


def read_time(value: Any) -> float:
    """Epoch seconds or RFC 3339 text; null is time zero. Raises `ValueError`, also outside the years 1 to 9999."""
    if value is None:
        return 0.0
    if isinstance(value, str):
        moment = datetime.datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("a timestamp is a number of epoch seconds or an RFC 3339 text")
    if not EARLIEST <= value < LATEST:
        raise ValueError(f"timestamp {value} is not in the years 1 to 9999; epoch seconds are expected, not millis")
    return round(float(value), 6)


class NodeInfo(WireModel):
    """Where in a workflow an event was made (ADK 2)."""

    model_config = ConfigDict(defer_build=True)

    path: str = ""
    output_for: list[str] | None = None
    message_as_output: bool | None = None


class Event(LlmResponse):
    """One thing that happened in a run: a message, a model's answer, tool results, a change of state.

    Events are records: once yielded or stored, an event is shared and not to be changed; work on a
    `model_copy`. `author` is `user` or an agent's name; `branch` names the parallel branch it happened in;
    `isolation_scope` the delegated task it belongs to.
    """

    model_config = ConfigDict(defer_build=True)

    invocation_id: str = ""
    author: str = ""
    actions: EventActions = Field(default_factory=EventActions)
    output: Any | None = None
    node_info: NodeInfo | None = None
    long_running_tool_ids: list[str] | None = None
    """Ids of the function calls that run on after this turn, in call order."""
    branch: str | None = None
    isolation_scope: str | None = None
    id: str = Field(default_factory=new_id)
    timestamp: float = Field(default_factory=now)
    """Epoch seconds."""
    routes: Any | None = None
    requested_input: Any | None = None

    @staticmethod
    def new_id() -> str:
        """A fresh event id (a UUID, version 4)."""
        return new_id()

    @classmethod
    def carrying(cls, response: LlmResponse, more: dict[str, Any]) -> Self:
        """The event of a `response`, not validated; `more` are its other fields, with `id`, `timestamp` and `actions`.

        Every chunk is one: this takes two thirds of what `make` does.
        """
        given: Any = fields_of(response)
        if type(response) is not LlmResponse:  # fields of a subclass are none of an event's
            given = {name: given[name] for name in LlmResponse.model_fields}
        fields = given | _BESIDE
        fields.update(more)
        return assemble(cls, fields, _NAMES, {})

    def __repr__(self) -> str:
        return line_of(self, self.author)

    def _repr_html_(self) -> str:
        place = [("id", self.id), ("invocation", self.invocation_id)]
        return table_of(self, self.author, self.actions, [("branch", self.branch), *place] if self.branch else place)

    def is_final_response(self) -> bool:
        """Whether this event ends its agent's turn (spec §0.7). A multi-agent run may hold several."""
        if self.actions.skip_summarization or self.long_running_tool_ids:
            return True
        if self.partial or (self.custom_metadata is not None and UNFIT_OUTPUT in self.custom_metadata):
            return False
        parts = content.parts if (content := self.content) is not None else None
        if not parts:
            return True
        answered = False
        for part in parts:
            if part.function_call is not None:
                return False
            answered = answered or part.function_response is not None
        return bool(self.error_code) or not (answered or parts[-1].code_execution_result is not None)

    def has_trailing_code_execution_result(self) -> bool:
        """Whether the last part is the result of executed code."""
        parts = self.content.parts if self.content is not None else None
        return bool(parts) and parts[-1].code_execution_result is not None

    _read_time = field_validator("timestamp", mode="before")(read_time)

    @field_validator("long_running_tool_ids", mode="before")
    @classmethod
    def _order_ids(cls, value: Any) -> Any:
        return sorted(cast(Iterable[str], value)) if isinstance(value, set | frozenset) else value

    @model_validator(mode="before")
    @classmethod
    def _read_legacy(cls, data: Any) -> Any:
        """Rows of adk-go carry Go's field names (`InvocationID`); null stands for an empty object."""
        if not isinstance(data, Mapping):
            return data
        fields = cast(Mapping[str, Any], data)
        known = _names_of(cls)
        if all(name in known for name in fields) and all(fields.get(name, 1) is not None for name in _NEVER_NULL):
            return fields
        read: dict[str, Any] = {}
        for given, value in fields.items():
            name = given if given in known else _folded_names_of(cls).get(folded_name(given), given)
            if value is None and (given not in known or name in _NEVER_NULL):
                continue
            if name == "node_info" and isinstance(value, Mapping) and not any(cast(Mapping[str, Any], value).values()):
                continue
            read[name] = value
        return read


def asks_again(event: Event) -> bool:
    """Whether an event is the message that asks a model for another structured answer."""
    marks, content = event.custom_metadata, event.content
    return marks is not None and UNFIT_OUTPUT in marks and content is not None and content.role == "user"


_NAMES = set(Event.model_fields)
_BESIDE = {
    name: field.default
    for name, field in Event.model_fields.items()
    if name not in LlmResponse.model_fields and field.default_factory is None
}
"""What an event has beside a response, as it is when nothing else is said."""
_NEVER_NULL = ("actions", "author", "id", "invocationId", "invocation_id")


@cache  # of the few classes of events
def _names_of(cls: type[Event]) -> frozenset[str]:
    aliases = [field.alias for field in cls.model_fields.values() if field.alias]
    return frozenset([*cls.model_fields, *aliases]) - {"nodeInfo", "node_info"}


@cache
def _folded_names_of(cls: type[Event]) -> dict[str, str]:
    return {folded_name(name): name for name in cls.model_fields}
