"""`EventActions`: what an event does besides saying something (spec §0.5)."""

# no annotations as texts: pydantic would compile each of the fields' by itself

from typing import Any

from google.genai import types
from pydantic import ConfigDict, Field, model_validator

from flowloom.events.wire import WireModel, assemble, fields_of, make, share_keys, stored_fields


class ToolConfirmation(WireModel):
    """A person's decision about one tool call, or the request for it."""

    model_config = ConfigDict(defer_build=True)

    hint: str = ""
    """What the person is told."""
    confirmed: bool = False
    payload: Any | None = None
    """Free data of the tool: what it asks for, and what the person gave."""
    edited_args: dict[str, Any] | None = None
    """The arguments that the person wants the call to have, in the place of those that the model gave."""
    reason: str | None = None
    """Why it was rejected; the model sees it."""


class InputRequest(WireModel):
    """What a tool asks a person for; the answer is any JSON value, of the form of `response_schema` if there is one."""

    model_config = ConfigDict(defer_build=True)

    message: str = ""
    """What the person is told."""
    payload: Any | None = None
    """Free data for the client."""
    response_schema: dict[str, Any] | None = None
    """JSON schema of the answer."""


class EventCompaction(WireModel):
    """A summary that stands for the events between two times (epoch seconds, both included)."""

    model_config = ConfigDict(defer_build=True)

    start_timestamp: float
    end_timestamp: float
    compacted_content: types.Content


class EventActions(WireModel):
    """Side effects of an event: changes of state and artifacts, control of the run."""

    model_config = ConfigDict(defer_build=True)

    skip_summarization: bool | None = None
    state_delta: dict[str, Any] = Field(default_factory=dict)
    artifact_delta: dict[str, int] = Field(default_factory=dict)
    transfer_to_agent: str | None = None
    transfer_reason: str | None = None
    escalate: bool | None = None
    requested_auth_configs: dict[str, Any] = Field(default_factory=dict)
    requested_tool_confirmations: dict[str, ToolConfirmation] = Field(default_factory=dict)
    requested_inputs: dict[str, InputRequest] | None = None
    """What tools ask a person for, by call id."""
    compaction: EventCompaction | None = None
    end_of_agent: bool | None = None
    agent_state: dict[str, Any] | None = None
    rewind_before_invocation_id: str | None = None
    route: bool | int | str | list[bool | int | str] | None = None
    render_ui_widgets: list[Any] | None = None
    set_model_response: Any | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_nulls(cls, data: Any) -> Any:
        """adk-go writes null for what is empty."""
        return {name: v for name, v in data.items() if v is not None} if isinstance(data, dict) else data  # pyright: ignore[reportUnknownVariableType]


_NOTHING = stored_fields(share_keys(make(EventActions)))
_NAMES = set(_NOTHING)


def no_actions() -> EventActions:
    """The actions of an event that only says something, as every chunk has: at half of what `make` costs."""
    fields = _NOTHING.copy()
    fields["state_delta"] = {}
    fields["artifact_delta"] = {}
    fields["requested_auth_configs"] = {}
    fields["requested_tool_confirmations"] = {}
    return assemble(EventActions, fields, _NAMES, {})


def deep_merge(base: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """A new dict of both; nested dicts are merged, otherwise `other` wins over `base` (spec §14.8)."""
    merged = base.copy()
    for key, value in other.items():
        mine = merged.get(key)
        if isinstance(mine, dict) and isinstance(value, dict):
            merged[key] = deep_merge(mine, value)  # pyright: ignore[reportUnknownArgumentType]
        else:
            merged[key] = value
    return merged


def merge_actions(base: EventActions | None, other: EventActions | None) -> EventActions | None:
    """The actions of two events as those of one (spec §14.8); neither `base` nor the later `other` is changed.

    State is merged deeply and the later call wins; artifact versions by maximum; flags by "or"; the last transfer wins;
    confirmation and credential requests are united.
    """
    if base is None or other is None:
        return base if other is None else other
    values = {name: value for name, value in fields_of(other).items() if value is not None}
    values["skip_summarization"] = base.skip_summarization or other.skip_summarization
    values["escalate"] = base.escalate or other.escalate
    values["transfer_to_agent"] = other.transfer_to_agent or base.transfer_to_agent
    values["state_delta"] = deep_merge(base.state_delta, other.state_delta)
    mine, theirs = base.artifact_delta, other.artifact_delta
    values["artifact_delta"] = mine | {name: max(mine.get(name, latest), latest) for name, latest in theirs.items()}
    values["requested_auth_configs"] = base.requested_auth_configs | other.requested_auth_configs
    values["requested_tool_confirmations"] = base.requested_tool_confirmations | other.requested_tool_confirmations
    if base.requested_inputs and other.requested_inputs:
        values["requested_inputs"] = base.requested_inputs | other.requested_inputs
    return make(EventActions, {**fields_of(base), **values})
