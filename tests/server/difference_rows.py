"""The rows: requests for the lines of the server's specification §2 to §8 that google-adk's server shows, too."""

from __future__ import annotations

import base64
from typing import Any

from server.differences import Answer, Ask, Row, S, run, user

GET = "GET"
POST = "POST"
MAKE = Ask("POST", S, {"sessionId": "s"})
PNG = b"\x89PNG\r\n\x1a\n\xff\xfe\xfb"
RUN = run("/run")
SSE = run()
STREAM = run(streaming=True)
SEE = Ask(GET, f"{S}/s")


def picture(name: str = "plan.png", data: bytes = PNG, *, url_safe: bool = True) -> dict[str, Any]:
    """The body that stores a picture."""
    text = (base64.urlsafe_b64encode if url_safe else base64.b64encode)(data).decode()
    return {"filename": name, "artifact": {"inlineData": {"mimeType": "image/png", "data": text}}}


def answering(name: str, response: dict[str, Any], method: str = "/run_sse", **more: Any) -> Any:
    """A run that answers the call of that name, which an earlier run made."""

    def step(seen: list[Answer]) -> Ask:
        asked = next(answer for answer in reversed(seen) if isinstance(answer.body, list))
        part = {"functionResponse": {"id": asked.call_id(name), "name": name, "response": response}}
        return run(method, **{**more, "newMessage": {"role": "user", "parts": [part]}})("")

    return step


def imported(*events: dict[str, Any], **more: Any) -> Ask:
    """A session with events of another."""
    return Ask(POST, S, {"sessionId": "s", "events": list(events), **more})


def event(**more: Any) -> dict[str, Any]:
    """An event as a session's export has it."""
    return {"id": "e1", "invocationId": "i1", "author": "user", "timestamp": 1.5, "content": user("Hi."), **more}


def problem(status: int, code: str, at: int = -1) -> Any:
    """Checks an answer of ours: an error with a code."""

    def check(answers: list[Answer]) -> None:
        assert (answers[at].status, answers[at].body["code"]) == (status, code), answers[at].raw

    return check


APPROVAL = "adk_request_confirmation"
YES, NO = {"confirmed": True, "payload": {"euros": 50}}, {"confirmed": False}
DEV = "/dev/apps/desk"

ABOUT = [
    Row("§3 1", "the process lives", [Ask(GET, "/health")]),
    Row("§3 3", "the apps are listed", [Ask(GET, "/list-apps"), Ask(GET, "/list-apps?relative_path=./")]),
    Row("§3 4", "the apps are listed with what they are", [Ask(GET, "/list-apps?detailed=true")]),
    Row("§3 5", "an app is described", [Ask(GET, "/apps/desk/app-info"), Ask(GET, "/apps/nobody/app-info")]),
    Row(
        "§2",
        "a wrong method and an unknown path",
        [Ask("PUT", "/run"), Ask("PUT", S), Ask(GET, "/no/such/path"), Ask("POST", "/list-apps")],
    ),
]

