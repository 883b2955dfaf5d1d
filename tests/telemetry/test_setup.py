"""Exporting over OTLP/HTTP, and doing nothing when nobody records. Providers are global: some need a process alone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import timeit
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from flowloom import ConfigurationError, telemetry
from telemetry.conftest import Recording

RUN = """
import asyncio
from flowloom import InMemoryRunner, LlmAgent
from flowloom.testing.scripted import ScriptedModel, call

def look() -> str:
    return "seen"

async def main():
    agent = LlmAgent(name="bot", model=ScriptedModel([call("look"), "ok"]), tools=[look])
    async for event in InMemoryRunner(agent).run_async(user_id="u", session_id="s", new_message="hi"):
        pass

asyncio.run(main())
"""
CONFIGURED = f"""
from flowloom.telemetry import configure_telemetry
telemetry = configure_telemetry(service_name="desk")
print(*telemetry.providers)
{RUN}
telemetry.shutdown()
telemetry.shutdown()
"""


class Collector(BaseHTTPRequestHandler):
    """Takes whatever is exported."""

    received: dict[str, bytes]

    def do_POST(self) -> None:
        self.received[self.path] = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[tuple[str, dict[str, bytes]]]:
    """The address of a collector on the loopback, and what it gets, by path."""
    received: dict[str, bytes] = {}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Collector,), {"received": received}))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()
    server.server_close()


def run(code: str, **env: str) -> str:
    """Run `code` in a process without any OpenTelemetry settings but these."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    done = subprocess.run([sys.executable, "-c", code], env=clean | env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_one_endpoint_gets_all_signals(collector: tuple[str, dict[str, bytes]]) -> None:
    """Spans, metrics and log records arrive over real HTTP, with the service's name."""
    address, received = collector
    assert run(CONFIGURED, OTEL_EXPORTER_OTLP_ENDPOINT=address).split() == ["traces", "metrics", "logs"]
    spans = ExportTraceServiceRequest.FromString(received["/v1/traces"]).resource_spans[0]
    assert {(a.key, a.value.string_value) for a in spans.resource.attributes} >= {("service.name", "desk")}
    assert sorted(span.name for span in spans.scope_spans[0].spans) == [
        "execute_tool look",
        "generate_content scripted",
        "generate_content scripted",
        "invoke_agent bot",
    ]
    metrics = ExportMetricsServiceRequest.FromString(received["/v1/metrics"]).resource_metrics[0]
    assert {metric.name for metric in metrics.scope_metrics[0].metrics} == {
        "gen_ai.client.operation.duration",
        "gen_ai.execute_tool.duration",
    }
    records = ExportLogsServiceRequest.FromString(received["/v1/logs"]).resource_logs[0].scope_logs[0].log_records
    assert [record.event_name for record in records].count("gen_ai.choice") == 2
    ids = {span.span_id for span in spans.scope_spans[0].spans}
    assert {record.span_id for record in records} <= ids


@pytest.mark.soak
def test_a_signals_own_endpoint_switches_on_that_signal_alone(collector: tuple[str, dict[str, bytes]]) -> None:
    """Only log records, to exactly that address."""
    address, received = collector
    assert run(CONFIGURED, OTEL_EXPORTER_OTLP_LOGS_ENDPOINT=f"{address}/own").split() == ["logs"]
    assert list(received) == ["/own"]


@pytest.mark.soak
def test_captured_content_arrives(collector: tuple[str, dict[str, bytes]]) -> None:
    """Contents, and answers without any, can be exported."""
    address, received = collector
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
    code = CONFIGURED.replace('call("look"), "ok"', 'call("look"), LlmResponse(error_code="SAFETY")')
    run(code.replace("import InMemoryRunner", "import InMemoryRunner, LlmResponse"), **env)
    records = ExportLogsServiceRequest.FromString(received["/v1/logs"]).resource_logs[0].scope_logs[0].log_records
    assert b"hi" in records[1].body.SerializeToString()


