"""The spans of runs, as google-adk's web UI and our page read them (server spec §3: 31, 32; §7; §12)."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from server.serving import Running, desk, serving

from flowloom.asgi import Principal
from flowloom.events.parts import content_of, text_part
from flowloom.runner.runner import Runner
from flowloom.server import app_of
from flowloom.server.spans import SeenSpan, SpanStore
from flowloom.server.weight import weight_of
from flowloom.sessions import InMemorySessionService
from flowloom.telemetry import Recorder, recording_with

PARTS = {"text", "blob", "file_data", "tool_call", "tool_call_response"}


@pytest.fixture(scope="module")
def traced(server: Running) -> tuple[Running, str]:
    """A session with an answer, a tool's call and a failure."""
    session = server.new_session()
    for text in ("hello", "time?", "fail!"):
        send(server, session, {"text": text})
    return server, session


def send(server: Running, session: str, *parts: dict[str, Any], user: str = "ann", **headers: str) -> None:
    body = {"appName": "desk", "userId": user, "sessionId": session, "newMessage": {"role": "user", "parts": parts}}
    assert server.client.post("/run", json=body, headers=headers).status_code in (200, 500)


def spans_of(server: Running, session: str, path: str = "/dev/apps/desk/debug/trace/session/{}") -> list[Any]:
    answer = server.client.get(path.format(session))
    assert answer.status_code == 200
    return answer.json()


class TestSpansOfASession:
    def test_every_span_has_the_form_that_is_checked(self, traced: tuple[Running, str]) -> None:
        """One wrong field hides all spans in google-adk's web UI."""
        for span in spans_of(*traced):
            assert set(span) == {
                "name", "span_id", "trace_id", "start_time", "end_time", "attributes", "logs", "parent_span_id"
            }  # fmt: skip
            for field in ("span_id", "trace_id", "start_time", "end_time"):
                assert type(span[field]) is int
            assert span["start_time"] <= span["end_time"]
            assert span["parent_span_id"] is None or type(span["parent_span_id"]) is int
            assert type(span["logs"]) is list

    def test_what_their_kinds_are(self, traced: tuple[Running, str]) -> None:
        """Agents, model calls and tools; neither processors nor what the web framework does."""
        names = [span["name"] for span in spans_of(*traced)]
        agent, model = "invoke_agent desk", "generate_content function"
        assert names[:-3] == [agent, model, agent, model, "execute_tool clock", model, agent, model]

    def test_a_span_is_around_each_run(self, traced: tuple[Running, str]) -> None:
        """google-adk's web UI hides the outermost span of a run: without one around it, the agent would not be seen."""
        *spans, first, _, _ = spans_of(*traced)
        assert (first["name"], first["parent_span_id"]) == ("invoke_workflow desk", None)
        assert spans[0]["parent_span_id"] == first["span_id"]
        assert first["start_time"] <= spans[0]["start_time"] < spans[0]["end_time"] <= first["end_time"]

    def test_attributes(self, traced: tuple[Running, str]) -> None:
        """Each kind has what its readers need, in their types."""
        server, session = traced
        stored = {event["id"] for event in server.client.get(f"{server.sessions()}/{session}").json()["events"]}
        spans = spans_of(server, session)
        for span in spans:
            given = span["attributes"]
            assert given["gen_ai.operation.name"] == span["name"].split()[0]
            assert given["gen_ai.agent.name"] == "desk"
            assert given["gen_ai.conversation.id"] == session
        models = [span["attributes"] for span in spans if span["logs"]]
        for given in models:
            assert given["gcp.vertex.agent.invocation_id"].startswith("e-")
            assert given["gen_ai.request.model"] == "function"
            assert type(given["gen_ai.usage.input_tokens"]) is type(given["gen_ai.usage.output_tokens"]) is int
            assert all(type(reason) is str for reason in given["gen_ai.response.finish_reasons"])
        assert all(given["gcp.vertex.agent.event_id"] in stored for given in models[:3])
        assert models[3]["gcp.vertex.agent.event_id"] == ""  # it failed before there was an event of it
        assert spans[4]["attributes"]["gen_ai.tool.name"] == "clock"
        assert spans[4]["parent_span_id"] == spans[2]["span_id"]

    def test_input_and_output(self, traced: tuple[Running, str]) -> None:
        """The one log of a model call has what it was told and what it said."""
        logs = [log for span in spans_of(*traced) for log in span["logs"]]
        assert len(logs) == 4
        for log in logs:
            assert log["event_name"] == "gen_ai.client.inference.operation.details"
            assert log["body"] is None
            told = log["attributes"]
            assert [part["type"] for part in told["gen_ai.system_instructions"]] == ["text"]
            messages = told["gen_ai.input.messages"] + told["gen_ai.output.messages"]
            assert {part["type"] for message in messages for part in message["parts"]} <= PARTS
            (clock,) = told["gen_ai.tool.definitions"]
            assert (clock["type"], clock["name"], clock["description"]) == ("function", "clock", "The time in a city.")
            assert clock["parameters"]["properties"]["city"]["type"] == "string"
        (said,) = logs[0]["attributes"]["gen_ai.output.messages"]
        assert said["parts"] == [{"type": "text", "content": "You said: hello"}]
        assert said["role"] == "assistant"
        assert type(said["finish_reason"]) is str
        (called,) = logs[1]["attributes"]["gen_ai.output.messages"][0]["parts"]
        assert (called["name"], called["arguments"]) == ("clock", {"city": "Rome"})
        result = logs[2]["attributes"]["gen_ai.input.messages"][-1]["parts"][0]
        assert (result["id"], result["response"]) == (called["id"], {"time": "noon in Rome"})
        assert logs[3]["attributes"]["gen_ai.output.messages"] == []

    def test_files_and_unknown_sessions(self, server: Running) -> None:
        """Bytes are blobs, as base64; a session without runs has no spans."""
        session = server.new_session()
        assert spans_of(server, session) == spans_of(server, "nothing") == []
        send(server, session, {"inlineData": {"mimeType": "image/png", "data": "iVBOR__-"}})
        log = next(log for span in spans_of(server, session) for log in span["logs"])
        (part,) = log["attributes"]["gen_ai.input.messages"][0]["parts"]
        assert part["type"] == "blob"
        assert part["mime_type"] == "image/png"

    def test_older_paths(self, traced: tuple[Running, str]) -> None:
        """The paths without an app answer the same."""
        server, session = traced
        spans = spans_of(server, session)
        assert spans_of(server, session, "/debug/trace/session/{}") == spans
        event_id = spans[1]["attributes"]["gcp.vertex.agent.event_id"]
        for path in (f"/dev/apps/desk/debug/trace/{event_id}", f"/debug/trace/{event_id}"):
            given = server.client.get(path).json()
            assert given == {
                **spans[1]["attributes"], "trace_id": spans[1]["trace_id"], "span_id": spans[1]["span_id"]
            }  # fmt: skip
        for path in ("/dev/apps/desk/debug/trace/nothing", "/debug/trace/nothing"):
            answer = server.client.get(path)
            assert (answer.status_code, answer.json()["detail"]) == (404, "Trace not found")