SESSIONS = [
    Row("§3 6", "a session of no body, of null and of an empty object",
        [Ask(POST, S), Ask(POST, S, content="null"), Ask(POST, S, {}), Ask(GET, S)]),
    Row("§3 6", "a session with an id and a state",
        [Ask(POST, S, {"sessionId": "s", "state": {"a": None, "user:b": [1], "app:c": {"d": None}, "temp:e": 1}}), SEE]),
    Row("§3 6", "names in snake_case", [Ask(POST, S, {"session_id": "s", "state": {"a_b": 1}}), SEE]),
    Row("§3 6", "an id that is there", [MAKE, MAKE]),
    Row("§3 6", "a state that is no object", [Ask(POST, S, {"state": [1]}), Ask(POST, S, {"state": "x"})]),
    Row("§3 6", "bodies that are no object", [Ask(POST, S, content="[1]"), Ask(POST, S, content="{"), Ask(POST, S, content='"x"')]),
    Row("§3 6", "a field that nobody knows", [Ask(POST, S, {"sessionId": "s", "unknown": 1}), SEE]),
    Row("§2", "JSON as plain text is refused",
        [Ask(POST, S, content='{"sessionId": "s"}', headers={"content-type": "text/plain"}), SEE]),
    Row("§3 6", "events of another session", [imported(event(), event(id="e2", author="desk")), SEE]),
    Row("§3 6", "events that are none", [imported({"author": 1}), Ask(POST, S, {"events": "x"}), SEE]),
    Row("§3 6", "events that stand for an approval are refused",
        [imported(event(longRunningToolIds=["c"])),
         imported(event(content={"role": "model", "parts": [{"functionCall": {"id": "c", "name": APPROVAL, "args": {}}}]})),
         imported(event(content={"role": "user", "parts": [{"functionResponse": {"id": "c", "name": APPROVAL, "response": YES}}]})),
         imported(event(actions={"requestedToolConfirmations": {"c": {"hint": "?"}}})),
         SEE]),
    Row("§3 6", "events that wrote state", [imported(event(actions={"stateDelta": {"a": 1}})), SEE],
        gap="google-adk refuses its own export of a session that wrote state",
        ours=lambda seen: [answer.status for answer in seen] == [200, 200]),
    Row("§3 7", "a session by its path, whose body is the state", [Ask(POST, f"{S}/s", {"a": 1}), SEE, Ask(POST, f"{S}/s", {})]),
    Row("§3 7", "a session by its path without a body", [Ask(POST, f"{S}/s"), SEE]),
    Row("§3 8", "the sessions have no events, and the user's state",
        [Ask(POST, S, {"sessionId": "s", "state": {"user:b": 1}}), SSE("hello"), Ask(GET, S)]),
    Row("§3 8", "a user without sessions", [Ask(GET, S)]),
    Row("§3 8", "an unknown app has no sessions", [Ask(GET, "/apps/nobody/users/u/sessions")]),
    Row("§3 9", "a session that is not there", [SEE, Ask(GET, "/apps/nobody/users/u/sessions/s")]),
    Row("§3 10", "a change of state is an event of the user's",
        [Ask(POST, S, {"sessionId": "s", "state": {"a": 1}}),
         Ask("PATCH", f"{S}/s", {"stateDelta": {"a": None, "user:b": {"c": [None]}}}), SEE]),
    Row("§3 10", "a change in snake_case", [MAKE, Ask("PATCH", f"{S}/s", {"state_delta": {"a": 1}})]),
    Row("§3 10", "changes that are none",
        [MAKE, Ask("PATCH", f"{S}/s", {}), Ask("PATCH", f"{S}/s", {"stateDelta": None}), Ask("PATCH", f"{S}/s", {"stateDelta": 1}),
         Ask("PATCH", f"{S}/s"), Ask("PATCH", f"{S}/none", {"stateDelta": {}})]),
    Row("§3 11", "a session is deleted, and one that is not there",
        [MAKE, Ask("DELETE", f"{S}/s"), SEE, Ask("DELETE", f"{S}/s"), Ask(GET, S)]),
    Row("§2", "path parts are decoded once",
        [Ask(POST, "/apps/desk/users/{U}%20x%C3%A9/sessions", {"sessionId": "s"}), Ask(GET, "/apps/desk/users/{U}%20x%C3%A9/sessions/s"),
         Ask(GET, "/apps/desk/users/{U}%2520x/sessions"), Ask(GET, f"{S}/a%2Fb")]),
    Row("§4", "a session of an app that is not there", [Ask(POST, "/apps/nobody/users/{U}/sessions", {})],
        gap="google-adk makes it, and nothing can run in it", ours=problem(404, "app_not_found")),
    Row("§4", "a session id that could not be read again", [Ask(POST, S, {"sessionId": "a/b"})],
        gap="google-adk makes it", ours=lambda seen: seen[0].status == 400),
]

