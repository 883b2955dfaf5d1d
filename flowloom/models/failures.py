"""What goes wrong between an adapter and its provider, as flowloom's model errors."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from flowloom.errors import (
    FlowloomError,
    ModelError,
    ModelRateLimitError,
    ModelRequestError,
    ModelResponseError,
    ModelStreamError,
    ModelUnavailableError,
)
from flowloom.models.http import DECODING_ERRORS, HIDDEN, LOCAL_ERRORS, NETWORK_ERRORS, TIMEOUT_ERRORS
from flowloom.objects.notebook import named

TIMEOUT = "TIMEOUT"
"""`code` of an error whose cause is that the provider was silent for too long."""
CONNECTION = "CONNECTION"
"""`code` of an error whose cause is the network, or a connection that broke."""

# Refusals that come as 429, and that waiting does not mend.
_LASTING = ("insufficient_quota", "billing_hard_limit_reached", "billing_error")
_TRANSIENT = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}


def status_error(
    status: int | None, code: str | None, message: str | None, model: str, retry_after: float | None = None
) -> ModelError:
    """The error for an HTTP status; `code` is the provider's name for it, such as `RESOURCE_EXHAUSTED`."""
    kind, what = _kind_of(status)
    return kind(
        f"The model `{model}` {what} ({label(status, code)}): {message or 'no reason was given'}",
        model=model,
        status=status,
        code=code,
        retryable=is_transient(status) and code not in _LASTING,
        retry_after=retry_after,
    )


def reported_in_stream(status: int | None, code: str | None, message: str | None, model: str) -> ModelStreamError:
    """The error for one that a provider reports inside of a streamed answer."""
    return ModelStreamError(
        f"The streamed answer of the model `{model}` ended in an error ({label(status, code)}): "
        f"{message or 'no reason was given'}",
        model=model,
        status=status,
        code=code,
        retryable=is_transient(status) and code not in _LASTING,
    )


def transport_error(error: Exception, model: str) -> FlowloomError:
    """The error for what the HTTP library raised on the way to an answer."""
    if isinstance(error, FlowloomError):
        return error
    if is_network(error):
        return unavailable(error, model, f"The model `{model}`", timed_out=is_timeout(error))
    if isinstance(error, DECODING_ERRORS):
        return ModelResponseError(f"The answer of the model `{model}` could not be read: {error}", model=model)
    if is_local(error):
        return ModelRequestError(
            f"The request to the model `{model}` could not be made: a header, such as the one with the key, or the "
            f"address is not of a form that HTTP allows ({type(error).__name__}).",
            model=model,
        )
    return ModelRequestError(f"The request to the model `{model}` could not be made: {named(error)}", model=model)


def stream_error(error: Exception, model: str) -> FlowloomError:
    """The error for what the HTTP library raised in the middle of a streamed answer."""
    if isinstance(error, FlowloomError):
        return error
    if is_network(error):
        return broken_stream(model, named(error), timed_out=is_timeout(error))
    return ModelResponseError(f"The streamed answer of the model `{model}` could not be read: {error}", model=model)


def broken_stream(model: str, how: str, *, timed_out: bool = False) -> ModelStreamError:
    """The error for a streamed answer that did not come to its end."""
    return ModelStreamError(
        f"The streamed answer of the model `{model}` {'stopped coming' if timed_out else 'broke off'}: {how}",
        model=model,
        code=TIMEOUT if timed_out else CONNECTION,
        retryable=True,
    )


def empty_stream(model: str) -> ModelStreamError:
    """The error for a streamed answer without anything in it."""
    return ModelStreamError(
        f"The streamed answer of the model `{model}` ended before anything came.",
        model=model,
        code=CONNECTION,
        retryable=True,
    )


def unreadable(error: Exception, model: str) -> ModelResponseError:
    """The error for an answer that is not of the form that was expected."""
    return ModelResponseError(f"The answer of the model `{model}` could not be read: {error}", model=model)


def unavailable(error: Exception, model: str, who: str, *, timed_out: bool) -> ModelUnavailableError:
    """The error for a server on the way that did not answer."""
    what = "did not answer in time" if timed_out else "could not be reached"
    return ModelUnavailableError(
        f"{who} {what}: {named(error)}", model=model, code=TIMEOUT if timed_out else CONNECTION, retryable=True
    )


def without_secrets(error: FlowloomError, secrets: Sequence[str]) -> FlowloomError:
    """The error without `secrets` in its text, and without a cause that tells them."""
    text = str(error)
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    if text != str(error):
        error.args = (text, *error.args[1:])
    cause = error.__cause__
    if cause is not None and any(secret in str(cause) for secret in secrets):
        error.__cause__ = None
    return error


def is_transient(status: int | None) -> bool:
    """Whether the same call may succeed later, by its HTTP status: 408, 429, 5xx."""
    return status is not None and (status in _TRANSIENT or 500 <= status < 600)


def is_timeout(error: BaseException) -> bool:
    """Whether a server was silent for too long."""
    return isinstance(error, TIMEOUT_ERRORS)


def is_network(error: BaseException) -> bool:
    """Whether the network failed, and not the request."""
    return isinstance(error, NETWORK_ERRORS) and not isinstance(error, LOCAL_ERRORS)


def is_local(error: BaseException) -> bool:
    """Whether the request cannot be written as HTTP. What the library says of it may show a key."""
    return isinstance(error, (*LOCAL_ERRORS, UnicodeEncodeError))


def is_known(error: BaseException) -> bool:
    """Whether an error is the HTTP library's own, and not something that wraps one."""
    return is_network(error) or is_local(error) or isinstance(error, DECODING_ERRORS)


def retry_after(headers: Any) -> float | None:
    """Seconds that a `Retry-After` header asks to wait (or `retry-after-ms`, in thousandths); None without one."""
    if headers is None:
        return None
    milliseconds: str | None = headers.get("retry-after-ms")
    if milliseconds is not None:
        try:
            return max(0.0, float(milliseconds) / 1000)
        except ValueError:
            pass
    value: str | None = headers.get("retry-after")
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


def label(status: int | None, code: str | None) -> str:
    """Status and code as texts of errors give them."""
    return " ".join(word for word in (f"HTTP {status}" if status else "", code or "") if word) or "no status"


def _kind_of(status: int | None) -> tuple[Callable[..., ModelError], str]:
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return ModelRateLimitError, "refused the call for its rate or quota"
    if is_transient(status):
        return ModelUnavailableError, "is not available"
    if status is not None and 400 <= status < 500:
        return ModelRequestError, "rejected the request"
    return ModelResponseError, "gave an answer that is none"
