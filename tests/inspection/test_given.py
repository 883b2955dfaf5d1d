"""What is given to be looked at, in the place of something else, is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from kit import agent

from flowloom import ConfigurationError, InputValidationError, LlmRequest, explain
from flowloom.inspection import EventsView, ProcessorProfile, RequestView, diff, measure


@pytest.mark.parametrize("wrong", [None, 5, b"text", [], object()], ids=lambda it: type(it).__name__)
def test_what_is_no_request_cannot_be_compared(wrong: Any) -> None:
    for old, new in ((wrong, LlmRequest()), (LlmRequest(), wrong)):
        with pytest.raises(InputValidationError, match=f"^A request to compare is .* a {type(wrong).__name__}"):
            diff(old, new)


@pytest.mark.parametrize("sections", [[None], [{}], ["contents"], [{"path": "model"}]], ids=str)
def test_a_stored_request_whose_sections_are_none_is_refused(sections: Any) -> None:
    with pytest.raises(InputValidationError, match="`sections` with `path` and `value` each"):
        diff({"sections": sections}, LlmRequest())


@pytest.mark.parametrize("wrong", [None, 5, "text", {}], ids=lambda it: type(it).__name__)
def test_a_view_names_what_it_was_given_in_the_place_of_its_subject(wrong: Any) -> None:
    with pytest.raises(InputValidationError, match=f"that of an `LlmRequest`. It was given a {type(wrong).__name__}"):
        RequestView(wrong)
    with pytest.raises(InputValidationError, match=f"a list of events. It was given a {type(wrong).__name__}"):
        EventsView([wrong])


@pytest.mark.parametrize("history", [5, {"role": "user"}, {}, "Hi", b"Hi"], ids=str)
async def test_a_history_is_a_list(history: Any) -> None:
    with pytest.raises(InputValidationError, match="`history` takes a list"):
        await explain(agent("root", "never"), "Hi", history=history)


async def test_a_session_and_a_state_are_checked_before_anything_is_done() -> None:
    for wrong in ({"session": 5}, {"state": 5}, {"state": []}):
        with pytest.raises(ConfigurationError, match=f"`{next(iter(wrong))}` takes a "):
            await explain(agent("root", "never"), "Hi", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("repeat", [None, "5", 2.5])
async def test_the_turns_that_are_measured_are_a_whole_number(repeat: Any) -> None:
    with pytest.raises(ConfigurationError, match="`repeat` is "):
        await measure(agent("root", "never"), repeat=repeat)


def test_a_profile_is_compared_with_a_profile() -> None:
    profile = ProcessorProfile("root", 1, [], 0.1, 0.1)
    with pytest.raises(InputValidationError, match="compared with another one: see `load`"):
        profile.compare("baseline.json")  # type: ignore[arg-type]
