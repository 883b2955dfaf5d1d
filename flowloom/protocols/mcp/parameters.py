"""Where an MCP server is, and how it is reached; plain data, for which no library is loaded."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from flowloom.errors import ConfigurationError
from flowloom.protocols.addresses import origin_of, shown_address

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""A longer message of a server breaks the connection."""


@dataclass(frozen=True)
class StdioServer:
    """A program that speaks MCP over its standard input and output: `command` with `args`, in the folder `cwd`.

    `env` are variables beside the few that every server inherits (`HOME`, `PATH` and the like). The SDK's
    `StdioServerParameters` has the same fields, and stands wherever this does, and so does a dict of them.
    """

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: str | Path | None = None
    encoding: str = "utf-8"
    encoding_error_handler: str = "strict"

    @classmethod
    def of(cls, given: Any) -> StdioServer:
        """What `given` says: one of these, the SDK's parameters, or a dict. Raises `ConfigurationError`."""
        if isinstance(given, StdioServer):
            return given
        names = [*cls.__dataclass_fields__]
        held: dict[str, Any]
        if isinstance(given, dict):
            held = {**cast(dict[str, Any], given)}
        else:
            other = cast(object, given)
            held = {name: getattr(other, name) for name in names if hasattr(other, name)}
        unknown = held.keys() - {*names}
        if unknown or not isinstance(held.get("command"), str) or not held["command"]:
            what = f"`{min(unknown)}` is none of its fields" if unknown else "it names no `command`"
            raise ConfigurationError(
                f"A {type(cast(object, given)).__name__} does not describe a stdio server: {what}."
            )
        args: Any = held.get("args") or ()
        if isinstance(args, str):
            raise ConfigurationError(f"`args` of the stdio server `{held['command']}` is a text: give a list of texts.")
        held["args"] = tuple(map(str, args))
        return cls(**held)


@dataclass(frozen=True)
class StdioConnectionParams:
    """A server that is started as a process of its own.

    `server_params` is a `StdioServer`, the SDK's `StdioServerParameters`, or a dict of their fields. `timeout` is how
    many seconds its start, a listing and each call may take.
    """

    server_params: Any
    timeout: float = 5.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "server_params", StdioServer.of(self.server_params))
        _check_seconds(self.timeout, "timeout")

    @property
    def server(self) -> StdioServer:
        """The program."""
        return self.server_params

    @property
    def address(self) -> str:
        """What errors and logs call the server: the command, without its arguments' values."""
        return " ".join([self.server.command, *(each for each in self.server.args if not _may_be_secret(each))])

    @property
    def origin(self) -> str:
        """What tells the server from others, for what is remembered of it."""
        return self.identity({})

    def identity(self, headers: Mapping[str, str]) -> str:
        """A hash of all that makes a connection another one; a process has no `headers`."""
        server = self.server
        return _hash([server.command, server.args, sorted((server.env or {}).items()), str(server.cwd or "")])


@dataclass(frozen=True)
class _HttpParams:
    """What both HTTP transports have in common."""

    url: str = field(repr=False)
    headers: Mapping[str, Any] | None = field(default=None, repr=False)
    timeout: float = 5.0
    sse_read_timeout: float = 300.0

    def __post_init__(self) -> None:
        if origin_of(self.url)[0] not in ("http", "https") or not origin_of(self.url)[1]:
            raise ConfigurationError(f"`url` is {shown_address(self.url)!r}, but must begin with http or https.")
        for name, value in (self.headers or {}).items():
            if not isinstance(value, str) or "\n" in value or "\r" in value:
                raise ConfigurationError(f"The header `{name}` of {self.address} is no text of one line.")
        _check_seconds(self.timeout, "timeout")
        _check_seconds(self.sse_read_timeout, "sse_read_timeout")

    @property
    def address(self) -> str:
        """What errors and logs call the server."""
        return shown_address(self.url)

    @property
    def origin(self) -> str:
        """What tells the server from others, for what is remembered of it."""
        return _hash([self.url])

    def identity(self, headers: Mapping[str, str]) -> str:
        """A hash of all that makes a connection another one: the address, and all headers."""
        sent = {name.lower(): value for name, value in {**(self.headers or {}), **headers}.items()}
        return _hash([self.url, sorted(sent.items())])


@dataclass(frozen=True)
class StreamableHTTPConnectionParams(_HttpParams):
    """A server at an address that speaks streamable HTTP.

    `url` is its endpoint and `headers` go with every request. `timeout` is how many seconds the start, a listing and
    each call may take; `sse_read_timeout` how many may pass between two events of a stream. `terminate_on_close` ends
    the session at the server when the connection is closed. `httpx_client_factory(headers=, timeout=, auth=)` makes the
    HTTP client, an `httpx2.AsyncClient`.
    """

    terminate_on_close: bool = True
    httpx_client_factory: Callable[..., Any] | None = None


@dataclass(frozen=True)
class SseConnectionParams(_HttpParams):
    """A server at an address that speaks the older transport, HTTP with server-sent events.

    The fields are those of `StreamableHTTPConnectionParams`: `url`, `headers`, `timeout` and `sse_read_timeout` (both
    in seconds), `httpx_client_factory`.
    """

    httpx_client_factory: Callable[..., Any] | None = None


ConnectionParams = StdioConnectionParams | StreamableHTTPConnectionParams | SseConnectionParams


def connection_params_of(given: Any) -> ConnectionParams:
    """The parameters that `given` is; a bare description of a stdio server becomes `StdioConnectionParams`."""
    if isinstance(given, StdioConnectionParams | StreamableHTTPConnectionParams | SseConnectionParams):
        return given
    if isinstance(given, str):
        raise ConfigurationError(
            "`connection_params` is a text: give StreamableHTTPConnectionParams(url=...), SseConnectionParams(url=...) "
            "or StdioConnectionParams(server_params=...)."
        )
    return StdioConnectionParams(given)


def _check_seconds(value: float, name: str) -> None:
    if not value > 0 or math.isnan(value):
        raise ConfigurationError(f"`{name}` is {value}, but must be more than 0 seconds.")


def _may_be_secret(argument: str) -> bool:
    """Whether an argument of a command is rather not shown: a value, and not the name of a file or a module."""
    return "=" in argument or "@" in argument or "\n" in argument or len(argument) > 60


def _hash(parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