RUNS = [
    Row("§4", "an answer", [MAKE, RUN("hello there"), SEE]),
    Row("§4", "an answer to a body in snake_case",
        [MAKE, Ask(POST, "/run", {"app_name": "desk", "user_id": "{U}", "session_id": "s", "new_message": user("hello")})]),
    Row("§4", "a run without the app, the user, the session",
        [Ask(POST, "/run", {"userId": "{U}", "sessionId": "s", "newMessage": user("x")}), Ask(POST, "/run", {"appName": "desk"}),
         Ask(POST, "/run_sse", {"appName": "desk", "sessionId": "s"}), Ask(POST, "/run", {}), Ask(POST, "/run", content="{")]),
    Row("§4", "unknown apps, google-adk's own agents, unknown sessions",
        [run("/run", appName="nobody")("x"), run(appName="nobody")("x"), RUN("x"), SSE("x"), STREAM("x")]),
    Row("§4", "google-adk's own agents", [run("/run", appName="__x")("x"), run(appName="__x")("x")],
        gap="google-adk serves them where it is bound to loopback", ours=problem(403, "forbidden")),
    Row("§4", "an unknown field of the message",
        [MAKE, run(newMessage={"role": "user", "parts": [{"text": "x", "unknown": 1}]})(""), run(newMessage={"parts": 1})(""),
         run(newMessage={"rolle": "user", "parts": [{"text": "x"}]})(""), run(newMessage="x")("")]),
    Row("§2", "an unknown field beside the message", [MAKE, run(unknown=1)("hello")]),
    Row("§4", "fields of the wrong type",
        [MAKE, run(streaming="maybe")("x"), run(stateDelta=[1])("x"), run(userId=1)("x"), run(customMetadata=1)("x"), run(invocationId=1)("x")]),
    Row("§4", "no message: the run goes on", [MAKE, SSE("hello"), run(newMessage=None)("")]),
    Row("§4", "a state with the message is in the user's event", [MAKE, run("/run", stateDelta={"a": 1, "user:b": None})("hello"), SEE]),
    Row("§4", "metadata is on every event of the run", [MAKE, run(customMetadata={"k": {"l": None}})("weather"), SEE]),
    Row("§4", "a service tier is taken", [MAKE, run(serviceTier="flex")("hello")]),
    Row("§4", "a failing run", [MAKE, RUN("explode")],
        gap="google-adk's body is plain text", ours=lambda seen: seen[1].status == 500 and isinstance(seen[1].body["errorId"], str)),
    Row("§4", "a message of another role", [MAKE, run("/run", newMessage={"role": "model", "parts": [{"text": "x"}]})("")],
        gap="google-adk takes it", ours=problem(400, "invalid_message")),
    Row("§4", "a message without parts", [MAKE, run("/run", newMessage={"role": "user", "parts": []})("")],
        gap="a 500 there", ours=problem(400, "invalid_message")),
    Row("§4", "an answer to a call that was never made",
        [MAKE, run("/run", newMessage={"role": "user", "parts": [{"functionResponse": {"id": "x", "name": "pay", "response": {}}}]})("")],
        gap="a 500 there", ours=problem(400, "invalid_message")),
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
    Row("§5", "an event with an artifact is not split where the form answers", [MAKE, run(functionCallEventId="e")("draw")]),
    Row("§5", "`/run` does not split", [MAKE, RUN("draw")]),
    Row("§5", "an approval is asked for", [MAKE, STREAM("pay"), SEE]),
    Row("§5", "an approval is given", [MAKE, STREAM("pay"), answering(APPROVAL, YES, streaming=True, functionCallEventId="e"), SEE]),
    Row("§5", "an approval is refused", [MAKE, SSE("pay"), answering(APPROVAL, NO), SEE]),
    Row("§5", "an approval by `/run`", [MAKE, RUN("pay"), answering(APPROVAL, YES, "/run"), SEE]),
    Row("§5", "an error that a model tells", [MAKE, STREAM("limit"), SEE]),
    Row("§5", "a failing model", [MAKE, STREAM("explode"), SEE, SSE("hello")]),
    Row("§5", "a tool that fails", [MAKE, STREAM("broken")]),
    Row("§5", "a model that fails after a piece", [MAKE, STREAM("crack"), SEE],
        gap="google-adk forgets what was said", ours=lambda seen: "It began" in seen[2].raw),
    Row("§5", "separators of lines in a text", [MAKE, SSE("lines")]),
]

