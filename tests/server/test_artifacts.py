"""Artifacts and memories over HTTP (server spec §3, 15 to 22)."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from server.serving import Running

DATA = b"\x89PNG\xff\xfe"


@pytest.fixture(scope="module")
def place(server: Running) -> str:
    """The path of the artifacts of a session."""
    return f"{server.sessions()}/{server.new_session()}/artifacts"


def save(server: Running, place: str, name: str, data: str, **more: Any) -> Any:
    part = {"inlineData": {"data": data, "mimeType": "image/png"}}
    saved = server.client.post(place, json={"filename": name, "artifact": part, **more})
    assert saved.status_code == 200, saved.text
    return saved.json()


@pytest.mark.parametrize("data", [base64.b64encode(DATA), base64.urlsafe_b64encode(DATA)])
def test_bytes_come_in_either_alphabet_and_go_out_in_one(server: Running, place: str, data: bytes) -> None:
    """The one that addresses can hold, with padding."""
    save(server, place, "picture.png", data.decode())
    part = server.client.get(f"{place}/picture.png").json()
    assert part == {"inlineData": {"data": "iVBOR__-"[:8], "mimeType": "image/png"}}


def test_a_file_has_versions(server: Running, place: str) -> None:
    """From 0; a version is asked for by its number, or as the latest one."""
    for text in ("one", "two"):
        assert server.client.post(place, json={"filename": "notes.txt", "artifact": {"text": text}}).status_code == 200
    assert server.client.get(f"{place}/notes.txt/versions").json() == [0, 1]
    found = [
        server.client.get(f"{place}/notes.txt{way}").json()
        for way in ("", "?version=0", "/versions/0", "/versions/1", "/versions/latest")
    ]
    assert found == [{"text": text} for text in ("two", "one", "one", "two", "two")]


def test_a_file_tells_of_itself(server: Running, place: str) -> None:
    """When and as what it was saved, with what its owner noted beside it."""
    saved = save(server, place, "told.png", "iVBOR__-", customMetadata={"from": None})
    assert saved["version"] == 0
    assert saved["mimeType"] == "image/png"
    assert saved["customMetadata"] == {"from": None}
    assert isinstance(saved["createTime"], float)
    assert saved["canonicalUri"].endswith("/told.png/versions/0")
    assert server.client.get(f"{place}/told.png/versions/0/metadata").json() == saved
    assert server.client.get(f"{place}/told.png/versions/latest/metadata").json() == saved
    assert server.client.get(f"{place}/told.png/versions/metadata").json() == [saved]


def test_names_are_sorted_and_those_of_the_user_among_them(server: Running) -> None:
    """A user's file is there in all sessions of theirs."""
    places = [f"{server.sessions(user_id='bea')}/{server.new_session(user_id='bea')}/artifacts" for _ in range(2)]
    for name in ("b.png", "user:all.png", "a.png"):
        save(server, places[0], name, "iVBO")
    assert [server.client.get(place).json() for place in places] == [
        ["a.png", "b.png", "user:all.png"],
        ["user:all.png"],
    ]


@pytest.mark.parametrize(
    "way",
    [
        "nothing.png",
        "nothing.png/versions/0",
        "nothing.png/versions/latest",
        "nothing.png/versions/-1",
        "nothing.png/versions/" + "9" * 30,
    ],
)
def test_what_is_not_there_is_not_found(server: Running, place: str, way: str) -> None:
    """Neither the file nor what is known about it."""
    found = server.client.get(f"{place}/{way}")
    assert (found.status_code, found.json()["code"]) == (404, "artifact_not_found")
    assert server.client.get(f"{place}/nothing.png/versions").json() == []
    assert server.client.delete(f"{place}/nothing.png").text == "null"


@pytest.mark.parametrize("name", ["x.png", "user:x.png"])
def test_a_session_that_is_not_there_takes_no_file(server: Running, name: str) -> None:
    """Nor does it keep one of the user's."""
    place = f"{server.sessions(user_id='zoe')}/none/artifacts"
    saved = server.client.post(place, json={"filename": name, "artifact": {"text": "x"}})
    assert (saved.status_code, saved.json()["code"]) == (404, "session_not_found")
    assert server.client.get(place).json() == []


