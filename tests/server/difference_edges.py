"""The rows of what stands at the edges of server spec §3 to §5: odd names and numbers, absent fields, imports."""

from __future__ import annotations

from typing import Any

from server.difference_rows import GET, POST, event, imported, picture
from server.difference_runs import APPROVAL, answering
from server.differences import MAKE, SEE, Answer, Ask, Row, S, run, user

A = f"{S}/s/artifacts"
DEV = "/dev/apps/desk"
MEMORY = "/apps/desk/users/{U}/memory"
TELEMETRY = {"x-adk-telemetry-request": "true"}
RUN, SSE, STREAM = run("/run"), run(), run(streaming=True)
EMPTY = {"stateDelta": {}, "artifactDelta": {}, "requestedAuthConfigs": {}, "requestedToolConfirmations": {}}
TOLD = {
    "branch": "a.b",
    "turnComplete": True,
    "interrupted": False,
    "errorCode": "E",
    "errorMessage": "m",
    "customMetadata": {"a": 1},
    "modelVersion": "x",
    "usageMetadata": {"promptTokenCount": 1},
    "finishReason": "STOP",
}


def message(*parts: dict[str, Any], **more: Any) -> Ask:
    """A run of a message of these parts."""
    return run(newMessage={**more, "parts": list(parts)})("")


def goes_on(seen: list[Answer]) -> Ask:
    """An approval that names the run that goes on."""
    asked = next(answer for answer in reversed(seen) if isinstance(answer.body, list))
    return answering(APPROVAL, {"confirmed": True}, invocationId=asked.events[0]["invocationId"])(seen)


