"""`Inbox`: the requests of all runs of a server that wait for a person (server spec §12)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal

from flowloom.asgi.principal import Principal
from flowloom.context import InvocationContext, Observer
from flowloom.errors import RequestNotFoundError
from flowloom.human import Answer, HumanModel, WaitingRequest
from flowloom.human.model import people_in
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest

_MAX_OVER = 1000
"""How many requests are remembered after they are over."""

Place = tuple[str, str, str, str]
"""App, user, session and invocation of a run."""
Happened = Literal["came", "ended"]
Listener = Callable[[Happened, WaitingRequest], object]

_asking: ContextVar[Place] = ContextVar("flowloom_server_asking", default=("", "", "", ""))
"""The run for which this task asks a model."""


class Inbox(Observer):
    """What waits for a person. It knows those whom the runs ask that it observes."""

    def __init__(self) -> None:
        self._people: dict[int, HumanModel] = {}
        self._places: OrderedDict[str, Place] = OrderedDict()
        self._listeners: list[Listener] = []

    def model_asked(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> None:
        for person in people_in(model):
            _asking.set((ctx.session.app_name, ctx.session.user_id, ctx.session.id, ctx.invocation_id))
            if id(person) not in self._people:
                self._people[id(person)] = person
                person.subscribe(self._came, self._ended)

    def _came(self, waiting: WaitingRequest) -> None:
        self._places[waiting.id] = _asking.get()
        if len(self._places) > _MAX_OVER:
            waits = {each.id for person in self._people.values() for each in person.pending()}
            self._places = OrderedDict(
                (known, place) for at, (known, place) in enumerate(self._places.items()) if at or known in waits
            )
        self._tell("came", waiting)

    def _ended(self, waiting: WaitingRequest) -> None:
        self._tell("ended", waiting)

    def _tell(self, what: Happened, waiting: WaitingRequest) -> None:
        for listener in list(self._listeners):
            listener(what, waiting)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener`, on the thread where it happens, what comes and ends; returns what ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def pending(self, principal: Principal) -> list[WaitingRequest]:
        """What waits and `principal` may see, the oldest first."""
        found = [each for person in self._people.values() for each in person.pending() if self.shows(each, principal)]
        return sorted(found, key=lambda each: each.came_at)

    def shows(self, waiting: WaitingRequest, principal: Principal) -> bool:
        """Whether a request comes from a session that `principal` may use."""
        return self._may_see(waiting.id, principal)

    def _may_see(self, request_id: str, principal: Principal) -> bool:
        place = self._places.get(request_id)
        return place is not None and principal.may_use(place[0], place[1])

    def answer(self, request_id: str, given: Answer, principal: Principal) -> None:
        """Answer a request. Raises what `HumanModel.answer` raises."""
        self._tell_person(request_id, principal, lambda person: person.answer(request_id, given))

    def say(self, request_id: str, piece: Answer, principal: Principal) -> None:
        """Say a piece of the answer to a request. Raises what `HumanModel.say` raises."""
        self._tell_person(request_id, principal, lambda person: person.say(request_id, piece))

    def _tell_person(self, request_id: str, principal: Principal, tell: Callable[[HumanModel], None]) -> None:
        if self._may_see(request_id, principal):
            for person in self._people.values():
                try:
                    return tell(person)
                except RequestNotFoundError:
                    continue
        raise RequestNotFoundError(f"No request `{request_id}` waits here.", request_id=request_id)

    def shown(self, waiting: WaitingRequest) -> dict[str, Any]:
        """A request as data, with the run that asks."""
        app, user, session, invocation = self._places.get(waiting.id, ("", "", "", ""))
        place = {"app_name": app, "user_id": user, "session_id": session, "invocation_id": invocation}
        return {**waiting.to_dict(), **place}