def test_a_file_is_deleted_with_all_its_versions(server: Running, place: str) -> None:
    """Afterwards there is none of it."""
    save(server, place, "gone.png", "iVBO")
    deleted = server.client.delete(f"{place}/gone.png")
    assert (deleted.status_code, deleted.text) == (200, "null")
    assert server.client.get(f"{place}/gone.png").status_code == 404


@pytest.mark.parametrize("version", ["first", "1.0", "1_0", "²", "--1"])
def test_what_is_no_number_is_no_version(server: Running, place: str, version: str) -> None:
    """Before anything is looked for."""
    assert server.client.get(f"{place}/notes.txt/versions/{version}").status_code == 422


@pytest.mark.parametrize(
    "name", ["", " ", "..", "../x", "a/../b", "/etc/passwd", "\\x", "C:\\x", "a\0b", "user:", "a/b"]
)
def test_names_that_lead_elsewhere_are_refused(server: Running, place: str, name: str) -> None:
    """For every store, when they are saved."""
    saved = server.client.post(place, json={"filename": name, "artifact": {"text": "x"}})
    assert (saved.status_code, saved.json()["code"]) == (400, "invalid_artifact_name")


@pytest.mark.parametrize("name", ["%2E%2E%2Fx", "a%2F..%2Fb", "%2Fetc%2Fpasswd", "a%00b", "%5Cx", "user:"])
def test_names_in_paths_are_decoded_once_and_checked(server: Running, place: str, name: str) -> None:
    """What is read and deleted, too."""
    for method in ("GET", "DELETE"):
        found = server.client.request(method, f"{place}/{name}")
        assert found.status_code == 400, found.text


@pytest.mark.parametrize("artifact", [{}, {"functionCall": {"name": "x"}}])
def test_what_cannot_be_kept_is_refused(server: Running, place: str, artifact: dict[str, Any]) -> None:
    """A part without text, bytes or an address is no file."""
    saved = server.client.post(place, json={"filename": "x", "artifact": artifact})
    assert (saved.status_code, saved.json()["code"]) == (400, "invalid_artifact")


@pytest.mark.parametrize(
    "body", [{"filename": "x"}, {"artifact": {"text": "x"}}, {"filename": "x", "artifact": {"a": 1}}]
)
def test_a_body_of_another_form_is_not_taken(server: Running, place: str, body: dict[str, Any]) -> None:
    """Fields that parts do not have, too."""
    assert server.client.post(place, json=body).status_code == 422


@pytest.mark.parametrize(("app", "status"), [("nothing", 404), ("__nothing", 403), ("%2e%2e", 404)])
def test_nothing_is_kept_for_an_app_that_is_not_there(server: Running, app: str, status: int) -> None:
    """Its sessions are not made, either."""
    place = f"/apps/{app}/users/ann/sessions/s/artifacts"
    assert server.client.post(place, json={"filename": "a.txt", "artifact": {"text": "x"}}).status_code == status
    assert server.client.get(place).json() == []


def test_a_session_is_remembered(server: Running) -> None:
    """Each event once, however often it is asked for."""
    events = [{"author": "user", "content": {"role": "user", "parts": [{"text": "The cat is called Tom."}]}}]
    session = server.new_session(user_id="cat", events=events)
    path = "/apps/desk/users/cat/memory"
    for body in ({"sessionId": session}, {"session_id": session}):
        remembered = server.client.patch(path, json=body)
        assert (remembered.status_code, remembered.text) == (200, "null")
    memory = server.served.memory
    found = server.call(memory.search_memory(app_name="desk", user_id="cat", query="Tom"))
    assert len(found.memories) == 1
    assert server.client.patch(path, json={"sessionId": "none"}).status_code == 404
    assert server.client.patch(path, json={}).status_code == 422
