"""What a run is to be run with, as the registry keeps it: JSON, which any worker reads."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from google.genai import types
from pydantic import ValidationError

from flowloom.context import RunConfig
from flowloom.durable.retrying import RetryPolicy
from flowloom.errors import ConfigurationError
from flowloom.events.json_data import as_json
from flowloom.events.parts import content_of


@dataclass(frozen=True, slots=True)
class Audience:
    """Those for whom a server has begun a run.

    `readers` streams of it are open, in whichever process; `grace` seconds after the last client has gone, the run is
    cancelled. `dev`: whether they are told the texts of unexpected errors.
    """

    dev: bool = True
    grace: float = 0.0
    readers: int = 1


@dataclass(frozen=True, slots=True)
class Spec:
    """The `run_config`, when to try again, and who reads."""

    run_config: RunConfig | None = None
    retry: RetryPolicy | None = None
    schedule: str | None = None
    """The name of the schedule that has submitted the run."""
    audience: Audience | None = None
    trace: dict[str, str] = field(default_factory=dict[str, str])
    """The span of its submission, as `tracing` writes it down."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data. Raises `ConfigurationError` for a config that cannot be."""
        said: dict[str, Any] = {}
        if self.run_config is not None:
            try:
                said["run_config"] = self.run_config.model_dump(mode="json", exclude_unset=True, exclude_none=True)
            except ValueError as error:
                raise ConfigurationError(f"The `run_config` cannot be kept for another process: {error}.") from error
        if self.retry is not None:
            said["retry"] = self.retry.to_dict()
        if self.schedule is not None:
            said["schedule"] = self.schedule
        if self.audience is not None:
            said["audience"] = asdict(self.audience)
        if self.trace:
            said["trace"] = self.trace
        return said

    @classmethod
    def loads(cls, text: str) -> Spec:
        """What was kept. Raises `ConfigurationError` for a config that this release does not read."""
        said: dict[str, Any] = json.loads(text)
        config, retry = said.get("run_config"), said.get("retry")
        try:
            read = None if config is None else RunConfig.model_validate(config)
        except ValidationError as error:
            raise ConfigurationError(f"The run's `run_config` cannot be read here: {error}.") from error
        again = None if retry is None else RetryPolicy.from_dict(retry)
        readers = audience_in(said)
        return cls(read, again, said.get("schedule"), readers, said.get("trace", {}))


def audience_in(said: dict[str, Any]) -> Audience | None:
    """Who reads a run, by what was kept of it."""
    kept = said.get("audience")
    return None if kept is None else Audience(**kept)


def message_data(content: types.Content | None, state_delta: dict[str, Any] | None = None) -> dict[str, Any]:
    """A message, and what it changes in the state, as plain data. Raises `JsonDataError` for what JSON cannot hold."""
    said = {} if content is None else content.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {**said, "stateDelta": as_json(state_delta)} if state_delta else said


def message_of(text: str | None) -> tuple[types.Content | None, dict[str, Any]]:
    """The message that a leg begins with, one, or answers that came one by one; and what it changes in the state."""
    contents: list[types.Content] = []
    state_delta: dict[str, Any] = {}
    for each in json.loads(text or "[]"):
        state_delta |= each.pop("stateDelta", {})
        if each:
            contents.append(types.Content.model_validate(each))
    if len(contents) > 1:
        return content_of("user", [part for content in contents for part in content.parts or ()]), state_delta
    return contents[0] if contents else None, state_delta
