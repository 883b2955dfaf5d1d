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
        self.minted: list[tuple[str, str]] = []
        """For calls without an id: what they say, and the ids that they have."""
        self._shown: dict[str, list[str]] = {}  # for the others: the ids that the calls of a model's id have here
        self._growing: set[str] = set()  # the models' ids of calls whose arguments are still streaming

    def id_for(self, call: types.FunctionCall, args: Any, known: list[tuple[str, str]] | None) -> str:
        """The id of a call; `known` are those of the partial responses, None if it is in one itself."""
        given = call.id
        if not given:
            return self._minted(call.name, args, known)
        shown = self._shown.get(given)
        if known is not None:
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

    def _minted(self, name: str | None, args: Any, known: list[tuple[str, str]] | None) -> str:
        """The id of a call to which the model gave none."""
        if not self._ctx.run.streaming:
            return self.new()
        mark = json.dumps([name, args], sort_keys=True)
        if known is not None:
            for index, (seen, call_id) in enumerate(known):
                if seen == mark:
                    del known[index]
                    return call_id
        call_id = self.new()
        self.minted.append((mark, call_id))
        return call_id

    def new(self) -> str:
        """A fresh id."""
        return CLIENT_CALL_PREFIX + self._ctx.effects.new_id(self._ctx)
