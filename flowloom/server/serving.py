"""An application on a socket, until the process is told to stop."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any

import uvicorn

from flowloom.errors import ConfigurationError
from flowloom.server.connections import BoundedProtocol
from flowloom.server.settings import ServerSettings
from flowloom.server.sources import stamp_of

_LOOK_EVERY = 0.5
"""Seconds between two looks at the sources of a server that starts anew when they change."""

_LAST_SECONDS = 5
"""How long answers have that are no runs, when the server stops; runs have their own grace before."""


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


class _Server(uvicorn.Server):
    """Tells its address when it can be reached."""

    address = ""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self.address:
            print(f"Listening on {self.address}", flush=True)


def server_of(app: Any, settings: ServerSettings) -> _Server:
    """The server that serves an application, not started."""
    shown = logging.getLogger("flowloom").isEnabledFor(logging.DEBUG)
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="websockets-sansio",
        lifespan="on",
        log_config=None,
        access_log=shown,
        timeout_graceful_shutdown=_LAST_SECONDS,
    )
    return _Server(config)


def run_server(app: Any, settings: ServerSettings, *, watched: Path | None = None) -> int | None:
    """Serve an application until the process is told to stop; its address is printed in one line.

    With a `watched` folder it stops, too, when a source in it changes: the port is returned then. Raises
    `ConfigurationError` for an address that cannot be had, and if the application cannot start.
    """
    with bound_socket(settings.host, settings.port) as bound:
        port = bound.getsockname()[1]
        server = server_of(app, settings)
        server.address = address_of(bound, settings.url_prefix)
        try:
            changed = asyncio.run(_serve(server, bound, watched))
        except KeyboardInterrupt:  # raised again by uvicorn when it has stopped
            return None
        if not server.started:
            raise ConfigurationError("The server could not start. What stands above in the log says why.")
        return port if changed else None


async def _serve(server: uvicorn.Server, bound: socket.socket, watched: Path | None) -> bool:
    """Serve until the server stops; whether that is because a source has changed."""
    if watched is None:
        await server.serve(sockets=[bound])
        return False
    watching = asyncio.create_task(_stop_when_changed(server, watched))
    try:
        await server.serve(sockets=[bound])
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    return not watching.cancelled()


async def _stop_when_changed(server: uvicorn.Server, folder: Path) -> None:
    before = await asyncio.to_thread(stamp_of, folder)
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        if await asyncio.to_thread(stamp_of, folder) != before:
            break
    server.should_exit = True
