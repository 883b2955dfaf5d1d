"""Malformed requests are refused, and none is a 500 (server spec §2, §8)."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from server.malformed import RUN, S, malformed, status_of
from server.serving import Running, serving

from flowloom.server import get_fast_api_app

FEW, MANY = 50, 8000
OF_THE_DOCUMENT = 2000


@pytest.fixture(scope="module", params=["memory", "disk"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server of the agent `desk`, whose sessions and files are kept in memory, or in its folder."""
    folder = tmp_path_factory.mktemp("agents")
    (folder / "desk").mkdir()
    (folder / "desk" / "__init__.py").touch()  # a package goes before modules of that name elsewhere on the path
    (folder / "desk" / "agent.py").write_text("from server.serving import desk\n\nroot_agent = desk()\n")
    kept = request.param == "disk"
    with serving(get_fast_api_app(agents_dir=folder, web=True, use_local_storage=kept)) as running:
        yield running


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=[pytest.mark.soak, pytest.mark.timeout(900)])])
def test_what_is_nearly_right_is_no_500(server: Running, count: int) -> None:
    """Requests of which something is made wrong, in their bodies, paths, queries, methods or heads."""
    server.client.post(server.sessions(), json={"sessionId": "s"})
    address = ("127.0.0.1", httpx.URL(server.url).port or 0)
    for number in range(count):
        request = malformed(number)
        status, answer = status_of(address, request)
        assert status != 500, (number, request, answer[-600:])
    _nothing_is_left(server)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::UserWarning")  # google-genai, of names that it does not know
def test_what_the_document_allows_and_forbids_is_no_500(server: Running) -> None:
    """Requests made of the OpenAPI document, by its rules and against them."""
    schema = schemathesis.openapi.from_dict(server.client.get("/openapi.json").json())
    operations = [found.ok() for found in schema.get_all_operations()]
    cases = [
        operation.as_strategy(generation_mode=mode)
        for operation in operations
        for mode in (GenerationMode.NEGATIVE, GenerationMode.POSITIVE)
    ]

    @seed(random.Random(0).random())
    @settings(
        max_examples=OF_THE_DOCUMENT, suppress_health_check=list(HealthCheck), deadline=None, phases=[Phase.generate]
    )
    @given(case=st.one_of(cases))
    def ask(case: schemathesis.Case) -> None:
        answer = case.call(base_url=server.url, timeout=60)
        assert answer.status_code != 500, (case.as_curl_command(), answer.text)

    ask()
    _nothing_is_left(server)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"state": {"a": "\\ud800"}}', 200),
        (b'"\\ud800"', 422),
        (b"NaN", 422),
        (b'{"state": {"a": NaN}}', 200),
        (b"\xca", 400),
    ],
)
def test_what_is_no_text_or_no_number_is_answered_in_json(server: Running, body: bytes, status: int) -> None:
    """Numbers that JSON has not stand in answers as their names."""
    answer = server.client.post(server.sessions(), content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.json()


HALF = "a\ud800"
EVENT = {"id": HALF, "invocationId": HALF, "author": HALF, "content": {"role": HALF, "parts": [{"text": HALF}]}}
MESSAGE = {"role": "user", "parts": [{"text": HALF}]}


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", S, {"state": {HALF: HALF, "authConfig": {HALF: HALF}}, "events": [EVENT]}, 200),
        ("POST", f"{S}/new", {HALF: HALF}, 200),
        ("PATCH", f"{S}/s", {"stateDelta": {HALF: HALF, "authConfig": {HALF: HALF}}}, 200),
        ("POST", f"{S}/s/fork", {"throughEventId": HALF}, 404),
        (
            "POST",
            f"{S}/s/artifacts",
            {"filename": HALF, "artifact": {"text": HALF}, "customMetadata": {HALF: HALF}},
            200,
        ),
        ("PATCH", "/apps/desk/users/ann/memory", {"sessionId": HALF}, 404),
        ("POST", "/run", {**RUN, "newMessage": MESSAGE, "stateDelta": {HALF: 1}, "customMetadata": {"a": HALF}}, 200),
        ("POST", f"/dev{S}/s/explain", {"newMessage": MESSAGE}, 200),
        ("POST", "/dev/models/requests/x/answer", {"parts": [{"text": HALF}]}, 404),
    ],
)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_half_of_a_character_is_replaced_wherever_it_stands(
    server: Running, method: str, path: str, body: Any, status: int, ascii_only: bool
) -> None:
    """As in all that is stored: escaped or not, it becomes U+FFFD before anything reads it."""
    for session_id in ("s", "new"):
        server.client.delete(f"{S}/{session_id}")
    server.new_session(sessionId="s")
    sent = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    headers = {"content-type": "application/json"}
    answer = server.client.request(method, path, content=sent, headers=headers)
    assert answer.status_code == status, answer.text
    assert "\\ud800" not in answer.text
    if status == 200:
        assert "a\ufffd" in answer.text
        assert server.client.get(f"{S}/s").status_code == 200


@pytest.mark.parametrize("wrong", [True, 1, [], {}])
def test_an_enum_that_is_no_text_is_told(server: Running, wrong: object) -> None:
    """The answer is 422, though google-genai fails in reading it."""
    part = {"text": "x", "mediaResolution": {"level": wrong}}
    body = {"appName": "desk", "userId": "ann", "sessionId": "s", "newMessage": {"role": "user", "parts": [part]}}
    for path, sent in (("/run", body), (f"{server.sessions()}/s/artifacts", {"filename": "a", "artifact": part})):
        answer = server.client.post(path, json=sent)
        assert answer.status_code == 422, answer.text


def _nothing_is_left(server: Running) -> None:
    """The server answers, and no run goes on."""
    assert server.client.get("/health").json() == {"status": "ok"}
    runs = server.client.get(f"{server.sessions()}/s/runs")
    assert runs.status_code == 404 or all("running" not in str(run) for run in runs.json())
