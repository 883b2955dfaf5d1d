"""`GivenIds`: the ids of the function calls in the responses of one model call."""

from __future__ import annotations

import json
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.events.ids import CLIENT_CALL_PREFIX


class GivenIds:
    """Gives each call an id that no other call of the session has; the same in partial responses and at the end."""

    __slots__ = ("_ctx", "_growing", "_shown", "minted")

    def __init__(self, ctx: InvocationContext) -> None:
        self._ctx = ctx
        self.minted: dict[str, str] = {}
        """What calls without an id say by the id that they have in partial responses, until a complete one has them."""
        self._shown: dict[str, list[str]] = {}  # for the others: the ids that the calls of a model's id have here
        self._growing: set[str] = set()  # the models' ids of calls whose arguments are still streaming

    def id_for(self, call: types.FunctionCall, args: Any, unused: dict[str, str], *, partial: bool | None) -> str:
        """The id of a call in a response; one without an id may be an equal one of the calls `unused`, and takes it
        out."""
        given = call.id
        if not given:
            return self._minted(call.name, args, unused, partial)
        shown = self._shown.get(given)
        if not partial:
            if shown:
                return shown.pop(0)
            return given if self._ctx.run.claim_call_id(given) else self.new()
        grows = call.partial_args or call.will_continue is not None or not call.name or given in self._growing
        (self._growing.add if call.will_continue else self._growing.discard)(given)
        if shown and grows:
            return shown[-1]
        call_id = given if not shown and self._ctx.run.claim_call_id(given) else self.new()
        self._shown.setdefault(given, []).append(call_id)
        return call_id

    def _minted(self, name: str | None, args: Any, unused: dict[str, str], partial: bool | None) -> str:
        """The id of a call to which the model gave none."""
        if not (partial or unused or self.minted):
            return self.new()
        mark = mark_of(name, args)
        for given in (unused,) if partial else (unused, self.minted):
            for call_id, seen in given.items():
                if seen == mark:
                    del given[call_id]
                    return call_id
        call_id = self.new()
        if partial:
            self.minted[call_id] = mark
        return call_id

    def new(self) -> str:
        """A fresh id."""
        return CLIENT_CALL_PREFIX + self._ctx.effects.new_id(self._ctx)


def mark_of(name: str | None, args: Any) -> str:
    """What a call says: equal for equal calls."""
    return json.dumps([name, args], sort_keys=True)
