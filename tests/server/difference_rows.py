"""The rows of what is around runs: server spec §2, §3, §7, §8."""

from __future__ import annotations

import base64
from typing import Any

from server.differences import MAKE, SEE, Ask, Row, S, problem, run, user

GET = "GET"
POST = "POST"
PNG = b"\x89PNG\r\n\x1a\n\xff\xfe\xfb"
SSE = run()


def picture(name: str = "plan.png", data: bytes = PNG, *, url_safe: bool = True) -> dict[str, Any]:
    """The body that stores a picture."""
    text = (base64.urlsafe_b64encode if url_safe else base64.b64encode)(data).decode()
    return {"filename": name, "artifact": {"inlineData": {"mimeType": "image/png", "data": text}}}


def imported(*events: dict[str, Any], **more: Any) -> Ask:
    """A session with events of another."""
    return Ask(POST, S, {"sessionId": "s", "events": list(events), **more})


def event(**more: Any) -> dict[str, Any]:
    """An event as a session's export has it."""
    return {"id": "e1", "invocationId": "i1", "author": "user", "timestamp": 1.5, "content": user("Hi."), **more}


APPROVAL = "adk_request_confirmation"
YES = {"confirmed": True}
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
    Row(
        "§3 6",
        "a session of no body, of null and of an empty object",
        [Ask(POST, S), Ask(POST, S, content="null"), Ask(POST, S, {}), Ask(GET, S)],
    ),
    Row(
        "§3 6",
        "a session with an id and a state",
        [Ask(POST, S, {"sessionId": "s", "state": {"a": None, "user:b": [1], "app:c": {"d": None}, "temp:e": 1}}), SEE],
    ),
    Row("§3 6", "names in snake_case", [Ask(POST, S, {"session_id": "s", "state": {"a_b": 1}}), SEE]),
    Row("§3 6", "an id that is there", [MAKE, MAKE]),
    Row("§3 6", "a state that is no object", [Ask(POST, S, {"state": [1]}), Ask(POST, S, {"state": "x"})]),
    Row(
        "§3 6",
        "bodies that are no object",
        [Ask(POST, S, content="[1]"), Ask(POST, S, content="{"), Ask(POST, S, content='"x"')],
    ),
    Row("§3 6", "a field that nobody knows", [Ask(POST, S, {"sessionId": "s", "unknown": 1}), SEE]),
    Row(
        "§2",
        "JSON as plain text is refused",
        [Ask(POST, S, content='{"sessionId": "s"}', headers={"content-type": "text/plain"}), SEE],
    ),
    Row("§3 6", "events of another session", [imported(event(), event(id="e2", author="other")), SEE]),
    Row("§3 6", "events that are no list", [Ask(POST, S, {"events": "x"}), SEE]),
    Row(
        "§3 6",
        "events that are none",
        [imported({"author": 1}), SEE],
        gap="422 there for a field of the wrong type, 400 for what an event may not have",
        ours=lambda seen: [answer.status for answer in seen] == [400, 404],
    ),
    Row(
        "§3 6",
        "events that stand for an approval are refused",
        [
            imported(event(longRunningToolIds=["c"])),
            imported(
                event(content={"role": "model", "parts": [{"functionCall": {"id": "c", "name": APPROVAL, "args": {}}}]})
            ),
            imported(
                event(
                    content={
                        "role": "user",
                        "parts": [{"functionResponse": {"id": "c", "name": APPROVAL, "response": YES}}],
                    }
                )
            ),
            imported(event(actions={"requestedToolConfirmations": {"c": {"hint": "?"}}})),
            SEE,
        ],
    ),
    Row(
        "§3 6",
        "events that wrote state",
        [imported(event(actions={"stateDelta": {"a": 1}})), SEE],
        gap="google-adk refuses its own export of a session that wrote state",
        ours=lambda seen: [answer.status for answer in seen] == [200, 200],
    ),
    Row(
        "§3 7",
        "a session by its path, whose body is the state",
        [Ask(POST, f"{S}/s", {"a": 1}), SEE, Ask(POST, f"{S}/s", {})],
    ),
    Row("§3 7", "a session by its path without a body", [Ask(POST, f"{S}/s"), SEE]),
    Row(
        "§3 8",
        "the sessions have no events, and the user's state",
        [Ask(POST, S, {"sessionId": "s", "state": {"user:b": 1}}), SSE("hello"), Ask(GET, S)],
    ),
    Row("§3 8", "a user without sessions", [Ask(GET, S)]),
    Row("§3 8", "an unknown app has no sessions", [Ask(GET, "/apps/nobody/users/u/sessions")]),
    Row("§3 9", "a session that is not there", [SEE, Ask(GET, "/apps/nobody/users/u/sessions/s")]),
    Row(
        "§3 10",
        "a change of state is an event of the user's",
        [
            Ask(POST, S, {"sessionId": "s", "state": {"a": 1}}),
            Ask("PATCH", f"{S}/s", {"stateDelta": {"a": None, "user:b": {"c": [None]}}}),
            SEE,
        ],
    ),
    Row("§3 10", "a change in snake_case", [MAKE, Ask("PATCH", f"{S}/s", {"state_delta": {"a": 1}})]),
    Row(
        "§3 10",
        "changes that are none",
        [
            MAKE,
            Ask("PATCH", f"{S}/s", {}),
            Ask("PATCH", f"{S}/s", {"stateDelta": None}),
            Ask("PATCH", f"{S}/s", {"stateDelta": 1}),
            Ask("PATCH", f"{S}/s"),
            Ask("PATCH", f"{S}/none", {"stateDelta": {}}),
        ],
    ),
    Row(
        "§3 11",
        "a session is deleted, and one that is not there",
        [MAKE, Ask("DELETE", f"{S}/s"), SEE, Ask("DELETE", f"{S}/s"), Ask(GET, S)],
    ),
    Row(
        "§2",
        "path parts are decoded once",
        [
            Ask(POST, "/apps/desk/users/{U}%20x%C3%A9/sessions", {"sessionId": "s"}),
            Ask(GET, "/apps/desk/users/{U}%20x%C3%A9/sessions/s"),
            Ask(GET, "/apps/desk/users/{U}%2520x/sessions"),
            Ask(GET, f"{S}/a%2Fb"),
        ],
    ),
    Row(
        "§4",
        "a session of an app that is not there",
        [Ask(POST, "/apps/nobody/users/{U}/sessions", {})],
        gap="google-adk makes it, and nothing can run in it",
        ours=problem(404, "app_not_found"),
    ),
    Row(
        "§4",
        "a session id that could not be read again",
        [Ask(POST, S, {"sessionId": "a/b"})],
        gap="google-adk makes it",
        ours=lambda seen: seen[0].status == 400,
    ),
]

