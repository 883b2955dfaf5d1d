"""A request that shows a history has its contents whoever looks, and however."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types
from kit import user

from flowloom import LlmRequest
from flowloom.events.wire import replace
from flowloom.models import request as models_request
from flowloom.models.contents import SharedContents


def unread() -> tuple[LlmRequest, list[types.Content]]:
    history = [user("a"), user("b")]
    request = LlmRequest.empty("m")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models_request, "SHORT", 0)  # a short history would be copied at once
        request.show(history, [])
    return request, history


LOOKS: list[Callable[[LlmRequest], Any]] = [
    lambda request: request.contents,
    lambda request: request.model_copy().contents,
    lambda request: copy.deepcopy(request).contents,
    lambda request: replace(request).contents,
    lambda request: dict(request)["contents"],
    lambda request: LlmRequest.model_validate(request.model_dump()).contents,
    lambda request: LlmRequest.model_validate_json(request.model_dump_json()).contents,
]


@pytest.mark.parametrize("look", LOOKS)
def test_whoever_looks_sees_all(look: Callable[[LlmRequest], Any]) -> None:
    """Attributes, copies and JSON hold what the history held then, and not what came since."""
    request, history = unread()
    history.append(user("later"))
    assert [content.parts[0].text for content in look(request)] == ["a", "b"]
    other, _ = unread()
    assert other == request


def test_what_user_code_changes_is_the_requests_own() -> None:
    """Writing to an entry, or to the list, leaves the history as it is."""
    request, history = unread()
    request.contents[0].parts[0].text = "changed"
    request.contents.append(user("more"))
    assert isinstance(request.contents, SharedContents)
    assert [content.parts[0].text for content in history] == ["a", "b"]


def test_a_model_gets_an_ordinary_list() -> None:
    """What only reads is given the history's own entries."""
    request, history = unread()
    request.hand_over(models_request.Origin("root", 1, models_request.Dropped()))
    assert type(request.contents) is list
    assert request.contents[0] is history[0]
    request.contents = []
    assert request.contents == []
