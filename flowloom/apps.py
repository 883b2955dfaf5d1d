"""`App`: a root agent with what belongs to it."""

from __future__ import annotations

import re

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flowloom.agents import BaseAgent
from flowloom.compaction.config import EventsCompactionConfig
from flowloom.errors import ConfigurationError, bad_fields
from flowloom.models.context_cache import ContextCacheConfig
from flowloom.plugins import BasePlugin

_NAME = re.compile(r"[\w-]+")


class ResumabilityConfig(BaseModel):
    """Whether invocations can be gone on with; in this engine all of them can."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    is_resumable: bool = False


class App(BaseModel):
    """An application: a name under which sessions are kept, the root agent, and what holds for all of its runs.

    `events_compaction_config` has long conversations summed up, within runs and after them; `context_cache_config` has
    providers cache the beginning of conversations. `resumability_config` is taken for the sake of code that gives it:
    every invocation can be gone on with.

    Raises `ConfigurationError` for a name that is not of letters, digits, `_` and `-`, or is `user`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid", defer_build=True)

    name: str
    root_agent: BaseAgent
    plugins: list[BasePlugin] = Field(default_factory=list[BasePlugin])
    events_compaction_config: EventsCompactionConfig | None = None
    context_cache_config: ContextCacheConfig | None = None
    resumability_config: ResumabilityConfig | None = None

    def __init__(self, **fields: object) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise bad_fields(f"App `{fields.get('name', '')}`", type(self).model_fields, error) from error
        if not _NAME.fullmatch(self.name) or self.name == "user":
            raise ConfigurationError(
                f"`{self.name}` is no name for an app: use letters, digits, `_` and `-`, and not `user`."
            )