ARTIFACTS = [
    Row("§3 15-18", "an artifact is stored, named, read and counted",
        [MAKE, Ask(POST, f"{S}/s/artifacts", picture()), Ask(POST, f"{S}/s/artifacts", picture(data=b"\xfb\xff two")), Ask(GET, f"{S}/s/artifacts"),
         Ask(GET, f"{S}/s/artifacts/plan.png"), Ask(GET, f"{S}/s/artifacts/plan.png?version=0"), Ask(GET, f"{S}/s/artifacts/plan.png/versions"),
         Ask(GET, f"{S}/s/artifacts/plan.png/versions/0"), Ask(GET, f"{S}/s/artifacts/plan.png/versions/latest")]),
    Row("§2", "bytes in either alphabet",
        [MAKE, Ask(POST, f"{S}/s/artifacts", picture(url_safe=False)), Ask(GET, f"{S}/s/artifacts/plan.png")]),
    Row("§3 15", "what belongs to the user, and names with folders",
        [MAKE, Ask(POST, f"{S}/s/artifacts", picture("user:me.png")), Ask(POST, f"{S}/s/artifacts", picture("a/b.png")), Ask(GET, f"{S}/s/artifacts"),
         Ask(GET, f"{S}/s/artifacts/a/b.png"), Ask(GET, f"{S}/s/artifacts/user:me.png/versions"), Ask(GET, f"{S}/other/artifacts")]),
    Row("§3 16-18", "artifacts that are not there",
        [MAKE, Ask(GET, f"{S}/s/artifacts"), Ask(GET, f"{S}/s/artifacts/x"), Ask(GET, f"{S}/s/artifacts/x/versions"),
         Ask(GET, f"{S}/s/artifacts/x/versions/0"), Ask(GET, f"{S}/s/artifacts/x/versions/one"), Ask(GET, f"{S}/s/artifacts/x?version=a")]),
    Row("§3 18", "a version that is not there",
        [MAKE, Ask(POST, f"{S}/s/artifacts", picture()), Ask(GET, f"{S}/s/artifacts/plan.png/versions/7"), Ask(GET, f"{S}/s/artifacts/plan.png?version=7")]),
    Row("§3 19", "what is known of versions",
        [MAKE, Ask(POST, f"{S}/s/artifacts", {**picture(), "customMetadata": {"k": 1}}), Ask(GET, f"{S}/s/artifacts/plan.png/versions/0/metadata"),
         Ask(GET, f"{S}/s/artifacts/plan.png/versions/metadata"), Ask(GET, f"{S}/s/artifacts/x/versions/0/metadata"), Ask(GET, f"{S}/s/artifacts/plan.png/versions/9/metadata")]),
    Row("§3 20", "artifacts that are none",
        [MAKE, Ask(POST, f"{S}/s/artifacts", {}), Ask(POST, f"{S}/s/artifacts", {"filename": "a"}), Ask(POST, f"{S}/s/artifacts", {"filename": "a", "artifact": 1}),
         Ask(POST, f"{S}/s/artifacts", {"filename": "a", "artifact": {"unknown": 1}})]),
    Row("§3 20", "a text as an artifact", [MAKE, Ask(POST, f"{S}/s/artifacts", {"filename": "a.txt", "artifact": {"text": "hé"}}), Ask(GET, f"{S}/s/artifacts/a.txt")]),
    Row("§8", "names that leave the folder",
        [MAKE, *(Ask(POST, f"{S}/s/artifacts", picture(name)) for name in ("", "../x", "/etc/x", "a/../../x", "a\0b", ".."))],
        gap="google-adk's store in memory takes them", ours=lambda seen: {answer.status for answer in seen[1:]} == {400}),
    Row("§3 21", "an artifact is deleted",
        [MAKE, Ask(POST, f"{S}/s/artifacts", picture()), Ask("DELETE", f"{S}/s/artifacts/plan.png"), Ask(GET, f"{S}/s/artifacts"), Ask("DELETE", f"{S}/s/artifacts/plan.png")]),
    Row("§3 22", "a session is remembered",
        [MAKE, SSE("hello"), Ask("PATCH", "/apps/desk/users/{U}/memory", {"sessionId": "s"}), Ask("PATCH", "/apps/desk/users/{U}/memory", {"sessionId": "no"}),
         Ask("PATCH", "/apps/desk/users/{U}/memory", {})]),
]

