"""From arguments to an answer: a request is built, sent, led on by redirects, and repeated where that is safe
(protocols spec §0, Idempotence; §3, Sent and SSRF)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import quote, urljoin, urlsplit

from flowloom import __version__
from flowloom.errors import ToolError
from flowloom.protocols.addresses import is_same_origin, shown_address
from flowloom.protocols.openapi.bodies import LoadArtifact, value_of, written
from flowloom.protocols.openapi.operations import REPEATABLE, SAFE, Operation
from flowloom.protocols.openapi.security import Granted
from flowloom.protocols.openapi.servers import NO_ADDRESS
from flowloom.protocols.openapi.styles import cookie_pairs, header_text, path_text, query_pairs

Redirects = Literal["same-origin"] | bool
MAX_REDIRECTS = 5
MAX_BODY_BYTES = 32 * 1024 * 1024
"""How much of an answer is read."""
LONGEST_PAUSE = 10.0
"""For how many seconds a server that is busy is waited for within a call."""


@dataclass(slots=True)
class Outgoing:
    """A request before credentials are added to it: those go to the origin that they are meant for, and no other."""

    method: str
    url: str
    headers: list[tuple[str, str]]
    content: bytes | None
    cookies: list[str] = field(default_factory=list[str])
    private: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]], repr=False)
    """Headers of the program's own, which may be credentials too."""


async def outgoing(operation: Operation, args: Mapping[str, Any], load_artifact: LoadArtifact) -> Outgoing:
    """The request of an operation with arguments that fit. Raises `ToolError` for what cannot be written."""
    if "://" not in operation.server:
        raise ToolError(f"`{operation.label}` cannot be called: {NO_ADDRESS}.")
    path, query = operation.path.partition("#")[0], list[str]()
    path, _, fixed = path.partition("?")
    if fixed:
        query.append(fixed)
    request = Outgoing(operation.method, "", [("User-Agent", f"flowloom/{__version__}")], None)
    request.headers.append(("Accept", "application/json, */*;q=0.8"))
    for parameter in operation.parameters:
        value = args.get(parameter.argument)
        if parameter.argument not in args or (value is None and not parameter.as_json and parameter.place != "path"):
            continue  # null is "undefined" to the styles (RFC 6570, 2.3)
        if parameter.place == "path":
            path = path.replace(f"{{{parameter.name}}}", path_text(parameter, value))
        elif parameter.place == "query":
            query += query_pairs(parameter, value)
        elif parameter.place == "header":
            request.headers.append((parameter.name, header_text(parameter, value)))
        else:
            request.cookies += cookie_pairs(parameter, value)
    if "/./" in f"{path}/" or "/../" in f"{path}/":
        raise ToolError("An argument makes a part of the path `.` or `..`, which leads elsewhere.")
    if operation.body is not None:
        is_there, value = value_of(operation.body, args, frozenset(operation.schema["properties"]))
        if is_there:
            media, request.content = await written(operation.body, value, load_artifact)
            request.headers.append(("Content-Type", media))
    request.url = operation.server.rstrip("/") + path + (f"?{'&'.join(query)}" if query else "")
    return request


async def answered(
    request: Outgoing,
    granted: Granted,
    send: Callable[[Any], Awaitable[Any]],
    make: Callable[..., Any],
    *,
    redirects: Redirects,
    sleep: Callable[[float], Awaitable[None]],
) -> Any:
    """The answer to a request, after redirects, and at most one repetition where a second request does no harm.

    `send` sends what `make` makes of method, address, headers and content. Raises `ToolError` for a redirect that
    is not followed, and what `send` raises.
    """

    async def once() -> Any:
        try:
            return await _followed(request, granted, send, make, redirects)
        except Exception as error:
            if type(error).__name__ not in _BROKEN or request.method not in REPEATABLE:
                raise
        return await _followed(request, granted, send, make, redirects)

    answer = await once()
    pause = _pause(answer) if request.method in SAFE else None
    if pause is not None:
        await sleep(pause)
        answer = await once()
    return answer


_FOR_ANYBODY = ("User-Agent", "Accept", "Content-Type")
"""The headers that another origin is sent; any other may be a credential."""
_OF_ADDRESSES = "!$%&'()*+,/:;=?@[]~"
"""The characters that have a meaning in an address, and those of what is percent-encoded."""
_BROKEN = frozenset({"RemoteProtocolError", "ReadError", "WriteError"})
"""What a connection ends with that the server had given up, before it answered."""


def _pause(answer: Any) -> float | None:
    """For how long a busy server wants to be left alone, if that is short; None if it does not say so."""
    told = answer.headers.get("retry-after", "") if answer.status in (429, 503) else ""
    if told.isdecimal():
        seconds = float(told)
    else:
        try:
            seconds = max(0.0, parsedate_to_datetime(told).timestamp() - time.time())
        except ValueError:
            return None
    return seconds if seconds <= LONGEST_PAUSE else None


async def _followed(
    request: Outgoing,
    granted: Granted,
    send: Callable[[Any], Awaitable[Any]],
    make: Callable[..., Any],
    redirects: Redirects,
) -> Any:
    method, url, content, body_headers = request.method, request.url, request.content, request.headers
    for _ in range(MAX_REDIRECTS + 1):
        is_own = url == request.url or is_same_origin(url, request.url)
        answer = await send(make(method, *_with_credentials(url, body_headers, request, granted, is_own), content))
        location = answer.headers.get("location")
        if answer.status not in (301, 302, 303, 307, 308) or not location:
            return answer
        url = _encoded(urljoin(url, location))
        if not redirects:
            return answer
        if redirects == "same-origin" and not is_same_origin(url, request.url):
            raise ToolError(
                f"HTTP {answer.status}: the server leads on to {shown_address(url)[:200]}, which is another origin, so "
                f"it was not followed. `follow_redirects=True` allows it, without credentials."
            )
        if answer.status == 303 or (answer.status in (301, 302) and method == "POST"):
            method, content = ("HEAD" if method == "HEAD" else "GET"), None
            body_headers = [pair for pair in body_headers if pair[0].lower() != "content-type"]
    raise ToolError(f"The server led on more than {MAX_REDIRECTS} times.")


def _encoded(url: str) -> str:
    """An address without its fragment, percent-encoded where a server has left that out."""
    parts = urlsplit(url)
    path, query = (quote(each, safe=_OF_ADDRESSES) for each in (parts.path, parts.query))
    return parts._replace(path=path, query=query, fragment="").geturl()


def _with_credentials(
    url: str, headers: Sequence[tuple[str, str]], request: Outgoing, granted: Granted, is_own: bool
) -> tuple[str, list[tuple[str, str]]]:
    """Address and headers of one request; credentials only for the origin that they are meant for."""
    if not is_own:
        return url, [pair for pair in headers if pair[0] in _FOR_ANYBODY]
    credentials = list(granted.headers.items())
    own = {name.lower() for name, _ in (*request.private, *credentials)}
    private = [pair for pair in request.private if pair[0].lower() not in {name.lower() for name in granted.headers}]
    sent = [pair for pair in headers if pair[0].lower() not in own] + private + credentials
    cookies = [*request.cookies, *granted.cookies]
    if cookies:
        sent.append(("Cookie", "; ".join(cookies)))
    missing = [pair for pair in granted.query if pair not in url.partition("?")[2].split("&")]
    if missing:
        url += ("&" if "?" in url else "?") + "&".join(missing)
    return url, sent