SESSIONS = [
    Row(
        "§3 6",
        "a state of one run is told once, and not kept",
        [
            Ask(POST, S, {"sessionId": "s", "state": {"temp:z": 1}}),
            Ask("PATCH", f"{S}/s", {"stateDelta": {"temp:z": 1, "a": 2}}),
            run(stateDelta={"temp:y": 1, "app:y": 2, "a": {"b": [None, 1.5, "é"]}})("hello"),
            SEE,
        ],
    ),
    Row("§4", "an id with spaces around it", [Ask(POST, S, {"sessionId": "  s "}), SEE]),
    Row(
        "§4",
        "an id of nothing, and one that is a number",
        [Ask(POST, S, {"sessionId": ""}), Ask(POST, S, {"sessionId": 1})],
    ),
    Row(
        "§3 6",
        "options",
        [Ask(POST, S, {"options": {}}), Ask(POST, S, {"options": {"a": 1}}), Ask(POST, S, {"options": []})],
    ),
    Row("§3 7", "states that are none", [Ask(POST, f"{S}/s", content=text) for text in ("[]", '"x"', "null")]),
    Row("§3 8", "what is asked beside is ignored", [MAKE, Ask(GET, f"{S}?foo=1")]),
]
IMPORTS = [
    Row("§3 importing", "an event with all that it may have", [imported(event(**TOLD)), SEE]),
    Row("§3 importing", "an event without its ids and time", [imported({"author": "user", "content": user("x")}), SEE]),
    Row(
        "§3 importing",
        "an event in snake_case",
        [imported({"author": "user", "invocation_id": "i", "content": user("x"), "error_code": "X"}), SEE],
    ),
    Row("§3 importing", "two events of one id", [imported(event(), event()), SEE]),
    Row("§3 importing", "a partial event", [imported(event(), event(id="e2", partial=True)), SEE]),
    Row("§3 importing", "empty actions", [imported(event(actions=EMPTY, longRunningToolIds=[])), SEE]),
    Row("§3 importing", "an escalation", [imported(event(actions={"escalate": True})), SEE]),
    Row("§3 importing", "what is null escalates nothing", [imported(event(actions={"escalate": None})), SEE]),
    Row("§3 importing", "no events", [Ask(POST, S, {"sessionId": "s", "events": None}), SEE]),
    Row(
        "§3 importing",
        "a file",
        [imported(event(content={"parts": [{"inlineData": {"mimeType": "image/png", "data": "+/+/"}}]})), SEE],
    ),
    Row("§3 secrets", "internal metadata", [imported(event(customMetadata={"__adk_internal_x": 1, "y": 2})), SEE]),
]
RUNS = [
    Row(
        "§4",
        "all that may be null is",
        [
            MAKE,
            run(stateDelta=None, functionCallEventId=None, invocationId=None, customMetadata=None, serviceTier=None)(
                "a"
            ),
        ],
    ),
    Row(
        "§4",
        "a streaming of null, of a word, of a number",
        [MAKE, *(run(streaming=each)("a") for each in (None, "true", 1))],
    ),
    Row(
        "§4",
        "names that are none",
        [MAKE, *(run(**each)("a") for each in ({"userId": None}, {"sessionId": None}, {"appName": 1}, {"userId": ""}))],
    ),
    Row("§4", "a run that is not there, with a message", [MAKE, run("/run", invocationId="none")("hello"), SEE]),
    Row("§4", "a message without a role", [MAKE, message({"text": "hello"}), SEE]),
    Row(
        "§4",
        "a message with files",
        [
            MAKE,
            message(
                {"text": "hello"},
                {"inlineData": {"mimeType": "image/png", "data": "iVBOR__-", "displayName": "a.png"}},
                {"inline_data": {"mime_type": "image/png", "data": "iVBOR//+"}},
                {"fileData": {"fileUri": "gs://x", "mimeType": "a/b"}},
                role="user",
            ),
            SEE,
        ],
    ),
    Row("§4", "a file that is none", [MAKE, message({"inlineData": {"mimeType": "a/b", "data": "***"}})]),
    Row("§4", "a text of nothing", [MAKE, message({"text": ""}, role="user"), SEE]),
    Row("§4", "internal metadata", [MAKE, run(customMetadata={"__adk_internal_a": 1, "b": 2})("hello"), SEE]),
    Row("§5", "an id of nothing for a form", [MAKE, run(functionCallEventId="")("draw")]),
    Row("§5", "words while a request waits", [MAKE, STREAM("pay"), SSE("hello"), SEE]),
    Row(
        "§5",
        "an approval as google-adk's UI wraps it",
        [MAKE, SSE("pay"), answering(APPROVAL, {"response": '{"confirmed": true}'}), SEE],
    ),
    Row(
        "§5",
        "an approval with a state and metadata",
        [
            MAKE,
            SSE("pay"),
            answering(APPROVAL, {"confirmed": True}, stateDelta={"a": 1}, customMetadata={"k": 1}),
            SEE,
        ],
    ),
    Row("§5", "an approval that names its run", [MAKE, SSE("pay"), goes_on, SEE]),
]
ARTIFACTS = [
    Row(
        "§3 20",
        "names in snake_case",
        [
            MAKE,
            Ask(POST, A, {**picture(), "custom_metadata": {"k": 1}}),
            Ask(POST, A, {"filename": "b", "artifact": {"inline_data": {"mime_type": "a/b", "data": "AAAA"}}}),
            Ask(GET, f"{A}/b"),
            Ask(GET, f"{A}/b/versions/latest/metadata"),
        ],
    ),
    Row(
        "§3 20",
        "an address as an artifact",
        [
            MAKE,
            Ask(POST, A, {"filename": "a", "artifact": {"fileData": {"fileUri": "gs://b/x", "mimeType": "a/b"}}}),
            Ask(GET, f"{A}/a"),
            Ask(GET, f"{A}/a/versions/metadata"),
        ],
    ),
    Row(
        "§3 20",
        "fields of null and of the wrong type",
        [
            MAKE,
            *(
                Ask(POST, A, {**picture(), **each})
                for each in ({"customMetadata": None}, {"customMetadata": [1]}, {"filename": None}, {"artifact": None})
            ),
            Ask(POST, A, {"filename": "a", "artifact": {}}),
        ],
    ),
    Row(
        "§3 20",
        "of a session that is not there",
        [Ask(POST, f"{S}/none/artifacts", picture()), Ask(GET, f"{S}/none/artifacts")],
        gap="flowloom keeps no file of a session that is not there",
        ours=lambda answers: (answers[0].status, answers[1].body) == (404, []),
    ),
    Row(
        "§3 15",
        "names are sorted",
        [MAKE, *(Ask(POST, A, picture(name)) for name in ("b", "a", "user:z", "Z", "ä")), Ask(GET, A)],
    ),
    Row(
        "§3 18",
        "numbers of versions",
        [
            MAKE,
            Ask(POST, A, picture("é x.png")),
            *(
                Ask(GET, f"{A}/%C3%A9%20x.png/versions/{each}")
                for each in ("-1", "+0", "00", "1.0", "LATEST", "9" * 20)
            ),
            *(Ask(GET, f"{A}/%C3%A9%20x.png/versions/{each}/metadata") for each in ("-1", "x", "latest", "7")),
            *(Ask(GET, f"{A}/%C3%A9%20x.png?version={each}") for each in ("-1", "", "latest", "1.0")),
        ],
    ),
    Row(
        "§3 21",
        "the user's file is deleted",
        [MAKE, Ask(POST, A, picture("user:x")), Ask("DELETE", f"{A}/user:x"), Ask(GET, A)],
    ),
]
REST = [
    Row(
        "§3 22",
        "what names no session",
        [
            MAKE,
            Ask("PATCH", MEMORY, {"session_id": "s"}),
            Ask("PATCH", MEMORY, {"sessionId": 1}),
            Ask("PATCH", "/apps/nobody/users/{U}/memory", {"sessionId": "s"}),
            Ask("PATCH", MEMORY),
        ],
    ),
    Row("§3 26", "telemetry needs its field", [Ask(POST, "/config/telemetry", {}, headers=TELEMETRY)]),
    Row(
        "§3 35",
        "of an app that is not there",
        [Ask(GET, f"/dev/apps/nobody/{each}") for each in ("eval_sets", "eval_results", "tests")],
    ),
]
ROWS = [*SESSIONS, *IMPORTS, *RUNS, *ARTIFACTS, *REST]