ARTIFACTS = [
    Row(
        "§3 15-18",
        "an artifact is stored, named, read and counted",
        [
            MAKE,
            Ask(POST, f"{S}/s/artifacts", picture()),
            Ask(POST, f"{S}/s/artifacts", picture(data=b"\xfb\xff two")),
            Ask(GET, f"{S}/s/artifacts"),
            Ask(GET, f"{S}/s/artifacts/plan.png"),
            Ask(GET, f"{S}/s/artifacts/plan.png?version=0"),
            Ask(GET, f"{S}/s/artifacts/plan.png/versions"),
            Ask(GET, f"{S}/s/artifacts/plan.png/versions/0"),
            Ask(GET, f"{S}/s/artifacts/plan.png/versions/latest"),
        ],
    ),
    Row(
        "§2",
        "bytes in either alphabet",
        [MAKE, Ask(POST, f"{S}/s/artifacts", picture(url_safe=False)), Ask(GET, f"{S}/s/artifacts/plan.png")],
    ),
    Row(
        "§3 15",
        "what belongs to the user",
        [
            MAKE,
            Ask(POST, f"{S}/s/artifacts", picture("user:me.png")),
            Ask(GET, f"{S}/s/artifacts"),
            Ask(GET, f"{S}/s/artifacts/user:me.png/versions"),
            Ask(GET, f"{S}/other/artifacts"),
        ],
    ),
    Row(
        "§3 20",
        "a name with a folder",
        [MAKE, Ask(POST, f"{S}/s/artifacts", picture("a/b.png"))],
        gap="no store of flowloom takes a slash in a name",
        ours=problem(400, "invalid_artifact_name"),
    ),
    Row(
        "§3 16-18",
        "artifacts that are not there",
        [
            MAKE,
            Ask(GET, f"{S}/s/artifacts"),
            Ask(GET, f"{S}/s/artifacts/x"),
            Ask(GET, f"{S}/s/artifacts/x/versions"),
            Ask(GET, f"{S}/s/artifacts/x/versions/0"),
            Ask(GET, f"{S}/s/artifacts/x/versions/one"),
            Ask(GET, f"{S}/s/artifacts/x?version=a"),
        ],
    ),
    Row(
        "§3 18",
        "a version that is not there",
        [
            MAKE,
            Ask(POST, f"{S}/s/artifacts", picture()),
            Ask(GET, f"{S}/s/artifacts/plan.png/versions/7"),
            Ask(GET, f"{S}/s/artifacts/plan.png?version=7"),
        ],
    ),
    Row(
        "§3 19",
        "what is known of versions",
        [
            MAKE,
            Ask(POST, f"{S}/s/artifacts", {**picture(), "customMetadata": {"k": 1}}),
            Ask(GET, f"{S}/s/artifacts/plan.png/versions/0/metadata"),
            Ask(GET, f"{S}/s/artifacts/plan.png/versions/metadata"),
            Ask(GET, f"{S}/s/artifacts/x/versions/0/metadata"),
            Ask(GET, f"{S}/s/artifacts/plan.png/versions/9/metadata"),
        ],
    ),
    Row(
        "§3 20",
        "artifacts that are none",
        [
            MAKE,
            Ask(POST, f"{S}/s/artifacts", {}),
            Ask(POST, f"{S}/s/artifacts", {"filename": "a"}),
            Ask(POST, f"{S}/s/artifacts", {"filename": "a", "artifact": 1}),
            Ask(POST, f"{S}/s/artifacts", {"filename": "a", "artifact": {"unknown": 1}}),
        ],
    ),
    Row(
        "§3 20",
        "a text as an artifact",
        [
            MAKE,
            Ask(POST, f"{S}/s/artifacts", {"filename": "a.txt", "artifact": {"text": "hé"}}),
            Ask(GET, f"{S}/s/artifacts/a.txt"),
        ],
    ),
    Row(
        "§8",
        "names that leave the folder",
        [
            MAKE,
            *(
                Ask(POST, f"{S}/s/artifacts", picture(name))
                for name in ("", "../x", "/etc/x", "a/../../x", "a\0b", "..")
            ),
        ],
        gap="google-adk's store in memory takes them",
        ours=lambda seen: {answer.status for answer in seen[1:]} == {400},
    ),
    Row(
        "§3 21",
        "an artifact is deleted",
        [
            MAKE,
            Ask(POST, f"{S}/s/artifacts", picture()),
            Ask("DELETE", f"{S}/s/artifacts/plan.png"),
            Ask(GET, f"{S}/s/artifacts"),
            Ask("DELETE", f"{S}/s/artifacts/plan.png"),
        ],
    ),
    Row(
        "§3 22",
        "a session is remembered",
        [
            MAKE,
            SSE("hello"),
            Ask("PATCH", "/apps/desk/users/{U}/memory", {"sessionId": "s"}),
            Ask("PATCH", "/apps/desk/users/{U}/memory", {"sessionId": "no"}),
            Ask("PATCH", "/apps/desk/users/{U}/memory", {}),
        ],
    ),
]

