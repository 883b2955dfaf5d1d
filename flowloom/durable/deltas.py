"""`Deltas`: where a worker can be followed from other machines (durable design, section 7).

The worker listens on TCP beside its Unix socket, and its row of the registry says where: `tls://HOST:PORT#FINGERPRINT`,
or `tcp://HOST:PORT`. The registry is trusted, so that the fingerprint of the certificate (SHA-256) is all that a caller
needs to be sure of the worker, and no authority has to sign anything.
"""

from __future__ import annotations

import asyncio
import hashlib
import ipaddress
import re
import secrets
import socket
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from flowloom.errors import ConfigurationError

STRANGER = 10.0
"""Seconds that a caller from elsewhere has for its handshake, and then for saying who it is."""
_CONNECTING = 2.0
"""Seconds after which a worker counts as one that cannot be reached."""
_LONGEST_LINE = 64 * 1024
"""Bytes of the longest line that a caller from elsewhere may say."""
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class Deltas:
    """Where a worker can be followed from other machines, parts of messages (deltas) included (durable design, section
    7). Without it, clients of other machines see the complete events of its runs alone.

    `host` is the name or address of this machine by which the clients reach it; the worker listens there, on `port`, or
    on one that is free if that is 0. `certificate` is a file (PEM) for TLS, `key` the one with its private key, unless
    that is in the same. It may be self-signed: clients verify it by its fingerprint, which the registry tells them.
    `insecure` asks for plain TCP instead, where all who see the traffic can read it; so does a `host` of this machine
    alone (`localhost`, `127.0.0.1`, `::1`) that has no certificate.

    Raises `ConfigurationError` for any other host with neither a certificate nor `insecure`, for both of them, for a
    host that names no place (`0.0.0.0`), for a port out of range.
    """

    host: str
    port: int = 0
    certificate: str | Path | None = None
    key: str | Path | None = None
    insecure: bool = False

    def __post_init__(self) -> None:
        ip = _ip(self.host)
        if not self.host or any(each in self.host for each in " /#@[]") or (ip is not None and ip.is_unspecified):
            raise ConfigurationError(
                f"The `host` of `Deltas` is the name or address by which clients reach this machine, not {self.host!r}."
            )
        if not 0 <= self.port <= 65535:
            raise ConfigurationError(f"The `port` of `Deltas` is from 1 to 65535, or 0 for any, not {self.port}.")
        if self.insecure and (self.certificate or self.key):
            raise ConfigurationError("`Deltas` go over TLS with a `certificate`, or are `insecure`: give one of them.")
        if self.key and not self.certificate:
            raise ConfigurationError("`Deltas` with a `key` need the `certificate` that it belongs to.")
        loopback = self.host == "localhost" if ip is None else ip.is_loopback
        if not (self.certificate or self.insecure or loopback):
            raise ConfigurationError(
                f"Deltas to other machines go over TLS: give `Deltas` for `{self.host}` a `certificate`, which may be "
                "self-signed, and its `key` (`--deltas_cert`, `--deltas_key`), or ask for plain TCP with "
                "`insecure=True` (`--insecure_deltas`)."
            )


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


class Remote(NamedTuple):
    """Where a worker listens for callers of other machines: over TLS if it has the `fingerprint` of a certificate."""

    host: str
    port: int
    fingerprint: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = f"{host}:{self.port}"
        return f"tls://{place}#{self.fingerprint}" if self.fingerprint else f"tcp://{place}"

    @classmethod
    def of(cls, address: str | None) -> Remote | None:
        """What the address of a worker says of it; None if it cannot be reached from other machines."""
        try:
            parts = urlsplit((address or "").split(" ", 1)[0])
            known = parts.scheme == ("tls" if parts.fragment else "tcp")
            if known and parts.hostname and parts.port:
                return cls(parts.hostname, parts.port, parts.fragment)
        except ValueError:
            pass
        return None

    async def connect(self, limit: int) -> Streams:
        """A connection to the worker, which over TLS is known to be the worker; its lines are of up to `limit` bytes.

        Raises `OSError` if there is none in time, and `ssl.SSLCertVerificationError`, which is one, for another
        certificate: nothing was said to whoever has that.
        """
        tls = _unsigned() if self.fingerprint else None
        try:
            async with asyncio.timeout(_CONNECTING):
                reader, writer = await asyncio.open_connection(self.host, self.port, ssl=tls, limit=limit)
        except TimeoutError:
            raise TimeoutError(f"no answer within {_CONNECTING:g} seconds") from None
        if tls is not None:
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True) or b""
            if not secrets.compare_digest(_fingerprint(shown).encode(), self.fingerprint.encode("utf-8", "replace")):
                writer.transport.abort()
                raise ssl.SSLCertVerificationError("who answers there has another certificate than the worker")
        return reader, writer


