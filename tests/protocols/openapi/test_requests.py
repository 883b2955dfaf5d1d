"""Bodies, servers, answers, redirects, and errors, which end no run."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import socket
import threading
import warnings
from datetime import UTC, datetime, timedelta
from email.parser import BytesParser
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qsl

import httpx
import httpx2
import pytest
from google.genai import types
from protocols.openapi.service import ALLOWED, BOTH, Received, Reply, Service, call, get, post, serving

from flowloom import (
    InMemoryArtifactService,
    InMemoryRunner,
    InMemorySessionService,
    LlmAgent,
    OpenAPIToolset,
    RunConfig,
    Runner,
)
from flowloom.errors import ToolArgumentsError, ToolError, ToolsetError
from flowloom.protocols import targets
from flowloom.protocols.openapi import OperationEndpoint, RestApiTool
from flowloom.testing import ScriptedModel
from flowloom.testing import call as calls

PNG = b"\x89PNG\r\n\x1a\n\0\xff"
BINARY = {"type": "string", "format": "binary"}


def fields(received: Received) -> dict[str, tuple[str | None, str | None, bytes]]:
    """The parts of a form as a server reads them: file name, type and bytes by name."""
    head = f"Content-Type: {received.header('content-type')}\r\n\r\n".encode()
    found = {}
    for part in BytesParser().parsebytes(head + received.body).get_payload():
        name = part.get_param("name", header="content-disposition")
        kind = part.get_content_type() if "content-type" in part else None
        found[name] = (part.get_filename(), kind, part.get_payload(decode=True))
    return found


def runner_of(toolset: OpenAPIToolset, *answers: Any, **options: Any) -> InMemoryRunner:
    return InMemoryRunner(agent=LlmAgent(name="a", model=ScriptedModel([*answers, "done"]), tools=[toolset]), **options)


async def results(toolset: OpenAPIToolset, name: str = "op", **args: Any) -> dict[str, Any]:
    """What a model is given of one call, in a run."""
    async with runner_of(toolset, calls(name, **args)) as runner:
        (response,) = [
            part.function_response
            for event in await runner.run_debug("go", quiet=True)
            for part in (event.content.parts if event.content else None) or ()
            if part.function_response
        ]
    return response.response


@BOTH
class TestBodies:
    """Five kinds of bodies, and which is chosen."""

    @pytest.mark.parametrize("media", ["application/json", "application/problem+json; charset=utf-8", "*/*"])
    async def test_json(self, service: Service, media: str) -> None:
        """Properties as arguments, null only where the schema has it."""
        schema = {
            "properties": {"aB": {"type": "string"}, "n": {"type": ["integer", "null"]}, "gone": {"type": "string"}}
        }
        toolset = service.toolset({"/x": post({media: {"schema": schema}})})
        await call(toolset, a_b="é\n", n=None, gone=None)
        assert service.last.body == '{"aB":"é\\n","n":null}'.encode()
        assert service.last.header("content-type") == ("application/json" if media == "*/*" else media)
        await toolset.close()

    @pytest.mark.parametrize("schema", [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}, {}])
    async def test_a_body_that_is_no_object_is_one_argument(self, service: Service, schema: Any) -> None:
        """It is called `body`."""
        toolset = service.toolset({"/x": post({"application/json": {"schema": schema}})})
        value = "v" if schema.get("type") == "string" else [1]
        await call(toolset, body=value)
        assert json.loads(service.last.body) == value
        await toolset.close()

    async def test_an_empty_object_is_sent_where_a_body_is_needed(self, service: Service) -> None:
        """And properties that have no name of their own go along, if the schema says that there are such."""
        schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}}
        toolset = service.toolset({"/x": post({"application/json": {"schema": schema}})})
        await call(toolset)
        assert service.last.body == b"{}"
        await call(toolset, a="x", other=3)
        assert json.loads(service.last.body) == {"a": "x", "other": 3}
        with pytest.raises(ToolArgumentsError, match="other"):
            await call(toolset, other="x")
        await toolset.close()

    @pytest.mark.parametrize("rest", [True, {}, {"type": ["integer", "string"]}])
    async def test_properties_without_a_name_of_their_own_go_along_if_there_may_be_such(
        self, service: Service, rest: Any
    ) -> None:
        """Whatever they are, if nothing is said of them."""
        schema = {"type": "object", "properties": {"a": {}}, "additionalProperties": rest}
        toolset = service.toolset({"/x": post({"application/json": {"schema": schema}})})
        await call(toolset, a="x", other=3)
        assert json.loads(service.last.body) == {"a": "x", "other": 3}
        await toolset.close()

    async def test_json_is_chosen_before_others_and_xml_never(self, service: Service) -> None:
        """Of several media types the first that can be written, JSON before others."""
        for content, media in (
            ({"application/xml": {}, "text/plain": {}, "application/json": {"schema": {}}}, "application/json"),
            ({"application/xml": {}, "text/plain": {}, "application/octet-stream": {}}, "text/plain"),
        ):
            toolset = service.toolset({"/x": post(content)})
            await call(toolset, body="v")
            assert service.last.header("content-type") == media
            await toolset.close()

    async def test_a_form(self, service: Service) -> None:
        """Lists repeat their name, objects are JSON, unless `encoding` says otherwise."""
        schema = {"properties": {name: {} for name in ("a", "list", "object", "piped", "deep", "json", "none")}}
        encoding = {
            "piped": {"style": "pipeDelimited", "explode": False},
            "deep": {"style": "deepObject", "explode": True},
            "json": {"contentType": "application/json"},
        }
        media = "application/x-www-form-urlencoded"
        toolset = service.toolset({"/x": post({media: {"schema": schema, "encoding": encoding}})})
        args = {
            "a": "é &=+",
            "list": [1, True],
            "object": {"b": 1},
            "piped": ["x", "y"],
            "deep": {"k": "v"},
            "json": [1],
        }
        await call(toolset, **args, none=None)
        assert service.last.header("content-type") == media
        assert parse_qsl(service.last.body.decode(), strict_parsing=True) == [
            ("a", "é &=+"),
            ("list", "1"),
            ("list", "true"),
            ("object", '{"b":1}'),
            ("piped", "x|y"),
            ("deep[k]", "v"),
            ("json", "[1]"),
        ]
        assert b"a=%C3%A9+%26%3D%2B&" in service.last.body
        await toolset.close()

    async def test_a_form_with_files(self, service: Service) -> None:
        """Files have name and type, plain fields have none, objects are JSON."""
        schema = {
            "properties": {
                "file": BINARY,
                "image": {},
                "new": {"type": "string", "contentMediaType": "image/png"},
                "many": {"type": "array", "items": BINARY},
                "note": {"type": "string"},
                "count": {"type": "integer"},
                "meta": {"type": "object"},
            }
        }
        encoding = {"image": {"contentType": "image/png"}, "note": {"contentType": "text/markdown"}}
        toolset = service.toolset({"/x": post({"multipart/form-data": {"schema": schema, "encoding": encoding}})})
        data = base64.b64encode(PNG).decode()
        url = f"data:image/gif;base64,{data}"
        await call(toolset, file=url, image=data, new=data, many=[data], note="# ä", count=3, meta={"k": [1]})
        assert fields(service.last) == {
            "file": ("file.gif", "image/gif", PNG),
            "image": ("image.png", "image/png", PNG),
            "new": ("new", "application/octet-stream", PNG),
            "many": ("many", "application/octet-stream", PNG),
            "note": (None, "text/markdown", "# ä".encode()),
            "count": (None, None, b"3"),
            "meta": (None, "application/json", b'{"k":[1]}'),
        }
        with pytest.raises(ToolArgumentsError, match="`file`"):
            await call(toolset, file="not base64!")
        await toolset.close()

    async def test_a_file_can_be_an_artifact(self, service: Service) -> None:
        """Of the session, with its name and type; one that is not there is an error of the call."""
        toolset = service.toolset(
            {
                "/x": post({"multipart/form-data": {"schema": {"properties": {"file": BINARY}}}}),
                "/y": post({"image/*": {"schema": {}}}, operationId="raw"),
            }
        )
        script = [calls("op", file={"artifact": "a.png"}), calls("raw", body={"artifact": "a.png"})]
        runner = runner_of(toolset, *script, calls("op", file={"artifact": "b.png"}))
        session = await runner.session_service.create_session(app_name=runner.app_name, user_id="u")
        assert isinstance(runner.artifact_service, InMemoryArtifactService)
        await runner.artifact_service.save_artifact(
            app_name=runner.app_name,
            user_id="u",
            session_id=session.id,
            filename="a.png",
            artifact=types.Part.from_bytes(data=PNG, mime_type="image/png"),
        )
        said = [e async for e in runner.run_async(user_id="u", session_id=session.id, new_message="go")]
        form, raw = service.received
        assert fields(form) == {"file": ("a.png", "image/png", PNG)}
        assert (raw.body, raw.header("content-type")) == (PNG, "image/png")
        assert "no artifact 'b.png'" in said[5].get_function_responses()[0].response["error"]
        await runner.close()

    async def test_text_and_bytes(self, service: Service) -> None:
        """Text as it is, bytes out of base64."""
        toolset = service.toolset({"/x": post({"text/csv": {"schema": {"type": "string"}}})})
        await call(toolset, body="a;ä")
        assert (service.last.body, service.last.header("content-type")) == ("a;ä".encode(), "text/csv")
        await toolset.close()
        toolset = service.toolset({"/x": post({"application/octet-stream": {"schema": BINARY}})})
        await call(toolset, body=base64.b64encode(PNG).decode())
        assert (service.last.body, service.last.header("content-type")) == (PNG, "application/octet-stream")
        await toolset.close()

    async def test_a_merge_patch_takes_properties_away_by_null(self, service: Service) -> None:
        """Whatever their schemas say, null is sent; what is left out stays."""
        inner = {"type": "object", "properties": {"b": {"type": "string"}}}
        schema = {"type": "object", "properties": {"a": {"type": "string"}, "in": inner, "c": {"type": "integer"}}}
        toolset = service.toolset({"/x": post({"application/merge-patch+json": {"schema": schema}})})
        await call(toolset, a=None, **{"in": {"b": None}})
        assert json.loads(service.last.body) == {"a": None, "in": {"b": None}}
        assert service.last.header("content-type") == "application/merge-patch+json"
        await toolset.close()

    async def test_a_cycle_can_be_sent(self, service: Service) -> None:
        """Data as deep as it is, checked at every level."""
        node = {
            "type": "object",
            "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/components/schemas/Node"}},
        }
        body = post({"application/json": {"schema": {"$ref": "#/components/schemas/Node"}}})
        toolset = service.toolset({"/x": body}, document={"components": {"schemas": {"Node": node}}})
        await call(toolset, v=1, next={"v": 2, "next": {"v": 3}})
        assert json.loads(service.last.body) == {"v": 1, "next": {"v": 2, "next": {"v": 3}}}
        with pytest.raises(ToolArgumentsError, match=r"`next\.next\.v`"):
            await call(toolset, v=1, next={"v": 2, "next": {"v": "x"}})
        await toolset.close()


@BOTH
class TestServers:
    """Operation before path before document, and their variables."""

    @pytest.mark.parametrize("level", ["document", "path", "operation"])
    async def test_servers_stand_at_three_levels(self, service: Service, level: str) -> None:
        """The nearest counts, with the defaults of its variables."""
        own = [{"url": f"http://127.0.0.1:{service.port}/{{v}}/", "variables": {"v": {"default": level}}}]
        item: dict[str, Any] = get()
        other = [{"url": "http://127.0.0.1:9/"}]
        document = {"servers": own if level == "document" else other}
        if level != "document":
            item["servers"] = own if level == "path" else other
        if level == "operation":
            item["get"]["servers"] = own
        toolset = service.toolset({"/x": item}, document=document)
        await call(toolset)
        assert service.last.target == f"/{level}/x"
        await toolset.close()

    async def test_variables_are_given_and_checked(self, service: Service) -> None:
        """Against their enum and their names."""
        server = {
            "url": "{scheme}://{host}:{port}/{v}",
            "variables": {
                "scheme": {"default": "https", "enum": ["http", "https"]},
                "host": {"default": "api.example.com"},
                "port": {"default": "443"},
                "v": {"default": "v1", "enum": ["v1", "v2"]},
            },
        }
        document = {**service.document({"/x": get()}), "servers": [server]}
        values = {"scheme": "http", "host": "127.0.0.1", "port": service.port, "v": "v2"}
        toolset = OpenAPIToolset(spec_dict=document, server_variables=values, **ALLOWED)
        await call(toolset)
        assert service.last.target == "/v2/x"
        await toolset.close()
        for wrong, told in (({"v": "v3"}, "may be `v2`, `v1`"), ({"hots": "x"}, "`host`")):
            with pytest.raises(ToolsetError, match=told):
                await OpenAPIToolset(spec_dict=document, server_variables=wrong, **ALLOWED).get_tools()

    @pytest.mark.parametrize(
        ("servers", "target"), [([{"url": "/v1"}], "/v1/x"), ([{"url": "v2/"}], "/api/v2/x"), ([], "/x")]
    )
    async def test_relative_servers_go_on_from_the_base(self, service: Service, servers: Any, target: str) -> None:
        """`base_url`; without one the call says what is missing."""
        document = {**service.document({"/x": get()}), "servers": servers}
        toolset = OpenAPIToolset(spec_dict=document, base_url=f"{service.url}/api/", **ALLOWED)
        await call(toolset)
        assert service.last.target == target
        await toolset.close()
        nowhere = OpenAPIToolset(spec_dict=document, **ALLOWED)
        assert "base_url" in (await results(nowhere))["error"]


class TestAnswers:
    """What the model is given."""

    @pytest.mark.parametrize(
        ("reply", "result"),
        [
            (Reply({"a": 1}), {"a": 1}),
            (Reply([1, 2]), {"result": [1, 2]}),
            (Reply("text"), {"result": "text"}),
            (Reply(b"{}", headers={"Content-Type": "application/vnd.api+json; charset=utf-8"}), {}),
            (Reply(b"plain \xc3\xa4", headers={"Content-Type": "text/plain"}), {"result": "plain ä"}),
            (Reply(b"\xe4", headers={"Content-Type": "text/plain; charset=latin-1"}), {"result": "ä"}),
            (Reply(b"<a/>", headers={"Content-Type": "application/xml"}), {"result": "<a/>"}),
            (Reply(b"untold"), {"result": "untold"}),
            (Reply(status=204), {"result": None}),
            (Reply(b""), {"result": None}),
            (Reply({"error": "of the service"}), {"error": "of the service"}),
        ],
    )
    async def test_data_and_text(self, service: Service, reply: Reply, result: Any) -> None:
        """JSON is data, text is text, nothing is null."""
        service.replies = [reply]
        assert await results(service.toolset({"/x": get()})) == result

    @pytest.mark.parametrize("body", [b"<html>", b'{"a": NaN}', b"[" * 100_000, b"\xff{}"])
    async def test_json_that_is_none_is_text_with_a_note(self, service: Service, body: bytes) -> None:
        """Whatever is wrong with it."""
        service.replies = [Reply(body, headers={"Content-Type": "application/json"})]
        result = await results(service.toolset({"/x": get()}))
        assert "is not" in result["note"]
        assert result["result"].startswith(body[:1].decode(errors="replace"))

    @pytest.mark.parametrize("media", ["image/png", "audio/wav", "application/pdf"])
    async def test_images_sound_and_pdf_are_shown_to_the_model(self, service: Service, media: str) -> None:
        """Beside the result, which says what they are; not as base64."""
        service.replies = [Reply(PNG, headers={"Content-Type": media})]
        runner = runner_of(service.toolset({"/x": get()}), calls("op"))
        events = await runner.run_debug("go", quiet=True)
        (response,) = events[1].get_function_responses()
        assert response.response == {"result": f"[{media}, 10 B]"}
        (part,) = response.parts or ()
        assert part.inline_data is not None
        assert (part.inline_data.data, part.inline_data.mime_type) == (PNG, media)
        await runner.close()

    async def test_bytes_become_an_artifact(self, service: Service) -> None:
        """Named as the server names it, or after the tool; a folder in the name is none."""
        for disposition, name in (('attachment; filename="../../a b.zip"', "a b.zip"), (None, None)):
            headers = {"Content-Type": "application/zip"} | (
                {"Content-Disposition": disposition} if disposition else {}
            )
            service.replies = [Reply(b"PK\0\1", headers=headers)]
            toolset = service.toolset({"/x": get()})
            runner = runner_of(toolset, calls("op"))
            events = await runner.run_debug("go", quiet=True)
            result = events[1].get_function_responses()[0].response
            assert name is None or result["artifact"] == name
            assert result["artifact"].endswith(".zip")
            assert events[1].actions.artifact_delta == {result["artifact"]: 0}
            assert result["result"].startswith("[application/zip, 4 B")
            await runner.close()

    async def test_what_is_long_is_cut_and_kept(self, service: Service) -> None:
        """At `max_result_bytes`; the whole is an artifact."""
        service.replies = [Reply({"text": "é" * 1000})]
        runner = runner_of(service.toolset({"/x": get()}, max_result_bytes=500), calls("op"))
        events = await runner.run_debug("go", quiet=True)
        result = events[1].get_function_responses()[0].response["result"]
        assert len(result.encode()) < 700
        (name,) = events[1].actions.artifact_delta
        assert name in result
        await runner.close()

    async def test_a_status_of_400_and_more_is_an_error(self, service: Service) -> None:
        """With status and body, which is cut to 4 kB."""
        service.replies = [Reply({"detail": "no"}, 418)]
        toolset = service.toolset({"/x": get()})
        result = await results(toolset)
        assert result == {"error": "HTTP 418 I'm a Teapot for GET /x", "status": 418, "body": {"detail": "no"}}
        service.replies = [Reply(b"x" * 9000, 500, {"Content-Type": "text/html"})]
        result = await results(toolset)
        assert len(result["body"]) < 4200
        assert "cut" in result["body"]
        service.replies = [Reply(PNG, 404, {"Content-Type": "image/png"})]
        assert (await results(toolset))["body"] == "[image/png, 10 B]"


class TestErrors:
    """No error ends a run."""

    async def test_no_connection(self, service: Service) -> None:
        """An error result that names operation and host, also where tools' errors end runs."""
        with socket.create_server(("127.0.0.1", 0)) as closed:
            port = closed.getsockname()[1]
        toolset = service.toolset({"/x": get()}, document={"servers": [{"url": f"http://127.0.0.1:{port}"}]})
        runner = runner_of(toolset, calls("op"))
        events = await runner.run_debug("go", quiet=True, run_config=RunConfig(tool_errors="raise"))
        error = events[1].get_function_responses()[0].response["error"]
        assert error.startswith("GET /x: no connection to 127.0.0.1")
        await runner.close()

    async def test_what_cannot_be_written_or_got_ends_no_run(self, service: Service) -> None:
        """A file without a store of files, a server without a host, where tools' errors end runs."""
        upload = post({"image/png": {"schema": {}}})
        nowhere = post({"application/json": {"schema": {}}}, operationId="nowhere", servers=[{"url": "/"}])
        toolset = service.toolset({"/x": upload, "/y": nowhere})
        script = [calls("op", body={"artifact": "a.png"}), calls("nowhere", body=1), "done"]
        async with Runner(
            app_name="a",
            agent=LlmAgent(name="a", model=ScriptedModel(script), tools=[toolset]),
            session_service=InMemorySessionService(),
        ) as runner:
            events = await runner.run_debug("go", quiet=True, run_config=RunConfig(tool_errors="raise"))
        told = [each.response["error"] for event in events for each in event.get_function_responses()]
        assert "artifact service" in told[0]
        assert "base_url" in told[1]
        assert service.received == []

    async def test_a_name_that_nothing_has(self, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
        """As no connection."""

        def fail(*_: object, **__: object) -> None:
            raise socket.gaierror(-2, "Name or service not known")

        monkeypatch.setattr(socket, "getaddrinfo", fail)
        toolset = service.toolset({"/x": get()}, document={"servers": [{"url": "https://api.example"}]})
        assert "no connection to api.example" in (await results(toolset))["error"]

    async def test_a_server_that_is_slow(self, service: Service) -> None:
        """After `timeout` seconds for the whole call."""
        gone = threading.Event()

        def wait(_: Received) -> Reply:
            gone.wait(5)
            return Reply()

        service.answer = wait
        result = await results(service.toolset({"/x": get()}, timeout=0.05))
        gone.set()
        assert result == {"error": "GET /x: 127.0.0.1 gave no answer within 0.05 seconds."}

    @pytest.mark.parametrize("answer", [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nshort"])
    async def test_a_server_that_speaks_no_http_or_breaks_off(self, service: Service, answer: bytes) -> None:
        """Once for what changes something, twice at most for what does not."""
        asked: list[bytes] = []
        server = socket.create_server(("127.0.0.1", 0))

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                asked.append(connection.recv(65536))
                connection.sendall(answer)
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        item = {**get(), **post({"application/json": {"schema": {}}}, required=False, operationId="write")}
        toolset = service.toolset({"/x": item}, document={"servers": [{"url": url}]})
        assert "error" in await results(toolset)
        read = len(asked)
        assert "error" in await results(toolset, "write")
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
        assert read <= 2
        assert len(asked) - read == 1

    async def test_tls_that_is_none(self, service: Service) -> None:
        """A server that speaks no TLS."""
        toolset = service.toolset({"/x": get()}, document={"servers": [{"url": f"https://127.0.0.1:{service.port}"}]})
        assert "127.0.0.1" in (await results(toolset))["error"]

    async def test_a_busy_server_is_asked_once_more_if_that_is_safe(self, service: Service) -> None:
        """429 and 503 with a short `Retry-After`, for operations that change nothing."""
        item = {**get(), **post({"application/json": {"schema": {}}}, required=False, operationId="write")}
        busy = Reply(status=503, headers={"Retry-After": "0"})
        toolset = service.toolset({"/x": item})
        service.replies = [busy, Reply({"a": 1})]
        assert await call(toolset) == {"a": 1}
        for reply, name in ((busy, "write"), (Reply(status=503), "op"), (Reply(status=500), "op")):
            service.replies, service.received = [reply], []
            assert "error" in await call(toolset, name)
            assert len(service.received) == 1
        service.replies, service.received = [busy], []
        assert "error" in await call(toolset)
        assert len(service.received) == 2
        await toolset.close()

    async def test_a_busy_server_may_say_until_when(self, service: Service) -> None:
        """`Retry-After` may be a date; one that is far away is not waited for."""
        toolset = service.toolset({"/x": get()})
        for seconds, requests in ((1, 2), (60, 1)):
            until = format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)
            service.replies, service.received = [Reply(status=503, headers={"Retry-After": until}), Reply()], []
            await call(toolset)
            assert len(service.received) == requests
        await toolset.close()

    async def test_methods_say_whether_a_call_may_be_repeated(self, service: Service) -> None:
        """`idempotent` of the tools, by which a run that was cut off is resumed."""
        methods = ("get", "head", "put", "delete", "options", "post", "patch")
        toolset = service.toolset({"/x": {method: {"operationId": method} for method in methods}})
        told = {tool.name: tool.idempotent for tool in await toolset.get_tools()}
        assert [name for name, is_so in told.items() if not is_so] == ["post", "patch"]


class TestRedirects:
    """Within the origin, and elsewhere without credentials."""

    @pytest.mark.parametrize(
        ("status", "method", "sent"),
        [(301, "post", "GET"), (303, "put", "GET"), (307, "post", "POST"), (308, "put", "PUT")],
    )
    async def test_within_the_origin(self, service: Service, status: int, method: str, sent: str) -> None:
        """Method and body as RFC 9110 has them; credentials go along."""
        service.replies = [Reply(status=status, headers={"Location": "/y?z=1"}), Reply({"ok": 1})]
        item = {method: post({"application/json": {"schema": {}}})["post"]}
        toolset = service.toolset({"/x": item}, **_key("header"))
        assert await call(toolset, body=[1]) == {"ok": 1}
        assert (service.last.method, service.last.target) == (sent, "/y?z=1")
        assert service.last.body == (b"[1]" if sent != "GET" else b"")
        assert service.last.header("x-key") == "k" * 20
        await toolset.close()

    async def test_an_address_that_is_not_encoded_is_followed(self, service: Service) -> None:
        """Letters and spaces in a `Location` are encoded; what is encoded stays."""
        service.replies = [Reply(status=302, headers={"Location": "/caf\xc3\xa9 %2F?q=a b"}), Reply()]
        toolset = service.toolset({"/x": get()})
        assert await call(toolset) == {"ok": True}
        assert service.last.target == "/caf%C3%A9%20%2F?q=a%20b"
        await toolset.close()

    async def test_another_origin_is_an_error_by_default(self, service: Service) -> None:
        """Which names it, without its query."""
        with serving() as other:
            service.replies = [Reply(status=302, headers={"Location": f"{other.url}/y?token=t"})]
            result = await results(service.toolset({"/x": get()}, **_key("header")))
            assert f"{other.url}/y," in result["error"]
            assert "token" not in result["error"]
            assert other.received == []

    @pytest.mark.parametrize("place", ["header", "query", "cookie"])
    async def test_another_origin_gets_no_credentials(self, service: Service, place: str) -> None:
        """Where redirects are followed everywhere: no key, no header of the program or the model."""
        with serving() as other:
            service.replies = [Reply(status=307, headers={"Location": f"{other.url}/y"})]
            options = _key(place) | {"follow_redirects": True, "header_provider": lambda _: {"X-Own": "own-secret"}}
            toolset = service.toolset({"/x": get({"name": "X-P", "in": "header", "schema": {}})}, **options)
            assert await results(toolset, x_p="p") == {"ok": True}
            assert "k" * 20 in str(service.last)
            assert "own-secret" in str(service.last)
            assert {name for name, _ in other.last.headers} == {"Host", "User-Agent", "Accept"}
            assert other.last.target == "/y"

    async def test_redirects_that_do_not_end(self, service: Service) -> None:
        """They are an error; so is one that is not to be followed."""
        service.replies = [Reply(status=302, headers={"Location": "/x"})]
        toolset = service.toolset({"/x": get()})
        assert "more than 5" in (await results(toolset))["error"]
        assert len(service.received) == 6
        result = await results(service.toolset({"/x": get()}, follow_redirects=False))
        assert result["status"] == 302

    async def test_a_redirect_to_a_private_host_is_refused(
        self, service: Service, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each hop is checked: here the first host is public by what the resolver says."""
        monkeypatch.setattr(targets, "refusal_of", lambda address: None if str(address) == "127.0.0.2" else "local")
        monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, **_: [(2, 1, 6, "", ("127.0.0.2", port))])
        with socket.create_server(("127.0.0.2", 0)) as listening:
            port = listening.getsockname()[1]

            def serve() -> None:
                connection, _ = listening.accept()
                connection.recv(65536)
                location = f"http://127.0.0.1:{service.port}/inner"
                connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())
                connection.close()

            thread = threading.Thread(target=serve)
            thread.start()
            document = {"servers": [{"url": f"http://public.example:{port}"}]}
            toolset = service.toolset(
                {"/x": get()}, document=document, allow_private_network_access=False, follow_redirects=True
            )
            result = await call(toolset)
            thread.join()
        assert "not reached" in result["error"]
        assert service.received == []
        await toolset.close()


def _key(place: str) -> dict[str, Any]:
    """Options of a toolset with a key of 20 characters in a place."""
    scheme = {"type": "apiKey", "in": place, "name": "X-Key"}
    document = {"components": {"securitySchemes": {"key": scheme}}, "security": [{"key": []}]}
    return {"document": document, "credentials": {"key": "k" * 20}}


class TestHosts:
    """No way to hosts that are not public."""

    @pytest.mark.parametrize(
        "host",
        [
            "127.0.0.1",
            "localhost",
            "[::1]",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "[::ffff:127.0.0.1]",
            "0.0.0.0",
        ],
    )
    @pytest.mark.parametrize("factory", [None, httpx2.AsyncClient, httpx.AsyncClient])
    async def test_loopback_is_refused_in_nine_spellings(self, service: Service, host: str, factory: Any) -> None:
        """Also where the program makes the client."""
        document = service.document({"/x": get()}, servers=[{"url": f"http://{host}:{service.port}"}])
        toolset = OpenAPIToolset(spec_dict=document, httpx_client_factory=factory)
        assert "not reached" in (await results(toolset))["error"]
        assert service.received == []


class TestConnections:
    """One pool for each toolset and event loop, closed by the runner."""

    async def test_a_call_that_is_cancelled_leaves_nothing(self, service: Service) -> None:
        """The next call works, and no task is left when the toolset is closed."""
        asked, held, loop = asyncio.Event(), threading.Event(), asyncio.get_running_loop()

        def wait(_: Received) -> Reply:
            loop.call_soon_threadsafe(asked.set)
            held.wait(5)
            return Reply()

        service.answer = wait
        toolset = service.toolset({"/x": get()})
        calling = asyncio.ensure_future(call(toolset))
        await asked.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        held.set()
        assert await call(toolset) == {"ok": True}
        await toolset.close()
        assert len(asyncio.all_tasks()) == 1

    async def test_connections_are_used_again(self, service: Service) -> None:
        """Ten calls at once open one pool; closing twice is quiet."""
        toolset = service.toolset({"/x": get()})
        await asyncio.gather(*(call(toolset) for _ in range(10)))
        tasks = [task for task in asyncio.all_tasks() if task.get_name() == "flowloom:openapi"]
        assert len(tasks) == 1
        await toolset.close()
        await toolset.close()
        assert tasks[0].done()

    async def test_connections_of_a_toolset_that_nobody_has_are_closed(self, service: Service) -> None:
        """In their own task, whose end disturbs no other."""
        await call(service.toolset({"/x": get()}))
        (keeper,) = [task for task in asyncio.all_tasks() if task.get_name() == "flowloom:openapi"]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gc.collect()
            await asyncio.wait_for(keeper, 60)

    def test_two_event_loops_one_after_the_other(self, service: Service) -> None:
        """Nothing is left of the first, though nothing closed the toolset."""
        toolset = service.toolset({"/x": get()})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                assert asyncio.run(call(toolset)) == {"ok": True}

    async def test_other_certificates_are_for_the_next_connection(self, service: Service) -> None:
        """Those that are open are closed with the toolset, too."""
        toolset = service.toolset({"/x": get()})
        await call(toolset)
        toolset.configure_ssl_verify_all(False)
        await call(toolset)
        assert len([task for task in asyncio.all_tasks() if task.get_name() == "flowloom:openapi"]) == 2
        await toolset.close()
        assert len(asyncio.all_tasks()) == 1

    async def test_cookies_of_a_server_are_not_kept(self, service: Service) -> None:
        """What is set for one user is not sent for the next, by a client of the program's neither."""
        for factory in (None, httpx2.AsyncClient, httpx.AsyncClient):
            service.replies = [Reply(headers={"Set-Cookie": "session=of-ann"})]
            toolset = service.toolset({"/x": get()}, httpx_client_factory=factory)
            await call(toolset)
            await call(toolset)
            assert service.last.header("cookie") is None
            await toolset.close()

    async def test_a_client_of_the_programs_own_is_made_once(self, service: Service) -> None:
        """For each event loop and origin, and closed with the toolset."""
        made: list[httpx2.AsyncClient] = []

        def factory() -> httpx2.AsyncClient:
            made.append(httpx2.AsyncClient(headers={"X-Mine": "1"}))
            return made[-1]

        toolset = service.toolset(
            {"/x/{p}": get({"name": "p", "in": "path", "schema": {}})}, httpx_client_factory=factory
        )
        for value in ("a/b", "c d"):
            await call(toolset, p=value)
        assert service.last.path == "/x/c%20d"
        assert service.last.header("x-mine") == "1"
        assert len(made) == 1
        await toolset.close()
        assert made[0].is_closed


class TestOneTool:
    """`RestApiTool` by itself."""

    @pytest.mark.parametrize("as_text", [True, False])
    async def test_it_is_made_from_an_operation(self, service: Service, as_text: bool) -> None:
        """As google-adk's: of objects, or of JSON text."""
        endpoint = OperationEndpoint(base_url=service.url, path="/x/{id}", method="GET")
        operation = {"parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]}
        tool = RestApiTool(
            "read",
            "Reads.",
            endpoint.model_dump_json() if as_text else endpoint,
            json.dumps(operation) if as_text else operation,
            {"type": "apiKey", "in": "query", "name": "key"},
            {"authType": "apiKey", "apiKey": "secret"},
            **ALLOWED,
        )
        assert await tool.run_async(args={"id": "a"}) == {"ok": True}
        assert service.last.target == "/x/a?key=secret"
        await tool.close()
        assert "secret" not in repr(tool)

    async def test_a_relative_reference_is_an_error_when_it_is_made(self) -> None:
        """It belongs to no document."""
        with pytest.raises(ValueError, match="no document"):
            RestApiTool("a", "b", {"path": "/x", "method": "get"}, {"parameters": [{"$ref": "#/p"}]})


async def test_arguments_that_do_not_fit_are_named(service: Service) -> None:
    """Nothing is sent; a pattern is matched in time proportional to the text."""
    toolset = service.toolset(
        {
            "/x": get(
                {"name": "n", "in": "query", "required": True, "schema": {"type": "integer", "maximum": 3}},
                {"name": "evil", "in": "query", "schema": {"type": "string", "pattern": "^(a+)+$"}},
                {"name": "odd", "in": "query", "schema": {"type": "string", "pattern": "(?<=x)y"}},
            )
        }
    )
    with pytest.raises(ToolArgumentsError, match="'n' is a required"):
        await call(toolset)
    with pytest.raises(ToolArgumentsError, match="`n`") as error:
        await call(toolset, n=5, evil="a" * 50_000 + "!")
    assert "`evil`" in str(error.value)
    assert service.received == []
    await call(toolset, n=1, odd="anything", unknown=1)
    assert service.last.query == "n=1&odd=anything"
    with pytest.raises(ToolError):
        await call(toolset, n="x")
    await toolset.close()
