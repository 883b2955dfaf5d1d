"""From whatever google-genai raises, and Google reports, to flowloom's model errors."""

from __future__ import annotations

import re
from typing import Any, cast

from google.auth import exceptions as auth
from google.genai import errors, types

from flowloom.errors import (
    ConfigurationError,
    FlowloomError,
    ModelError,
    ModelRequestError,
    ModelResponseError,
    UnsupportedFeatureError,
)
from flowloom.models.failures import (
    reported_in_stream,
    retry_after,
    status_error,
    transport_error,
    unavailable,
)

CREDENTIALS = (
    "Set `GOOGLE_API_KEY` (or `GEMINI_API_KEY`) for the Gemini API; or `GOOGLE_GENAI_USE_VERTEXAI=true`, "
    "`GOOGLE_CLOUD_PROJECT` and `GOOGLE_CLOUD_LOCATION` for Vertex AI, with application default credentials; or "
    "pass `api_key=` or `credentials=` to `Gemini`."
)
"""What to do when there are no credentials."""

_UNKNOWN_SETTING = re.compile(r"(\w+) parameter is (?:only|not) supported in ")


def call_error(error: Exception, model: str) -> FlowloomError:
    """What to raise for an error on the way to an answer: from the request, the network or the provider."""
    if isinstance(error, FlowloomError):
        return error
    if isinstance(error, errors.APIError):
        body = cast(Any, error.details)  # pyright: ignore[reportUnknownMemberType]
        message = error.message or (str(body) if body else None)
        return status_error(error.code, error.status, message, model, _asked_pause(error, body))
    if isinstance(error, auth.DefaultCredentialsError):
        return ConfigurationError(f"No Google credentials were found for the model `{model}`. {CREDENTIALS}")
    if isinstance(error, auth.TransportError | auth.TimeoutError):
        return unavailable(error, model, "Google's sign-in service", timed_out=isinstance(error, auth.TimeoutError))
    if isinstance(error, auth.GoogleAuthError):
        return ModelRequestError(
            f"Google refused the credentials for the model `{model}`: {error}", model=model, code="UNAUTHENTICATED"
        )
    if isinstance(error, errors.UnknownApiResponseError):
        return ModelResponseError(f"The answer of the model `{model}` could not be read: {error}", model=model)
    if isinstance(error, ValueError) and (unknown := _UNKNOWN_SETTING.match(str(error))) is not None:
        name = unknown[1]
        field = f"config.{name}" if name in types.GenerateContentConfig.model_fields else name
        return UnsupportedFeatureError(
            f"The request to the model `{model}` cannot be sent: {error}", field=field, model=model
        )
    return transport_error(error, model)


def reported_error(body: dict[str, Any], model: str, *, streamed: bool) -> ModelError:
    """The error for an error object that came with status 200, alone or inside of a stream."""
    found: Any = body.get("error")
    details = cast(dict[str, Any], found) if isinstance(found, dict) else {"message": str(found)}
    number: Any = details.get("code")
    status = int(number) if str(number).isdigit() else None
    code: Any = details.get("status")
    message: Any = details.get("message")
    if streamed:
        return reported_in_stream(status, code, message, model)
    return status_error(status, code, message, model)


def _asked_pause(error: errors.APIError, body: Any) -> float | None:
    """Seconds that the provider asked to wait: its `Retry-After` header, or the `RetryInfo` of its error body."""
    response = cast(Any, error.response)  # pyright: ignore[reportUnknownMemberType]
    pauses = [retry_after(getattr(response, "headers", None)), _retry_info_seconds(body)]
    return max((pause for pause in pauses if pause is not None), default=None)


def _retry_info_seconds(body: Any) -> float | None:
    """`retryDelay` ("17s") of a google.rpc.RetryInfo among the error's details."""
    try:
        details: list[dict[str, Any]] = body["error"]["details"]
        delays = [
            detail["retryDelay"] for detail in details if detail.get("@type", "").endswith("google.rpc.RetryInfo")
        ]
        return max((float(str(delay).removesuffix("s")) for delay in delays), default=None)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
