"""The rules of decisions: the first answer to a request is stored, and no other."""

from __future__ import annotations

import asyncio

from google.genai import types

from flowloom.errors import AlreadyAnsweredError
from flowloom.events import Event
from flowloom.events.parts import call_part, content_of, response_part
from flowloom.events.requests import RequestIds
from flowloom.sessions import Session
from flowloom.testing.suites.loop import in_loop
from flowloom.testing.suites.session_place import Place, SessionRules, said


class AnswerRules(SessionRules):
    """The rules of `append_answer`."""

    @in_loop
    async def test_a_decision_is_made_once(self) -> None:
        """Of answers to one request that are appended at once one is stored, the others get `AlreadyAnsweredError`."""
        place = await self.place()
        await asked(place)
        copies = [await place.get() for _ in range(4)]
        made = [decision(number % 2 == 0) for number in range(4)]
        found = await asyncio.gather(
            *(place.service.append_answer(*each) for each in zip(copies, made, strict=True)), return_exceptions=True
        )
        kinds = sorted(type(each).__name__ for each in found)
        assert kinds == ["AlreadyAnsweredError"] * 3 + ["Event"], f"Four answers to one request at once gave {kinds}."
        stored = await answers_in(place)
        assert len(stored) == 1, f"{len(stored)} of four answers to one request are stored, not 1."
        first = next(event for event in made if event.id == stored[0].id)
        await place.service.append_answer(await place.get(), first)
        assert len(await answers_in(place)) == 1, "An answer that is appended again is stored twice."

    @in_loop
    async def test_two_services_on_one_store_make_a_decision_once(self) -> None:
        """A service that has not read the other's answer does not store a second one."""
        place = await self.place()
        await asked(place)
        await place.service.flush()
        again = await self.reopened(place)
        session, other = await place.get(), await again.get()
        await place.service.append_answer(session, decision(confirmed=True))
        await expect_refusal(again, other, "that another service has answered")

    @in_loop
    async def test_a_fork_has_the_decisions_from_before_it(self) -> None:
        """What is decided in a log is decided in its later forks, and not in those from before."""
        place = await self.place()
        request = await asked(place)
        await place.service.append_answer(await place.get(), decision(confirmed=True))
        names = {"app_name": place.app, "user_id": place.user, "session_id": "s1"}
        later = await place.service.fork(**names, new_session_id="later")
        earlier = await place.service.fork(**names, new_session_id="earlier", up_to_event_id=request.id)
        await expect_refusal(place, later, "that was answered before the fork")
        await place.service.append_answer(earlier, decision(confirmed=False))


REQUEST = "adk-request"


async def asked(place: Place) -> Event:
    """The event of a session that asks for a decision."""
    event = said("")
    call = types.FunctionCall(id="call", name="pay", args={})
    original = call.model_dump(mode="json", by_alias=True, exclude_none=True)
    event.content = content_of(
        "model", [call_part(REQUEST, "adk_request_confirmation", {"originalFunctionCall": original})]
    )
    event.long_running_tool_ids = RequestIds([REQUEST])  # as the engine asks
    return await place.service.append_event(await place.create("s1"), event)


def decision(confirmed: bool) -> Event:
    """A user's answer."""
    part = response_part(REQUEST, "adk_request_confirmation", {"confirmed": confirmed})
    return Event(author="user", content=content_of("user", [part]))


async def answers_in(place: Place) -> list[Event]:
    """What the store has of the user's answers."""
    return [event for event in (await place.get()).events if event.author == "user"]


async def expect_refusal(place: Place, session: Session, which: str) -> None:
    """Fail unless an answer raises `AlreadyAnsweredError`."""
    try:
        await place.service.append_answer(session, decision(confirmed=False))
    except AlreadyAnsweredError:
        return
    raise AssertionError(f"A request {which} was answered again; `AlreadyAnsweredError` was expected.")
