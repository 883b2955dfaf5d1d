"""The hook that says who asks (server spec §8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import HTTPException, Request
from server.serving import Running, desk, serving

from flowloom.asgi import Principal, RefusedError
from flowloom.server import app_of

KNOWN = {
    "one": Principal("one", user_ids="ann"),
    "several": Principal("several", user_ids=["ann", "bea"]),
    "all": Principal("all"),
    "elsewhere": Principal("elsewhere", apps={"other"}),
}


async def auth(request: Request) -> Principal | None:
    """As a program writes it."""
    name = request.headers.get("x-name", "")
    if name == "refused":
        raise HTTPException(403, "Not you.")
    if name == "unknown":
        raise RefusedError("Who are you?")
    if name == "fails":
        raise RuntimeError("a secret of ours")
    return KNOWN.get(name)


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    hook: Any = auth
    with serving(app_of(desk(), auth=hook)) as running:
        yield running


@pytest.mark.parametrize(
    ("name", "statuses"),
    [("one", (200, 404, 404)), ("several", (200, 200, 404)), ("all", (200, 200, 200)), ("elsewhere", (404, 404, 404))],
)
def test_a_principal_has_users(guarded: Running, name: str, statuses: tuple[int, ...]) -> None:
    """What is another's is not there, whether it is or not: a part of a name is another name."""
    headers = {"x-name": name}
    found = [
        guarded.client.get(guarded.sessions(user_id=user), headers=headers).status_code for user in ("ann", "bea", "a")
    ]
    assert tuple(found) == statuses


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [
        ("refused", 403, "forbidden"),
        ("unknown", 401, "unauthorized"),
        ("", 401, "unauthorized"),
        ("fails", 500, "internal_error"),
    ],
)
def test_a_hook_may_refuse(guarded: Running, name: str, status: int, code: str) -> None:
    """By what it raises or answers; a hook that fails lets nobody in, and tells nothing."""
    answer = guarded.client.get("/list-apps", headers={"x-name": name})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert "secret" not in answer.text


def test_whether_it_lives_is_open(guarded: Running) -> None:
    """For those who watch the process."""
    assert guarded.client.get("/health").status_code == 200


def test_only_their_apps_are_listed(guarded: Running) -> None:
    """Others are not there."""
    assert guarded.client.get("/list-apps", headers={"x-name": "all"}).json() == ["desk"]
    assert guarded.client.get("/list-apps", headers={"x-name": "elsewhere"}).json() == []