def test_without_an_endpoint_nothing_is_set_up() -> None:
    """`configure_telemetry` may always be called."""
    code = CONFIGURED + "\nfrom flowloom.telemetry import recorder\nassert recorder() is None\n"
    assert run(code).split() == []


def test_providers_that_are_there_are_not_replaced(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry would ignore the new one and say so in a log; here it is an error."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ConfigurationError, match="provider for traces already: TracerProvider"):
        telemetry.configure_telemetry()


def test_a_missing_sdk_is_a_clear_error() -> None:
    """It is raised by the call, and names the extra. Anything else of the package works."""
    code = """
import sys
sys.modules["opentelemetry.sdk"] = None
from flowloom import telemetry
assert telemetry.recorder() is None
configure = telemetry.configure_telemetry
try:
    configure()
except Exception as error:
    print(type(error).__name__, error)
"""
    said = run(code)
    assert said.startswith("MissingExtraError")
    assert "flowloom[otel]" in said


def test_unknown_names_of_the_package_are_attribute_errors() -> None:
    """The lazy attribute is the only one."""
    with pytest.raises(AttributeError, match="nothing"):
        telemetry.nothing  # noqa: B018


def test_without_providers_nothing_is_recorded_and_the_sdk_is_not_loaded() -> None:
    """A whole run with model and tool calls; no span, no instrument, no import."""
    code = f"""
import sys
from flowloom.telemetry import agent_span, model_span, recorder, tool_spans
def refuse(*_, **__):
    raise AssertionError("something was computed")
agent_span.AgentSpan.__init__ = model_span.ModelSpan.__init__ = tool_spans.ToolSpans.__init__ = refuse
{RUN}
assert recorder() is None
assert not [name for name in sys.modules if name.startswith("opentelemetry.sdk")]
"""
    run(code)


def test_where_opentelemetry_is_loaded_without_providers_nothing_that_records_is() -> None:
    """As in a server: FastAPI loads OpenTelemetry, and few programs set a provider."""
    code = f"""
import sys
import opentelemetry.trace
{RUN}
assert not {{"flowloom.telemetry.recorders", "flowloom.telemetry.model_span"}} & set(sys.modules)
"""
    run(code)


def test_asking_whether_anybody_records_costs_next_to_nothing() -> None:
    """Well under a microsecond; the best of several tries, with room for a slow machine."""
    assert telemetry.recorder() is None
    best = min(timeit.repeat(telemetry.recorder, number=10_000, repeat=20)) / 10_000
    assert best < 1e-6


def test_a_program_without_opentelemetry_runs_without_it() -> None:
    """Nothing of it is loaded by a run, and asking for a recorder costs next to nothing there, too."""
    code = f"""
import sys, timeit
{RUN}
from flowloom.telemetry import recorder
assert recorder() is None
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
assert min(timeit.repeat(recorder, number=10_000, repeat=20)) / 10_000 < 1e-6
"""
    run(code)


def test_providers_set_later_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorder is kept per set of providers, and asked for anew when they change."""
    assert telemetry.recorder() is None
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", trace.NoOpTracerProvider())
    assert telemetry.recorder() is None


def test_the_recorder_is_kept(recording: Recording) -> None:
    """One for as long as the providers are the same."""
    first = telemetry.recorder()
    assert first is not None
    assert telemetry.recorder() is first


@pytest.mark.soak
def test_a_provider_that_the_environment_names_is_loaded(collector: tuple[str, dict[str, bytes]]) -> None:
    """OpenTelemetry's own variables work, as with any instrumentation."""
    code = f"{RUN}\nfrom flowloom.telemetry import recorder\nassert recorder() is not None"
    run(code, OTEL_PYTHON_TRACER_PROVIDER="sdk_tracer_provider")


def test_the_sdk_can_be_switched_off(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    """`OTEL_SDK_DISABLED` leaves nobody who records."""
    code = f"""
from flowloom.telemetry import configure_telemetry, recorder
configure_telemetry()
{RUN}
assert recorder() is None
"""
    run(code, OTEL_SDK_DISABLED="true", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="http://127.0.0.1:9")