class TestWhoSeesThem:
    def test_other_users_do_not(self) -> None:
        """Spans of another's session are not there."""

        async def auth(scope: Any) -> Principal | None:
            name = dict(scope["headers"])[b"x-name"].decode()
            return Principal(name, frozenset({name}))

        with serving(app_of(desk(), auth=auth)) as running:
            made = running.client.post(running.sessions(), headers={"x-name": "ann"}).json()["id"]
            send(running, made, {"text": "secret"}, **{"x-name": "ann"})
            for path in ("/dev/apps/desk/debug/trace/session/{}", "/debug/trace/session/{}"):
                for name, count in (("ann", 3), ("bob", 0)):
                    answer = running.client.get(path.format(made), headers={"x-name": name})
                    assert len(answer.json()) == count

    def test_a_server_that_is_not_for_development_keeps_none(self) -> None:
        """Nothing of runs is kept, and the paths are not there."""
        with serving(app_of(desk(), dev=False)) as running:
            session = running.new_session()
            send(running, session, {"text": "hello"})
            for path in (f"/dev/apps/desk/debug/trace/session/{session}", f"/debug/trace/session/{session}"):
                assert running.client.get(path).status_code == 404
            assert not hasattr(running.app.state, "development")


def test_those_of_a_deleted_session_are_dropped(server: Running) -> None:
    """What is deleted is not kept elsewhere."""
    session = server.new_session()
    send(server, session, {"text": "hello"})
    assert len(spans_of(server, session)) == 3
    server.client.delete(f"{server.sessions()}/{session}")
    assert spans_of(server, session) == []