DEVELOPMENT = [
    Row(
        "§3 24",
        "the configuration of the UI's files",
        [Ask(GET, "/dev-ui/assets/config/runtime-config.json")],
        gap="telemetry is never on here",
        ours=lambda seen: seen[0].body == {"backendUrl": "", "telemetry": False},
    ),
    Row("§3 25", "the logo", [Ask(GET, "/dev-ui/config")]),
    Row("§3 26", "telemetry", [Ask(POST, "/config/telemetry", {"telemetry": False})]),
    Row(
        "§3 28",
        "the graph of an app that is not there",
        [Ask(GET, "/dev/apps/nobody/build_graph"), Ask(GET, "/dev/apps/nobody/build_graph_image")],
    ),
    Row(
        "§3 31",
        "the trace of a session that is not there",
        [Ask(GET, f"{DEV}/debug/trace/session/none"), Ask(GET, f"{DEV}/debug/trace/none")],
    ),
    Row(
        "§3 33",
        "no builder's file",
        [Ask(GET, f"{DEV}/builder?ts=1"), Ask(GET, f"{DEV}/builder?file_path=x.yaml&tmp=true")],
    ),
    Row(
        "§3 35",
        "no evaluations",
        [Ask(GET, f"{DEV}/eval_sets"), Ask(GET, f"{DEV}/eval_results"), Ask(GET, f"{DEV}/tests")],
    ),
    Row(
        "§3 30",
        "the graph of an event that is not there",
        [MAKE, Ask(GET, f"{DEV}/users/{{U}}/sessions/s/events/none/graph")],
    ),
]

