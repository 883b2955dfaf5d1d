"""From whatever google-genai and its HTTP library raise to flowloom's model errors."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, cast

from google.auth import exceptions as auth
from google.genai import errors

from flowloom.errors import (
    ConfigurationError,
    FlowloomError,
    ModelError,
    ModelRateLimitError,
    ModelRequestError,
    ModelResponseError,
    ModelStreamError,
    ModelUnavailableError,
)
from flowloom.models.gemini_http import DECODING_ERRORS, LOCAL_ERRORS, NETWORK_ERRORS, TIMEOUT_ERRORS

TIMEOUT = "TIMEOUT"
"""`code` of an error whose cause is that the provider was silent for too long."""
CONNECTION = "CONNECTION"
"""`code` of an error whose cause is the network, or a connection that broke."""

CREDENTIALS = (
    "Set `GOOGLE_API_KEY` (or `GEMINI_API_KEY`) for the Gemini API; or `GOOGLE_GENAI_USE_VERTEXAI=true`, "
    "`GOOGLE_CLOUD_PROJECT` and `GOOGLE_CLOUD_LOCATION` for Vertex AI, with application default credentials; or "
    "pass `api_key=` or `credentials=` to `Gemini`."
)
"""What to do when there are no credentials."""

_TRANSIENT = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}


def call_error(error: Exception, model: str) -> FlowloomError:
    """What to raise for an error on the way to an answer: from the request, the network or the provider."""
    if isinstance(error, FlowloomError):
        return error
    if isinstance(error, errors.APIError):
        body = cast(Any, error.details)  # pyright: ignore[reportUnknownMemberType]
        return status_error(error.code, error.status, error.message or (str(body) if body else None), model)
    if isinstance(error, auth.DefaultCredentialsError):
        return ConfigurationError(f"No Google credentials were found for the model `{model}`. {CREDENTIALS}")
    if isinstance(error, auth.TransportError | auth.TimeoutError):
        return _unavailable(error, model, "Google's sign-in service")
    if isinstance(error, auth.GoogleAuthError):
        return ModelRequestError(
            f"Google refused the credentials for the model `{model}`: {error}", model=model, code="UNAUTHENTICATED"
        )
    if _is_network(error):
        return _unavailable(error, model, f"The model `{model}`")
    if isinstance(error, (*DECODING_ERRORS, errors.UnknownApiResponseError)):
        return ModelResponseError(f"The answer of the model `{model}` could not be read: {error}", model=model)
    return ModelRequestError(f"The request to the model `{model}` could not be made: {_named(error)}", model=model)


def stream_error(error: Exception, model: str) -> FlowloomError:
    """What to raise for an error in the middle of a streamed answer."""
    if isinstance(error, FlowloomError):
        return error
    if _is_network(error):
        code = TIMEOUT if _is_timeout(error) else CONNECTION
        text = "stopped coming" if code == TIMEOUT else "broke off"
        return ModelStreamError(
            f"The streamed answer of the model `{model}` {text}: {_named(error)}",
            model=model,
            code=code,
            retryable=True,
        )
    return ModelResponseError(f"The streamed answer of the model `{model}` could not be read: {error}", model=model)


def status_error(status: int | None, code: str | None, message: str | None, model: str) -> ModelError:
    """The error for an HTTP status; `code` is the provider's name for it, such as `RESOURCE_EXHAUSTED`."""
    kind, what = _kind_of(status)
    return kind(
        f"The model `{model}` {what} ({_label(status, code)}): {message or 'no reason was given'}",
        model=model,
        status=status,
        code=code,
        retryable=is_transient(status),
    )


def reported_error(body: dict[str, Any], model: str, *, streamed: bool) -> ModelError:
    """The error for an error object that came with status 200, alone or inside of a stream."""
    found: Any = body.get("error")
    details = cast(dict[str, Any], found) if isinstance(found, dict) else {"message": str(found)}
    number: Any = details.get("code")
    status = number if isinstance(number, int) else None
    code: Any = details.get("status")
    message: Any = details.get("message")
    if not streamed:
        return status_error(status, code, message, model)
    return ModelStreamError(
        f"The streamed answer of the model `{model}` ended in an error ({_label(status, code)}): {message}",
        model=model,
        status=status,
        code=code,
        retryable=is_transient(status),
    )


def is_transient(status: int | None) -> bool:
    """Whether the same call may succeed later, by its HTTP status: 408, 429, 5xx."""
    return status is not None and (status in _TRANSIENT or 500 <= status < 600)


def asked_pause(error: BaseException | None) -> float | None:
    """Seconds that the provider asked to wait: its `Retry-After` header, or the `RetryInfo` of its error body."""
    if not isinstance(error, errors.APIError):
        return None
    body = cast(Any, error.details)  # pyright: ignore[reportUnknownMemberType]
    response = cast(Any, error.response)  # pyright: ignore[reportUnknownMemberType]
    headers: Any = getattr(response, "headers", None)
    header: str | None = headers.get("retry-after") if headers is not None else None
    pauses = [_header_seconds(header), _retry_info_seconds(body)]
    return max((pause for pause in pauses if pause is not None), default=None)


def _header_seconds(value: str | None) -> float | None:
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0.0, (moment - datetime.datetime.now(datetime.UTC)).total_seconds())


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


def _kind_of(status: int | None) -> tuple[Callable[..., ModelError], str]:
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return ModelRateLimitError, "refused the call for its rate or quota"
    if is_transient(status):
        return ModelUnavailableError, "is not available"
    if status is not None and 400 <= status < 500:
        return ModelRequestError, "rejected the request"
    return ModelResponseError, "gave an answer that is none"


def _unavailable(error: Exception, model: str, who: str) -> ModelUnavailableError:
    timed_out = _is_timeout(error)
    what = "did not answer in time" if timed_out else "could not be reached"
    return ModelUnavailableError(
        f"{who} {what}: {_named(error)}", model=model, code=TIMEOUT if timed_out else CONNECTION, retryable=True
    )


def _is_timeout(error: Exception) -> bool:
    return isinstance(error, (*TIMEOUT_ERRORS, auth.TimeoutError))


def _is_network(error: Exception) -> bool:
    return isinstance(error, NETWORK_ERRORS) and not isinstance(error, LOCAL_ERRORS)


def _label(status: int | None, code: str | None) -> str:
    return " ".join(word for word in (f"HTTP {status}" if status else "", code or "") if word) or "no status"


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
