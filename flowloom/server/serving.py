"""An application on a socket, until the process is told to stop."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn

from flowloom.errors import ConfigurationError
from flowloom.server.settings import ServerSettings


def bound_socket(host: str, port: int) -> socket.socket:
    """A socket to listen on; port 0 takes any free one. Raises `ConfigurationError` for an address not to be had."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind(address)
        except BaseException:
            made.close()
            raise
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"The server cannot listen on {host}:{port}: {error}.") from error
    made.set_inheritable(True)
    return made


def address_of(bound: socket.socket, prefix: str = "") -> str:
    """The address at which a browser finds what listens on a socket."""
    host, port = bound.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    path = prefix.strip("/")
    return f"http://{host}:{port}" + (f"/{path}" if path else "")


def server_of(app: Any, settings: ServerSettings) -> uvicorn.Server:
    """The server that serves an application, not started."""
    config = uvicorn.Config(app, log_level="warning", lifespan="on", ws="websockets-sansio")
    return uvicorn.Server(config)


def run_server(app: Any, settings: ServerSettings) -> None:
    """Serve an application until the process is told to stop; its address is printed in one line.

    Raises `ConfigurationError` for an address that cannot be had.
    """
    bound = bound_socket(settings.host, settings.port)
    server = server_of(app, settings)
    with bound:
        print(f"Listening on {address_of(bound, settings.url_prefix)}", flush=True)
        asyncio.run(server.serve(sockets=[bound]))
