"""`App`: a root agent with what belongs to it."""

# no annotations as texts: pydantic would compile each of the fields' by itself

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from flowloom.agents import BaseAgent
from flowloom.agents.base_agent import NAME, OutputT, TypedByOutput
from flowloom.errors import ConfigurationError
from flowloom.objects.settings import Settings, class_on_use
from flowloom.plugins import BasePlugin

if TYPE_CHECKING:
    from flowloom.compaction.config import EventsCompactionConfig
    from flowloom.models.context_cache import ContextCacheConfig
else:
    ContextCacheConfig = class_on_use("flowloom.models.context_cache", "ContextCacheConfig")
    EventsCompactionConfig = class_on_use("flowloom.compaction.config", "EventsCompactionConfig")


class ResumabilityConfig(Settings):
    """Whether invocations can be resumed; in this engine all of them can."""

    is_resumable: bool = False


class App(TypedByOutput[OutputT]):
    """An application: a name under which sessions are kept, the root agent, and what holds for all of its runs.

    `version` is published, for example on the card of a served agent. `events_compaction_config` has long
    conversations summed up, within runs and after them; `context_cache_config` has providers cache the beginning of
    conversations. `resumability_config` is accepted and changes nothing: every invocation can be resumed.

    Raises `ConfigurationError` for a name that is not of letters, digits, `_` and `-`, or is `user`.
    """

    name: str
    root_agent: BaseAgent[OutputT]
    version: str = "1.0.0"
    if TYPE_CHECKING:  # given as any sequence, read as a list
        plugins: list[BasePlugin] = Field(init=False)
        _plugins: Sequence[BasePlugin] = Field(default=(), alias="plugins")
    else:
        plugins: list[BasePlugin] = Field(default_factory=list)
    events_compaction_config: EventsCompactionConfig | None = None
    context_cache_config: ContextCacheConfig | None = None
    resumability_config: ResumabilityConfig | None = None

    def _when_made(self) -> None:
        if not NAME.fullmatch(self.name) or self.name == "user":
            raise ConfigurationError(
                f"`{self.name}` is no name for an app: use letters, digits, `_` and `-`, and not `user`."
            )
