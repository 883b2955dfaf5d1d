"""Deltas between machines: over TLS with the certificate that the registry names, or as plain text if asked for."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import json
import logging
import signal
import socket
import sqlite3
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from cli.process import started
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from loopback import HERE, listening
from models.wire_server import closed_port

from durable.fleet import APP, WHO, client_of, opened, runner_of, steps, worker_of
from flowloom import BaseLlm, LlmRequest, LlmResponse
from flowloom.durable import Deltas, RunClient, StoreCourier, SubmittedRun, Worker, callers, channel, deltas
from flowloom.durable.deltas import Remote
from flowloom.errors import ConfigurationError
from flowloom.events.parts import content_of, text_part
from flowloom.run_stream import TextDelta
from flowloom.testing.suites.courier_place import until, until_async

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


def certificate(folder: Path, name: str = "worker") -> dict[str, Path]:
    """A self-signed certificate, and its key, in files."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    made = made.add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HERE))]), critical=False)
    pem, private = folder / f"{name}.pem", folder / f"{name}.key"
    pem.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    private.write_bytes(key.private_bytes(*form))
    return {"certificate": pem, "key": private}


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients are on another machine than the workers."""
    monkeypatch.setattr(callers, "path_of", lambda address: None)


class Speaking(BaseLlm):
    """Says the beginning, and the end when it is told to."""

    model: str = "speaking"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=content_of("model", [text_part("Hello ")]), partial=True)
        await told.wait()
        yield LlmResponse(content=content_of("model", [text_part("there.")]), partial=True)
        yield LlmResponse(content=content_of("model", [text_part("Hello there.")]))


told = asyncio.Event()


@pytest.fixture(autouse=True)
def silent() -> None:
    """The model was not told to end yet."""
    globals()["told"] = asyncio.Event()


@contextlib.asynccontextmanager
async def speaking(where: str, at: Deltas) -> AsyncIterator[tuple[Worker, RunClient]]:
    """A worker that can be followed there, whose model speaks slowly; and a client with another service."""
    mine, theirs = opened(where), opened(where)
    runner = runner_of(theirs, [])
    runner.agent.model = Speaking()
    courier = StoreCourier(theirs, APP, poll=0.02)
    async with Worker(runner, courier=courier, deltas=at) as worker, client_of(mine) as client:
        yield worker, client
    await mine.close()
    await theirs.close()


async def texts(run: SubmittedRun) -> list[str]:
    """The deltas of a run as they come; the model goes on when there was one."""
    found: list[str] = []
    async with asyncio.timeout(60):
        async for each in run.stream():
            if isinstance(each, TextDelta):
                found.append(each.text)
                told.set()
    return found


async def read_from_the_log(client: RunClient, caplog: pytest.LogCaptureFixture, warned: int = 1) -> None:
    """A run is followed, of which no delta is seen while it speaks: what it says comes complete."""
    run = await client.submit("Go.", **WHO)
    following = asyncio.ensure_future(texts(run))

    async def is_running() -> bool:
        return (await run.info()).status == "running"

    await until_async(is_running)
    await until(lambda: len(caplog.records) >= warned)
    await asyncio.sleep(0.1)
    assert not told.is_set()
    told.set()
    assert "".join(await following) == "Hello there."


def moved(where: str, change: Callable[[str], str]) -> None:
    """Have the registry name another address of its worker."""
    with contextlib.closing(sqlite3.connect(where)) as connection, connection:
        [(address,)] = connection.execute("SELECT address FROM flowloom_workers").fetchall()
        connection.execute("UPDATE flowloom_workers SET address = ?", (change(address),))


async def test_deltas_reach_another_machine_over_tls(tmp_path: Path, apart: None) -> None:
    """As they are said, with a certificate that no authority has signed."""
    async with speaking(str(tmp_path / "f.db"), Deltas(HERE, **certificate(tmp_path))) as (worker, client):
        assert (worker.channel.address or "").startswith(f"tls://{HERE}:")
        assert await texts(await client.submit("Go.", **WHO)) == ["Hello ", "there."]


async def test_deltas_go_as_plain_text_if_that_was_asked_for(tmp_path: Path, apart: None) -> None:
    async with speaking(str(tmp_path / "f.db"), Deltas(HERE, insecure=True)) as (worker, client):
        assert (worker.channel.address or "").startswith(f"tcp://{HERE}:")
        assert await texts(await client.submit("Go.", **WHO)) == ["Hello ", "there."]


async def test_clients_of_the_same_machine_use_the_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection of another kind is made."""
    monkeypatch.setattr(Remote, "connect", None)
    async with speaking(str(tmp_path / "f.db"), Deltas(HERE, **certificate(tmp_path))) as (_, client):
        assert await texts(await client.submit("Go.", **WHO)) == ["Hello ", "there."]


async def test_a_worker_without_deltas_is_read_from_the_log(
    tmp_path: Path, apart: None, caplog: pytest.LogCaptureFixture
) -> None:
    """By clients of other machines, which is nothing to be told of."""
    where = str(tmp_path / "f.db")
    async with speaking(where, Deltas(HERE)) as (_, client):
        moved(where, lambda address: address.partition(" ")[2])
        await read_from_the_log(client, caplog, warned=0)
    assert caplog.records == []


