"""google-adk with what can be tuned from outside, without a change to its code.

- `ADK_ENABLE_IN_MEMORY_SESSION_SERVICE_LIGHT_COPY=1`: the session service copies the lists of a session, and not every
  event in them. By default each `get_session` is a deep copy of the whole log.
- Telemetry: the stable convention instead of the experimental one, by `ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN=1` and in
  the run's own telemetry config, which is then made once and not for every record; no contents in spans
  (`ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false`). `OTEL_SEMCONV_STABILITY_OPT_IN`, which would choose the experimental
  convention, is taken out. No exporter is set up, here or in any other engine.
- A pool of eight threads for blocking tools. By default they run in the event loop, one after the other.

The environment is read while google-adk is imported and at runs, so that it is set before.
"""

from __future__ import annotations

import os

os.environ |= {
    "ADK_ENABLE_IN_MEMORY_SESSION_SERVICE_LIGHT_COPY": "1",
    "ADK_TELEMETRY_SCHEMA_VERSION_OPT_IN": "1",
    "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": "false",
}
os.environ.pop("OTEL_SEMCONV_STABILITY_OPT_IN", None)

from dataclasses import replace

from google.adk.agents.run_config import ToolThreadPoolConfig
from google.adk.telemetry.context import TelemetryConfig

from benchmarks import script
from benchmarks.peers import google_adk
from benchmarks.peers.adk_names import RunnerEngine

NAMES = replace(
    google_adk.NAMES,
    run_options={
        "telemetry": TelemetryConfig(genai_semconv_stability_opt_in="stable"),
        "tool_thread_pool_config": ToolThreadPoolConfig(max_workers=script.BLOCKING_CALLS),
    },
)


def engine(case: str, size: int) -> RunnerEngine:
    """One case on a tuned google-adk."""
    return RunnerEngine(NAMES, case, size)