def _unsigned() -> ssl.SSLContext:
    """TLS with a peer whose certificate is compared with the one that is expected, whoever has signed it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _fingerprint(certificate: bytes) -> str:
    return hashlib.sha256(certificate).hexdigest()


class Door:
    """Lets callers of other machines in: `serve` is called with the streams of each.

    Raises `ConfigurationError` for a certificate or key that cannot be used.
    """

    def __init__(self, deltas: Deltas, serve: Serve) -> None:
        self._deltas = deltas
        self._serve = serve
        self._tls, self._shown = _served(deltas)
        self._socket: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._callers: set[asyncio.Task[None]] = set()

    async def open(self) -> Remote:
        """Listen; says where. Raises `ConfigurationError` if the machine has no such place."""
        host, port = self._deltas.host, self._deltas.port
        try:
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
            self._socket = socket.create_server(found[0][4][:2], family=found[0][0], backlog=128)
        except (OSError, UnicodeError) as error:  # the latter for what cannot be a name
            raise ConfigurationError(
                f"The worker cannot listen for followers at `{host}`, port {port}: {error}. Give `Deltas` an address "
                "of this machine, and a port that is free (0 takes any)."
            ) from error
        self._socket.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._socket), name="flowloom worker's door")
        return Remote(host, self._socket.getsockname()[1], self._shown)

    def close(self) -> set[asyncio.Task[None]]:
        """Let no caller in any more, and send all away; what is left of them are these tasks, which end."""
        ending = set(self._callers)
        if self._accepting is not None:
            ending.add(self._accepting)
        for task in ending:
            task.cancel()
        if self._socket is not None and self._accepting is not None:
            self._accepting.add_done_callback(lambda _, listening=self._socket: listening.close())
        return ending

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                caller, _ = await loop.sock_accept(listening)
            except OSError:  # a caller that has gone already, or no descriptor is free
                await asyncio.sleep(0.1)
                continue
            task = asyncio.create_task(self._let_in(caller), name="flowloom worker's caller")
            self._callers.add(task)
            task.add_done_callback(self._callers.discard)
            task.add_done_callback(lambda _, caller=caller: caller.close())

    async def _let_in(self, caller: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LONGEST_LINE)
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            patience = STRANGER if self._tls is not None else None
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, caller, ssl=self._tls, ssl_handshake_timeout=patience, ssl_shutdown_timeout=patience
            )
        except OSError:
            return  # it speaks no TLS, or says nothing
        await self._serve(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


def _served(deltas: Deltas) -> tuple[ssl.SSLContext | None, str]:
    """What TLS is served with, and the fingerprint of what is shown there; neither for plain TCP."""
    if deltas.certificate is None:
        return None, ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(deltas.certificate, deltas.key, password="")  # one that is locked asks no terminal
        first = _CERTIFICATE.search(Path(deltas.certificate).read_text("utf-8", "replace"))
        return context, _fingerprint(ssl.PEM_cert_to_DER_cert(first[0] if first is not None else ""))
    except (OSError, ValueError) as error:
        key = "" if deltas.key is None else f", the key of which is in `{deltas.key}`,"
        raise ConfigurationError(
            f"`Deltas` cannot use the certificate `{deltas.certificate}`{key} for TLS: {error}. Both are PEM files, "
            "and the key has no password."
        ) from error
