"""The rows of runs: server spec §4, §5."""

from __future__ import annotations

from typing import Any

from server.differences import MAKE, SEE, Answer, Ask, Row, problem, run, user

POST = "POST"
RUN = run("/run")
SSE = run()
STREAM = run(streaming=True)
APPROVAL = "adk_request_confirmation"
YES, NO = {"confirmed": True, "payload": {"euros": 50}}, {"confirmed": False}


def answering(name: str, response: dict[str, Any], method: str = "/run_sse", **more: Any) -> Any:
    """A run that answers the call of that name, which an earlier run made."""

    def step(seen: list[Answer]) -> Ask:
        asked = next(answer for answer in reversed(seen) if isinstance(answer.body, list))
        part = {"functionResponse": {"id": asked.call_id(name), "name": name, "response": response}}
        return run(method, **{**more, "newMessage": {"role": "user", "parts": [part]}})("")

    return step


RUNS = [
    Row("§4", "an answer", [MAKE, RUN("hello there"), SEE]),
    Row(
        "§4",
        "an answer to a body in snake_case",
        [
            MAKE,
            Ask(POST, "/run", {"app_name": "desk", "user_id": "{U}", "session_id": "s", "new_message": user("hello")}),
        ],
    ),
    Row(
        "§4",
        "a run without the app, the user, the session",
        [
            Ask(POST, "/run", {"userId": "{U}", "sessionId": "s", "newMessage": user("x")}),
            Ask(POST, "/run", {"appName": "desk"}),
            Ask(POST, "/run_sse", {"appName": "desk", "sessionId": "s"}),
            Ask(POST, "/run", {}),
            Ask(POST, "/run", content="{"),
        ],
    ),
    Row(
        "§4",
        "unknown apps, google-adk's own agents, unknown sessions",
        [run("/run", appName="nobody")("x"), run(appName="nobody")("x"), RUN("x"), SSE("x"), STREAM("x")],
    ),
    Row(
        "§4",
        "google-adk's own agents",
        [run("/run", appName="__x")("x"), run(appName="__x")("x")],
        gap="google-adk serves them where it is bound to loopback",
        ours=problem(403, "forbidden"),
    ),
    Row(
        "§4",
        "an unknown field of the message",
        [
            MAKE,
            run(newMessage={"role": "user", "parts": [{"text": "x", "unknown": 1}]})(""),
            run(newMessage={"parts": 1})(""),
            run(newMessage={"rolle": "user", "parts": [{"text": "x"}]})(""),
            run(newMessage="x")(""),
        ],
    ),
    Row("§2", "an unknown field beside the message", [MAKE, run(unknown=1)("hello")]),
    Row(
        "§4",
        "fields of the wrong type",
        [
            MAKE,
            run(streaming="maybe")("x"),
            run(stateDelta=[1])("x"),
            run(userId=1)("x"),
            run(customMetadata=1)("x"),
            run(invocationId=1)("x"),
        ],
    ),
    Row("§4", "no message: the run goes on", [MAKE, SSE("hello"), run(newMessage=None)("")]),
    Row(
        "§4",
        "a state with the message is in the user's event",
        [MAKE, run("/run", stateDelta={"a": 1, "user:b": None})("hello"), SEE],
    ),
    Row("§4", "metadata is on every event of the run", [MAKE, run(customMetadata={"k": {"l": None}})("weather"), SEE]),
    Row("§4", "a service tier is taken", [MAKE, run(serviceTier="flex")("hello")]),
    Row(
        "§4",
        "a failing run",
        [MAKE, RUN("explode")],
        gap="google-adk's body is plain text",
        ours=lambda seen: seen[1].status == 500 and isinstance(seen[1].body["errorId"], str),
    ),
    Row(
        "§4",
        "a message of another role",
        [MAKE, run("/run", newMessage={"role": "model", "parts": [{"text": "x"}]})("")],
        gap="google-adk takes it",
        ours=problem(400, "invalid_message"),
    ),
    Row(
        "§4",
        "a message without parts",
        [MAKE, run("/run", newMessage={"role": "user", "parts": []})("")],
        gap="a 500 there",
        ours=problem(400, "invalid_message"),
    ),
    Row(
        "§4",
        "an answer to a call that was never made",
        [
            MAKE,
            run(
                "/run",
                newMessage={
                    "role": "user",
                    "parts": [{"functionResponse": {"id": "x", "name": "pay", "response": {}}}],
                },
            )(""),
        ],
        gap="a 500 there",
        ours=problem(400, "invalid_message"),
    ),
]

STREAMS = [
    Row("§5", "complete events alone", [MAKE, SSE("hello there"), SEE]),
    Row("§5", "pieces under the id of the whole", [MAKE, STREAM("hello there"), SEE]),
    Row("§5", "thoughts", [MAKE, STREAM("think"), SSE("think"), SEE]),
    Row("§5", "a tool", [MAKE, STREAM("weather"), SEE]),
    Row("§5", "two tools beside a text", [MAKE, STREAM("both"), SEE]),
    Row("§5", "a transfer", [MAKE, STREAM("transfer"), SEE]),
    Row("§5", "a transfer holds in the next run", [MAKE, SSE("transfer"), SSE("hello")]),
    Row("§5", "state", [MAKE, STREAM("note"), SEE]),
    Row("§5", "an event with an artifact is sent twice, and stored whole", [MAKE, STREAM("draw"), SEE]),
    Row(
        "§5",
        "an event with an artifact is not split where the form answers",
        [MAKE, run(functionCallEventId="e")("draw")],
    ),
    Row("§5", "`/run` does not split", [MAKE, RUN("draw")]),
    Row("§5", "an approval is asked for", [MAKE, STREAM("pay"), SEE]),
    Row(
        "§5",
        "an approval is given",
        [MAKE, STREAM("pay"), answering(APPROVAL, YES, streaming=True, functionCallEventId="e"), SEE],
    ),
    Row("§5", "an approval is refused", [MAKE, SSE("pay"), answering(APPROVAL, NO), SEE]),
    Row("§5", "an approval by `/run`", [MAKE, RUN("pay"), answering(APPROVAL, YES, "/run"), SEE]),
    Row("§5", "an error that a model tells", [MAKE, STREAM("limit"), SEE]),
    Row("§5", "a failing model", [MAKE, STREAM("explode"), SEE, SSE("hello")]),
    Row(
        "§5",
        "a tool that fails",
        [MAKE, STREAM("broken"), SEE],
        gap="the run fails there, and a call without a result is left",
        ours=lambda seen: (
            seen[1].events[1]["content"]["parts"][0]["functionResponse"]["response"] == {"error": "tool broke"}
        ),
    ),
    Row(
        "§5",
        "a model that fails after a piece",
        [MAKE, STREAM("crack"), SEE],
        gap="google-adk forgets what was said",
        ours=lambda seen: "It began" in seen[2].raw,
    ),
    Row("§5", "separators of lines in a text", [MAKE, SSE("lines")]),
]


ROWS = [*RUNS, *STREAMS]
