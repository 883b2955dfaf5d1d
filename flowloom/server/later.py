"""What google-adk's server can be told, and this one not yet: refused by name (server spec §1)."""

from __future__ import annotations

_A2A = "This server does not speak A2A yet; `flowloom.protocols.a2a.to_a2a` serves an agent"
_TRACES = "Traces cannot be sent to Google Cloud yet; `flowloom.configure_telemetry` sends them to any OTLP endpoint"
LATER = {
    "a2a": _A2A,
    "task_store_uri": _A2A,
    "trigger_sources": "Agents cannot be run by triggers yet",
    "trigger_oidc_audience": "Agents cannot be run by triggers yet",
    "trigger_oidc_service_accounts": "Agents cannot be run by triggers yet",
    "trigger_auth_verifier": "Agents cannot be run by triggers yet",
    "eval_storage_uri": "Evaluations cannot be kept yet",
    "trace_to_cloud": _TRACES,
    "otel_to_cloud": _TRACES,
    "avatar_config": "There are no live runs with an avatar yet",
    "enable_features": "There are no features to switch on",
    "disable_features": "There are no features to switch off",
    "gemini_enterprise_app_name": "An app cannot be registered with Gemini Enterprise yet",
    "express_mode": "An app cannot be registered with Gemini Enterprise yet",
    "session_db_kwargs": "A store takes no options beside its address",
    "session_db_url": "This name is out of use; the flag is `session_service_uri`",
    "artifact_storage_uri": "This name is out of use; the flag is `artifact_service_uri`",
}
"""Why each is refused."""


def refusal(name: str, written: str | None = None) -> str:
    """What is told of a setting that is refused; `written` is how it was given."""
    return f"`{written or name}` cannot be used: {LATER[name][0].lower()}{LATER[name][1:]}. Leave it out."
