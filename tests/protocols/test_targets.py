"""Which hosts may be reached when an address comes from elsewhere."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

import httpx
import httpx2
import pytest

from flowloom.protocols import targets
from flowloom.protocols.guarded import guarded_transport
from flowloom.protocols.targets import (
    AddressRefusedError,
    address_in,
    check_host,
    check_target,
    checked_addresses,
    refusal_of,
)

LOOPBACK = [
    "127.0.0.1",
    "localhost",
    "LOCALHOST.",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "[::1]",
    "::1",
    "::ffff:127.0.0.1",
    "::ffff:7f00:1",
    "１２７。０．０．１",
    "127.0.0.1.",
    "0.0.0.0",
    "a.localhost",
    "64:ff9b::7f00:1",
    "2002:7f00:1::",
]
REFUSED = ["10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200", "224.0.0.1", "fe80::1"]
REFUSED += [
    "fd00:ec2::254",
    "ff02::1",
    "::",
    "240.0.0.1",
    "255.255.255.255",
    "168.63.129.16",
    "metadata.google.internal",
]
REFUSED += ["metadata.google.internal", "::10.0.0.1", "printer.local", "198.18.0.1", "192.0.2.1"]


@pytest.mark.parametrize("host", LOOPBACK + REFUSED)
async def test_hosts_that_are_not_public_are_refused_in_every_spelling(host: str) -> None:
    """Loopback, private, link-local, multicast and a cloud's own: by number, mapped number or name."""
    with pytest.raises(AddressRefusedError, match="not reached"):
        await checked_addresses(host, 80)
    with pytest.raises(AddressRefusedError):
        check_host(host)


@pytest.mark.parametrize("host", ["8.8.8.8", "2001:4860:4860::8888", "64:ff9b::808:808", "::ffff:8.8.8.8"])
async def test_public_addresses_are_reached(host: str) -> None:
    """A number that is public is taken as it is, without asking a resolver."""
    assert await checked_addresses(host, 80) == [str(ip_address(host))]


async def test_a_name_is_refused_for_any_of_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that leads to a public and to a private address leads nowhere."""
    answers = [[(socket.AF_INET, None, 6, "", (each, 80)) for each in ("93.184.216.34", "10.0.0.1")]]
    monkeypatch.setattr(targets.socket, "getaddrinfo", lambda *_, **__: answers[0])
    with pytest.raises(AddressRefusedError, match="private"):
        await checked_addresses("rebound.example", 80)
    assert await checked_addresses("rebound.example", 80, allow_private=True) == ["93.184.216.34", "10.0.0.1"]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.com", "http://", "http://[::1", "http://a:b/"])
async def test_an_address_has_to_be_one_of_http(url: str) -> None:
    """Other schemes, and addresses that cannot be read, are refused."""
    with pytest.raises(AddressRefusedError):
        await check_target(url)


async def test_the_user_part_of_an_address_is_no_host() -> None:
    """What stands before the last @ says nothing of the host."""
    with pytest.raises(AddressRefusedError, match="loopback"):
        await check_target("http://example.com@127.0.0.1/")


def test_names_are_no_numbers() -> None:
    """What only begins like a number is a name."""
    assert address_in("1.2.3.4.example.com") is None
    assert address_in("") is None
    assert refusal_of(ip_address("1.1.1.1")) is None


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_a_client_connects_to_the_address_that_was_checked(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is looked up once for a connection, and what a resolver would say afterwards counts for nothing."""
    asked: list[str] = []

    def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, None, 6, "", ("127.0.0.1", port))]

    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    monkeypatch.setattr(targets.socket, "getaddrinfo", getaddrinfo)
    transport = guarded_transport(library, verify=False)
    async with library.AsyncClient(transport=transport) as client:
        with pytest.raises(AddressRefusedError, match=r"api\.example"):
            await client.get(f"http://api.example:{port}/")
    assert asked == ["api.example"]
    server.settimeout(0.01)
    with pytest.raises(TimeoutError):
        server.accept()
    server.close()


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
async def test_errors_of_connections_are_the_librarys(library: Any) -> None:
    """Who uses the transport catches what the library raises."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    async with library.AsyncClient(transport=guarded_transport(library, allow_private=True, verify=False)) as client:
        with pytest.raises(library.ConnectError):
            await client.get(f"http://127.0.0.1:{port}/")


async def test_what_goes_through_a_proxy_is_checked_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy looks names up itself: those that are local by their name alone are refused."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with httpx2.AsyncClient(transport=guarded_transport(httpx2, verify=False)) as client:
        for host in ("127.0.0.1", "localhost", "2130706433", "x.internal"):
            with pytest.raises(AddressRefusedError):
                await client.get(f"http://{host}/")
        with pytest.raises(httpx2.ConnectError):
            await client.get("http://api.example/")
