"""`RunConfig` and `Limits`: how one run behaves (spec §18.3, decision 23)."""

# no annotations as texts: pydantic would compile each of the fields' by itself

from enum import Enum
from typing import Any, Literal

from google.genai import types
from pydantic import ConfigDict, Field

from flowloom.errors import NotSupportedError, quoted_list
from flowloom.events.wire import replace
from flowloom.objects.settings import Settings
from flowloom.sessions.service import GetSessionConfig


class StreamingMode(Enum):
    """Whether a run shows partial responses while the model still answers."""

    NONE = None
    SSE = "sse"
    BIDI = "bidi"


class Limits(Settings):
    """What one run may use, all of its agents and agent tools together, or one agent by itself; None means no limit.

    `tools` says how often each tool may be called in the run: a call too many is answered with an error that the model
    sees. `agents` gives agents limits of their own by name, as `LlmAgent.limits` does.

    `on_limit` says what happens when another limit is reached: `raise` ends the run with a `LimitExceededError`; `stop`
    ends it (or the turn of the agent whose limit it is) with one error event; `summarise` lets the agent answer once
    more, without tools, from what it has. The history is kept, and the next message continues from there.
    """

    model_config = ConfigDict(frozen=True)

    model_calls: int | None = Field(default=None, ge=0)
    tool_calls: int | None = Field(default=None, ge=0)
    total_tokens: int | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)
    tools: dict[str, int] = Field(default_factory=dict)
    agents: "dict[str, Limits]" = Field(default_factory=dict)
    on_limit: Literal["raise", "stop", "summarise"] = "raise"


NO_LIMITS = Limits.model_construct()


class ToolThreadPoolConfig(Settings):
    """How many blocking tools of one run may work at once."""

    max_workers: int = Field(default=32, ge=1)


class RunConfig(Settings):
    """Settings of one run. Raises `ConfigurationError` for a field that is not there, or a value that does not fit, and
    `NotSupportedError` for what only live runs have."""

    streaming_mode: StreamingMode = StreamingMode.NONE
    max_llm_calls: int = 500
    """Model calls in one run; zero or less means without limit."""
    limits: Limits = Field(default_factory=lambda: NO_LIMITS)  # pydantic would copy a default
    tool_errors: Literal["return", "raise"] = "return"
    """Whether a tool that raises gives the model an error result (decision 8) or ends the run."""
    tool_thread_pool_config: ToolThreadPoolConfig = ToolThreadPoolConfig.model_construct()
    pause_on_tool_calls: bool | list[str] = False
    """Whether the run stops before any call of an answer is executed: always, or when one of these tools is called.
    The client executes the calls it likes and sends function responses; the others run when the run is resumed."""
    custom_metadata: dict[str, Any] | None = None
    """Put on every event of the run."""
    http_options: types.HttpOptions | None = None
    labels: dict[str, str] | None = None
    get_session_config: GetSessionConfig | None = None
    model_input_context: list[types.Content] | None = None
    """Contents shown to the model before the history, in this run only."""
    include_thoughts_from_other_agents: bool = False
    forward_agent_tool_events: bool = False
    """Whether the events of agents that run as tools appear in the stream, marked and not stored."""
    save_input_blobs_as_artifacts: bool = False
    service_tier: str | None = None
    response_modalities: list[str] | None = None
    speech_config: types.SpeechConfig | None = None
    support_cfc: bool = False

    def _when_made(self) -> None:
        live = [name for name in ("response_modalities", "speech_config", "support_cfc") if getattr(self, name)]
        if live or self.streaming_mode is StreamingMode.BIDI:
            raise NotSupportedError(
                f"{quoted_list(live or ['StreamingMode.BIDI'])} of a `RunConfig` is for live (bidirectional) runs, "
                f"which are not supported yet. Leave it out; `StreamingMode.SSE` streams text."
            )


_DEFAULT = RunConfig.model_construct()


def default_run_config() -> RunConfig:
    """`RunConfig()`, at a tenth of the cost."""
    return replace(_DEFAULT)