DEVELOPMENT = [
    Row("§3 24", "the configuration of the UI's files", [Ask(GET, "/dev-ui/assets/config/runtime-config.json")],
        gap="telemetry is never on here", ours=lambda seen: seen[0].body == {"backendUrl": "", "telemetry": False}),
    Row("§3 25", "the logo", [Ask(GET, "/dev-ui/config")]),
    Row("§3 26", "telemetry", [Ask(POST, "/config/telemetry", {"telemetry": False})]),
    Row("§3 28", "the graph of an app that is not there", [Ask(GET, "/dev/apps/nobody/build_graph"), Ask(GET, "/dev/apps/nobody/build_graph_image")]),
    Row("§3 31", "the trace of a session that is not there", [Ask(GET, f"{DEV}/debug/trace/session/none"), Ask(GET, f"{DEV}/debug/trace/none")]),
    Row("§3 33", "no builder's file", [Ask(GET, f"{DEV}/builder?ts=1"), Ask(GET, f"{DEV}/builder?file_path=x.yaml&tmp=true")]),
    Row("§3 35", "no evaluations", [Ask(GET, f"{DEV}/eval_sets"), Ask(GET, f"{DEV}/eval_results"), Ask(GET, f"{DEV}/tests")]),
    Row("§3 30", "the graph of an event that is not there", [MAKE, Ask(GET, f"{DEV}/users/{{U}}/sessions/s/events/none/graph")]),
]

FOREIGN = {"origin": "http://evil.example"}
SECURITY = [
    Row("§8", "a rebound host", [Ask(GET, "/list-apps", headers={"host": "evil.example"}), Ask(POST, S, {}, headers={"host": "evil.example"})]),
    Row("§8", "a foreign origin", [Ask(POST, S, {}, headers=FOREIGN), Ask("DELETE", f"{S}/s", headers=FOREIGN), Ask(POST, "/run", {}, headers={"origin": "null"})],
        gap="plain text there", ours=lambda seen: {(answer.status, answer.body["code"]) for answer in seen} == {(403, "origin_not_allowed")}),
    Row("§8", "a foreign origin that reads", [Ask(GET, "/list-apps", headers=FOREIGN)],
        gap="plain text there", ours=problem(403, "origin_not_allowed")),
    Row("§8", "another origin on loopback", [Ask(GET, "/list-apps", headers={"origin": "http://localhost:3"})]),
    Row("§8", "a foreign preflight",
        [Ask("OPTIONS", "/run", headers={**FOREIGN, "access-control-request-method": "POST"})],
        gap="plain text there", ours=lambda seen: seen[0].status == 403 and "access-control-allow-origin" not in seen[0].headers),
    Row("§8", "an allowed origin",
        [Ask(GET, "/list-apps", headers={"origin": "https://ok.example"}),
         Ask("OPTIONS", "/run", headers={"origin": "https://ok.example", "access-control-request-method": "POST", "access-control-request-headers": "content-type"})]),
]

ROWS = [*ABOUT, *SESSIONS, *RUNS, *STREAMS, *ARTIFACTS, *DEVELOPMENT, *SECURITY]
