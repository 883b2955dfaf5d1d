"""Malformed requests are refused, and none is a 500 (server spec §2, §8)."""

from __future__ import annotations

import random

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from server.malformed import malformed, status_of
from server.serving import Running

FEW, MANY = 50, 8000
OF_THE_DOCUMENT = 2000


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
        answer = case.call(base_url=server.url, timeout=10)
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
    """Halves of characters, and numbers that JSON has not, stand in answers as they came, or as their names."""
    answer = server.client.post(server.sessions(), content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert answer.json()


@pytest.mark.parametrize("wrong", [True, 1, [], {}])
def test_an_enum_that_is_no_text_is_told(server: Running, wrong: object) -> None:
    """The answer is 422, though google-genai fails in reading it."""
    part = {"text": "x", "mediaResolution": {"level": wrong}}
    body = {"appName": "desk", "userId": "ann", "sessionId": "s", "newMessage": {"role": "user", "parts": [part]}}
    for path, json in (("/run", body), (f"{server.sessions()}/s/artifacts", {"filename": "a", "artifact": part})):
        answer = server.client.post(path, json=json)
        assert answer.status_code == 422, answer.text


def _nothing_is_left(server: Running) -> None:
    """The server answers, and no run goes on."""
    assert server.client.get("/health").json() == {"status": "ok"}
    runs = server.client.get(f"{server.sessions()}/s/runs")
    assert runs.status_code == 404 or all("running" not in str(run) for run in runs.json())