class TestOurSpans:
    def test_ids_are_hexadecimal_and_processors_are_there(self, traced: tuple[Running, str]) -> None:
        """Our page can show all digits of an id, and what each processor took."""
        server, session = traced
        spans = spans_of(server, session, "/dev/apps/desk/users/ann/sessions/{}/trace")
        agent = spans[0]
        assert (agent["kind"], agent["name"], agent["parentSpanId"]) == ("agent", "invoke_agent desk", None)
        assert len(agent["traceId"]) == 32
        inside = [span for span in spans if span["parentSpanId"] == agent["spanId"]]
        assert {"processor", "model"} == {span["kind"] for span in inside}
        assert "contents" in [span["name"] for span in inside if span["kind"] == "processor"]
        assert all(len(span["spanId"]) == 16 and span["microseconds"] >= 0 for span in spans)
        assert next(span["error"] for span in spans if span["error"]) == {
            "type": "RuntimeError", "message": "model exploded"
        }  # fmt: skip
        starts = [span["startTime"] for span in spans]
        assert starts == sorted(starts)
        assert abs(starts[0] - server.client.get(f"{server.sessions()}/{session}").json()["lastUpdateTime"]) < 60

    def test_of_a_session_that_is_not_there(self, server: Running) -> None:
        """It is 404, as the session is."""
        assert server.client.get("/dev/apps/desk/users/ann/sessions/nothing/trace").status_code == 404


class TestTheStore:
    def span(self, number: int) -> SeenSpan:
        span = SeenSpan(("app", "user", "session", f"run {number}"), "x", 1, number, None, 0)
        span.end = 1
        return span

    def test_a_thousand_runs_are_kept(self) -> None:
        """The oldest run goes when another one comes."""
        store = SpanStore()
        for number in range(1001):
            store.add(self.span(number))
        kept = [span.span_id for span in store.spans_of(session="session")]
        assert (len(kept), kept[0]) == (1000, 1)

    def test_64_mib_are_kept(self) -> None:
        """Fewer runs are kept when they are large, but the latest one always."""
        store = SpanStore()
        large = weight_of([content_of("user", [text_part("x" * 30 * 1024 * 1024)])])
        for number in range(4):
            store.add(span := self.span(number))
            store.grow(span, large)
        assert [span.span_id for span in store.spans_of()] == [2, 3]

    def test_one_run_that_is_too_large_keeps_its_latest(self) -> None:
        """What a single run keeps is bounded, too."""
        store, spans = SpanStore(), [self.span(0) for _ in range(4)]
        for number, span in enumerate(spans):
            span.span_id = number
            store.add(span)
            store.grow(span, 30 * 1024 * 1024)
        assert [span.span_id for span in store.spans_of()] == [2, 3]
        store.forget("app", "user", "session")
        assert (list(store.spans_of()), store._bytes) == ([], 0)

    def test_all_kinds_of_content_are_weighed(self) -> None:
        """Files and results of tools count as texts do."""
        parts = [
            types.Part.from_bytes(data=b"x" * 1000, mime_type="image/png"),
            types.Part.from_function_response(name="f", response={"a": ["y" * 1000]}),
            types.Part.from_function_call(name="f", args={"a": {"b": "z" * 1000}}),
        ]
        for part in parts:
            assert 1000 < weight_of([types.Content(role="user", parts=[part])]) < 2000


def test_what_a_tool_records_hangs_from_its_span() -> None:
    """OpenTelemetry's current span in a tool is the one that is kept."""

    def clock(city: str) -> dict[str, str]:
        """The time in a city."""
        return {"span": f"{otel.get_current_span().get_span_context().span_id:016x}"}

    with serving(app_of(desk(tools=[clock]))) as running:
        session = running.new_session()
        send(running, session, {"text": "time?"})
        events = running.client.get(f"{running.sessions()}/{session}").json()["events"]
        spans = spans_of(running, session, "/dev/apps/desk/users/ann/sessions/{}/trace")
    tool = next(span for span in spans if span["kind"] == "tool")
    assert events[2]["content"]["parts"][0]["functionResponse"]["response"] == {"span": tool["spanId"]}


def test_a_programs_own_provider_gets_the_same_spans() -> None:
    """A development server records beside it, with the same ids."""
    exported = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    store = SpanStore()
    base = Recorder(provider.get_tracer("own"), None, None)
    with recording_with(lambda _: store.beside(base)):
        sessions = InMemorySessionService()
        session = sessions.create_session_sync(app_name="desk", user_id="ann")
        runner = Runner(agent=desk(), app_name="desk", session_service=sessions)
        assert runner.run_to_result_sync(user_id="ann", session_id=session.id, new_message="time?").text
    theirs = {(span.name, span.context.span_id, span.context.trace_id) for span in exported.get_finished_spans()}
    assert theirs == {(span.name, span.span_id, span.trace_id) for span in store.spans_of()}
    assert len(theirs) == 4
    parents = {span.context.span_id: span.parent and span.parent.span_id for span in exported.get_finished_spans()}
    assert parents == {span.span_id: span.parent_id for span in store.spans_of()}