async def test_another_certificate_is_refused_and_told_nothing(
    tmp_path: Path, apart: None, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever stands between gets no token and no deltas are lost: the log has all. It is said once."""
    where, heard = str(tmp_path / "f.db"), bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            heard.extend(await reader.read())

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(tmp_path, "other").values())
    async with (
        speaking(where, Deltas(HERE, **certificate(tmp_path))) as (_, client),
        listening(listen, ssl=context) as port,
    ):
        moved(where, lambda address: f"tls://{HERE}:{port}#{address.split(' ')[0].partition('#')[2]}")
        await read_from_the_log(client, caplog)
    assert heard == b""
    [record] = caplog.records
    assert (record.levelno, "another certificate" in record.getMessage()) == (logging.WARNING, True)


@pytest.mark.parametrize("answers", ["nothing", "no TLS", "no listener", "no name"])
async def test_a_worker_that_cannot_be_reached_is_read_from_the_log(
    tmp_path: Path,
    apart: None,
    answers: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is where it should be; it is said once."""
    monkeypatch.setattr(deltas, "_CONNECTING", 0.1)
    where = str(tmp_path / "f.db")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if answers == "no TLS":
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with contextlib.suppress(OSError):
            await reader.read()

    async with listening(answer) as port, speaking(where, Deltas(HERE, **certificate(tmp_path))) as (_, client):
        nowhere = {"no name": f"{'x' * 70}.invalid:1", "no listener": f"{HERE}:{closed_port()}"}
        place = nowhere.get(answers, f"{HERE}:{port}")
        moved(where, lambda address: f"tls://{place}#{address.split(' ')[0].partition('#')[2]}")
        await read_from_the_log(client, caplog)
    [record] = caplog.records
    assert (record.levelno, "cannot be followed" in record.getMessage()) == (logging.WARNING, True)


@pytest.mark.parametrize("over", ["TLS", "TCP"])
@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\n\r\n", b'{"token": "no"}\n', b"[" * 100_000], ids=range(4))
async def test_a_stranger_leaves_nothing(
    tmp_path: Path,
    said: bytes,
    over: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that says nothing, or anything, is hung up on, before and after the handshake; no task or socket is left."""
    monkeypatch.setattr(deltas, "STRANGER", 2.0)
    monkeypatch.setattr(channel, "STRANGER", 2.0)
    service, before = opened(str(tmp_path / "f.db")), asyncio.all_tasks()
    options = certificate(tmp_path) if over == "TLS" else {}
    async with worker_of(service, steps(1), deltas=Deltas(HERE, **options)) as worker:
        remote = Remote.of(worker.channel.address)
        assert remote is not None
        raw = await asyncio.open_connection(HERE, remote.port)
        for reader, writer in (raw, await remote.connect(1000)):
            with contextlib.suppress(OSError):
                writer.write(said)
                await writer.drain()
                while await asyncio.wait_for(reader.read(1000), 60):  # an alert of TLS may come first
                    pass
            writer.transport.abort()
        door = worker.channel._door
        assert door is not None
        await until(lambda: not door._callers and not worker.channel._callers)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    await service.close()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("over", ["TLS", "TCP"])
async def test_a_worker_ends_at_once_whoever_is_connected(tmp_path: Path, over: str) -> None:
    """In the middle of a handshake, silent, or following a run."""
    options = certificate(tmp_path) if over == "TLS" else {}
    service = opened(str(tmp_path / "f.db"))
    before = asyncio.all_tasks()
    async with asyncio.timeout(60):
        async with worker_of(service, steps(1), deltas=Deltas(HERE, **options)) as worker:
            remote = Remote.of(worker.channel.address)
            assert remote is not None
            worker.channel.begin("r1", 1)
            streams = [
                await asyncio.open_connection(HERE, remote.port),
                *[await remote.connect(1000) for _ in range(2)],
            ]
            follow = {"token": worker.channel.token, "do": "follow", "run": "r1", "deltas": True}
            streams[2][1].write(json.dumps(follow).encode() + b"\n")
            await until(lambda: worker.channel._topics["r1"].followers)
        for _, writer in streams:
            writer.transport.abort()
        await service.close()
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_who_follows_a_worker_that_is_killed_goes_on_with_the_next(tmp_path: Path, apart: None) -> None:
    """In the middle of a message: what replaces it comes whole, from the log or as deltas of the other worker."""
    (tmp_path / APP).mkdir()
    (tmp_path / APP / "agent.py").write_text(AGENT)
    where, options = str(tmp_path / "f.db"), certificate(tmp_path)
    files = ("--deltas_cert", options["certificate"], "--deltas_key", options["key"])
    quick = ("--heartbeat", "0.1", "--dead-after", "0.5")
    command = ("worker", tmp_path / APP, "--store", where, *quick, "--deltas_host", HERE, *files)
    mine = opened(where)
    with started(*command) as first:
        assert first.stdout.readline() == "up\n"
        async with asyncio.timeout(60), client_of(mine) as client:
            run, found = await client.submit("Go.", **WHO), list[Any]()
            async with worker_after(first, where, options) as follows:
                async for event in client_events(run):
                    found.append(event)
                    if len(found) == 2:
                        follows.set()
    await mine.close()
    assert first.wait(60) == -signal.SIGKILL
    assert [event.text for event in found if not event.partial] == ["Go.", "Hello there."]
    assert any(event.partial for event in found)


@contextlib.asynccontextmanager
async def worker_after(first: Any, where: str, options: dict[str, Path]) -> AsyncIterator[asyncio.Event]:
    """When the event is set, the first worker is killed, and one of this process goes on."""
    killed, over, theirs = asyncio.Event(), asyncio.Event(), opened(where)

    async def work() -> None:
        await killed.wait()
        first.kill()
        told.set()
        runner = runner_of(theirs, [])
        runner.agent.model = Speaking()
        async with Worker(runner, heartbeat=0.1, dead_after=0.5, deltas=Deltas(HERE, **options)):
            await over.wait()

    working = asyncio.create_task(work())
    yield killed
    over.set()
    await working
    await theirs.close()


async def client_events(run: SubmittedRun) -> AsyncIterator[Any]:
    """The events of a run, parts of messages too."""
    async for each in run.told():
        if each.event is not None:
            yield each.event


AGENT = """
import asyncio
from flowloom import BaseLlm, LlmAgent, LlmResponse
from flowloom.events.parts import content_of, text_part

class Speaking(BaseLlm):
    model: str = "speaking"
    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=content_of("model", [text_part("Hello ")]), partial=True)
        await asyncio.sleep(60)

root_agent = LlmAgent(name="agent", model=Speaking())
"""


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"host": "10.0.0.5"}, "`certificate`.*`key`.*insecure=True"),
        ({"host": "worker-1.internal"}, "--insecure_deltas"),
        ({"host": "0.0.0.0"}, "by which clients reach this machine"),
        ({"host": "::"}, "by which clients reach this machine"),
        ({"host": ""}, "by which clients reach this machine"),
        ({"host": "a b"}, "by which clients reach this machine"),
        ({"host": HERE, "port": 70_000}, "1 to 65535"),
        ({"host": HERE, "insecure": True, "certificate": "a.pem"}, "one of them"),
        ({"host": HERE, "key": "a.key"}, "need the `certificate`"),
    ],
)
def test_deltas_that_cannot_be_are_refused(options: dict[str, Any], says: str) -> None:
    """When they are made, with what to do."""
    with pytest.raises(ConfigurationError, match=says):
        Deltas(**options)


async def test_files_that_are_no_certificate_are_refused(tmp_path: Path) -> None:
    """One that is not there, one that is anything, a key of another, one with a password: when the worker is made."""
    service, mine, other = opened(str(tmp_path / "f.db")), certificate(tmp_path), certificate(tmp_path, "other")
    (tmp_path / "any.pem").write_text("anything")
    key = serialization.load_pem_private_key(mine["key"].read_bytes(), None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8)
    (tmp_path / "locked.key").write_bytes(key.private_bytes(*form, serialization.BestAvailableEncryption(b"secret")))
    for changed in (
        {"certificate": tmp_path / "none.pem"},
        {"certificate": tmp_path / "any.pem"},
        {"key": other["key"]},
        {"key": None},
        {"key": tmp_path / "locked.key"},
    ):
        with pytest.raises(ConfigurationError, match="cannot use the certificate"):
            worker_of(service, steps(1), deltas=Deltas(HERE, **{**mine, **changed}))
    await service.close()


async def test_a_place_that_is_taken_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    """Or one that is not of this machine: the worker does not begin, and no socket of its is left."""
    service, before = opened(str(tmp_path / "f.db")), asyncio.all_tasks()
    with socket.create_server((HERE, 0)) as taken:
        for at in (
            Deltas(HERE, taken.getsockname()[1]),
            Deltas("192.0.2.1", insecure=True),
            Deltas("x.invalid", insecure=True),
        ):
            worker = worker_of(service, steps(1), deltas=at)
            with pytest.raises(ConfigurationError, match="cannot listen"):
                await worker.__aenter__()
            assert worker.channel.address is None
    await service.close()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize(
    "remote", [Remote("::1", 80, ""), Remote("10.0.0.5", 8443, "ab12"), Remote("worker-1.internal", 1, "")], ids=str
)
def test_an_address_is_read_as_it_was_written(remote: Remote) -> None:
    """With that of the socket behind it, or alone."""
    assert Remote.of(str(remote)) == Remote.of(f"{remote} 0123:unix:/tmp/a b.sock") == remote


@pytest.mark.parametrize(
    "address",
    [None, "", "0123:unix:/tmp/a.sock", "tls://a:1", "tcp://a:1#ab", "tls://a#ab", "tls://a:x#b", "tcp://[:1"],
)
def test_no_place_is_made_of_another_address(address: str | None) -> None:
    """Also of one that would go over TLS to a worker without a certificate, or as plain text to one with it."""
    assert Remote.of(address) is None
