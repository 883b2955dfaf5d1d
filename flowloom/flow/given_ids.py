"""`GivenIds`: the ids of the function calls in the responses of one model call."""

from __future__ import annotations

import json
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.events.ids import CLIENT_CALL_PREFIX


class GivenIds:
    """Gives each call an id that no other call of the session has; the same in partial responses and at the end."""

    __slots__ = ("_before", "_ctx", "_growing", "_shown")

    def __init__(self, ctx: InvocationContext) -> None:
        self._ctx = ctx
        self._shown: dict[str, list[str]] = {}
        """The ids that calls have in partial responses, until a complete one has them: by the model's id, or by what
        the call says if that gives none."""
        self._before: dict[str, list[str]] = {}  # those of answers that a wrapper has asked for again
        self._growing: set[str] = set()  # the models' ids of calls whose arguments are still streaming

    def restart(self) -> None:
        """Another answer comes in place of this one: its calls are those of this one, if they are equal."""
        self._before, self._shown = self._before | self._shown, {}

    def id_for(self, call: types.FunctionCall, args: Any, unused: dict[str, str], *, partial: bool | None) -> str:
        """The id of a call in a response; one without an id may be an equal one of the calls `unused`, and takes it
        out."""
        given = call.id
        if not (given or partial or unused or self._shown or self._before):
            return self.new()
        key = given or mark_of(call.name, args)
        for call_id, said in unused.items():
            if said == key:
                del unused[call_id]
                return call_id
        if partial:
            return self._id_of_piece(call, key)
        left = self._shown.get(key) or self._before.get(key)
        return left.pop(0) if left else self._first_id(given)

    def _id_of_piece(self, call: types.FunctionCall, key: str) -> str:
        """The id of a call in a partial response."""
        given, shown, before = call.id, self._shown.get(key), self._before.get(key)
        if given and self._grows(call, given) and shown:
            return shown[-1]
        call_id = before.pop(0) if before else self._first_id(given)
        self._shown.setdefault(key, []).append(call_id)
        return call_id

    def _grows(self, call: types.FunctionCall, given: str) -> bool:
        """Whether a piece belongs to the call of the pieces before it."""
        grows = call.partial_args or call.will_continue is not None or not call.name or given in self._growing
        (self._growing.add if call.will_continue else self._growing.discard)(given)
        return bool(grows)

    def _first_id(self, given: str | None) -> str:
        """The id that a model has given, unless an earlier call has it, or a fresh one."""
        return given if given and self._ctx.run.claim_call_id(given) else self.new()

    def new(self) -> str:
        """A fresh id."""
        return CLIENT_CALL_PREFIX + self._ctx.effects.new_id(self._ctx)


def mark_of(name: str | None, args: Any) -> str:
    """What a call says: equal for equal calls."""
    return json.dumps([name, args], sort_keys=True)