FOREIGN = {"origin": "http://evil.example"}
SECURITY = [
    Row(
        "§8",
        "a rebound host",
        [Ask(GET, "/list-apps", headers={"host": "evil.example"}), Ask(POST, S, {}, headers={"host": "evil.example"})],
        gap="plain text there",
        ours=lambda seen: {(answer.status, answer.body["code"]) for answer in seen} == {(403, "host_not_allowed")},
    ),
    Row(
        "§8",
        "a foreign origin",
        [
            Ask(POST, S, {}, headers=FOREIGN),
            Ask("DELETE", f"{S}/s", headers=FOREIGN),
            Ask(POST, "/run", {}, headers={"origin": "null"}),
        ],
        gap="plain text there",
        ours=lambda seen: {(answer.status, answer.body["code"]) for answer in seen} == {(403, "origin_not_allowed")},
    ),
    Row(
        "§8",
        "a foreign origin that reads",
        [Ask(GET, "/list-apps", headers=FOREIGN)],
        gap="plain text there",
        ours=problem(403, "origin_not_allowed"),
    ),
    Row(
        "§8",
        "another origin on loopback",
        [Ask(GET, "/list-apps", headers={"origin": "http://localhost:3"})],
        gap="plain text there",
        ours=problem(403, "origin_not_allowed"),
    ),
    Row(
        "§8",
        "a foreign preflight",
        [Ask("OPTIONS", "/run", headers={**FOREIGN, "access-control-request-method": "POST"})],
        gap="plain text there",
        ours=lambda seen: seen[0].status == 403 and "access-control-allow-origin" not in seen[0].headers,
    ),
    Row(
        "§8",
        "an allowed origin",
        [
            Ask(GET, "/list-apps", headers={"origin": "https://ok.example"}),
            Ask(
                "OPTIONS",
                "/run",
                headers={
                    "origin": "https://ok.example",
                    "access-control-request-method": "POST",
                    "access-control-request-headers": "content-type",
                },
            ),
        ],
    ),
]

ROWS = [*ABOUT, *SESSIONS, *ARTIFACTS, *DEVELOPMENT, *SECURITY]
