"""`AutoModel`: a model that takes every turn an agent can take, without a script."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, cast

from google.genai import types
from pydantic import PrivateAttr

from flowloom.errors import quoted_list
from flowloom.events.parts import call_part
from flowloom.log.item import LEAD_INS
from flowloom.models import LlmRequest
from flowloom.models.request import snapshot
from flowloom.testing.arguments import arguments_for, value_for
from flowloom.testing.scripted import AnsweringModel
from flowloom.tools.delegation import FINISH_TASK
from flowloom.tools.load_artifacts import load_artifacts
from flowloom.tools.output import SET_MODEL_RESPONSE
from flowloom.tools.transfer import TRANSFER_TOOL

_ENDING = (SET_MODEL_RESPONSE, FINISH_TASK)
"""Tools that end the turn."""
_IDENTITY = re.compile(r'You are the agent "([^"]+)"')


class AutoModel(AnsweringModel):
    """Calls every tool once in a turn, with arguments made up from its schema, and then answers.

    It reads all from the request: which tools are declared, and which have been called since the user's latest
    message. Those that have not are called, all in one answer or, with `one_at_a_time`, one in each; the ones that end
    the turn (`set_model_response`, `finish_task`) last and alone. Then it says `answer`, or a sentence that lists
    what was called; asked for a response schema, it answers JSON made up from that.

    `exclude` names tools that are never called, `arguments` what others are called with in place of what is made up.
    Raises `SchemaValueError` for a schema that nothing can be made up for.

    With `visit_agents` it also hands over, after the agent's own tools: to the first agent that this model object has
    not visited yet, going back the way it came where there is none. One run, with one model for a whole hierarchy,
    so visits every agent that can be reached. An agent that may hand over to nobody ends the run.
    """

    model: str = "auto"
    answer: str | None = None
    one_at_a_time: bool = False
    visit_agents: bool = False
    exclude: Sequence[str] = ()
    arguments: dict[str, dict[str, Any]] = {}  # noqa: RUF012 - pydantic copies it
    requests: list[LlmRequest] = []  # noqa: RUF012
    """The requests so far, as they were when the model was asked; `agent` and `step` say whose each of them is."""

    _visited: dict[str, None] = PrivateAttr(default_factory=dict[str, None])
    _targets: dict[str, list[str]] = PrivateAttr(default_factory=dict[str, list[str]])
    _returns: set[tuple[str, str]] = PrivateAttr(default_factory=set[tuple[str, str]])

    @property
    def visited(self) -> list[str]:
        """The agents that this model has been with, in order of the first visit; only with `visit_agents`."""
        return list(self._visited)

    def answer_to(self, request: LlmRequest) -> str | list[types.Part]:
        """Calls, or the text that ends the turn."""
        self.requests.append(snapshot(request))
        functions = [each for each in _functions(request) if each.name not in self.exclude]
        called = _called_in_turn(request)
        new = [each for each in functions if each.name not in called]
        own = [each for each in new if each.name not in (*_ENDING, TRANSFER_TOOL)]
        if own:
            return [self._call(each) for each in (own[:1] if self.one_at_a_time else own)]
        if self.visit_agents:
            transfer = next((each for each in functions if each.name == TRANSFER_TOOL), None)
            target = self._next_agent(request, _targets_of(transfer))
            if target is not None:
                return [call_part(None, TRANSFER_TOOL, {"agent_name": target})]
        ending = [each for each in new if each.name in _ENDING]
        if ending:
            return [self._call(ending[0])]
        return self._final_text(request, called)

    def _call(self, function: types.FunctionDeclaration) -> types.Part:
        name = function.name or ""
        given = self.arguments.get(name)
        return call_part(None, name, dict(arguments_for(function) if given is None else given))

    def _final_text(self, request: LlmRequest, called: Sequence[str]) -> str:
        config: Any = request.config
        schema = config.response_schema if config.response_schema is not None else config.response_json_schema
        if schema is not None:
            return json.dumps(value_for(schema, path="response"), ensure_ascii=False)
        if self.answer is not None:
            return self.answer
        return f"I called {quoted_list(called)}." if called else "I called no tool."

    # -- visiting --------------------------------------------------------------------------------------

    def _next_agent(self, request: LlmRequest, targets: list[str]) -> str | None:
        """Whom to hand over to, so that in the end everybody has been visited; None for nobody."""
        here = _agent_of(request) or next(reversed(self._visited), "")
        if here:
            self._visited.setdefault(here)
        self._targets[here] = targets
        new = next((name for name in targets if name not in self._visited), None)
        if new is not None:
            self._visited[new] = None
            return new
        back = self._way_back(here)
        if back is not None:
            self._returns.add((here, back))  # once only: a hand-over that fails is not tried for ever
        return back

    def _way_back(self, here: str) -> str | None:
        """The first step of the shortest way to an agent that can hand over to one not visited yet."""
        queue = deque((name, name) for name in self._targets[here] if (here, name) not in self._returns)
        seen = {here}
        while queue:
            name, first = queue.popleft()
            if name in seen:
                continue
            seen.add(name)
            beyond = self._targets.get(name, [])
            if any(each not in self._visited for each in beyond):
                return first
            queue.extend((each, first) for each in beyond)
        return None


# -- reading a request -----------------------------------------------------------------------------


def _functions(request: LlmRequest) -> list[types.FunctionDeclaration]:
    """What is declared, in the order of the wire."""
    tools = cast(Iterable[Any], cast(Any, request.config).tools or ())
    groups = [group for group in tools if isinstance(group, types.Tool)]
    return [each for group in groups for each in group.function_declarations or ()]


def _targets_of(transfer: types.FunctionDeclaration | None) -> list[str]:
    """The agents that can be handed over to."""
    if transfer is None:
        return []
    if transfer.parameters is not None:
        name = (transfer.parameters.properties or {}).get("agent_name")
        return list((name.enum if name is not None else None) or ())
    schema: Any = transfer.parameters_json_schema or {}
    return list(schema.get("properties", {}).get("agent_name", {}).get("enum") or ())


def _called_in_turn(request: LlmRequest) -> list[str]:
    """The functions that were called since the user's latest message, each once, in order."""
    called: dict[str, None] = {}
    answered: set[str | None] = set()
    told = "\n\n".join(request.dynamic_instructions)
    for content in request.contents:
        parts = content.parts or []
        names = {part.function_response.name for part in parts if part.function_response is not None}
        if content.role == "model":
            called.update(dict.fromkeys(part.function_call.name or "" for part in parts if part.function_call))
        elif not names and not _is_engines(parts, told) and load_artifacts.name not in answered:
            called.clear()
        answered = names or (answered if content.role != "model" else set())
    return list(called)


def _is_engines(parts: list[types.Part], told: str) -> bool:
    """Whether user content is not the user's: what other agents did, or instructions that change with the turn."""
    text = parts[0].text if parts else None
    return bool(text) and (text == told or text in LEAD_INS)


def _agent_of(request: LlmRequest) -> str | None:
    """The agent that asks, as the system instruction names it."""
    given: Any = cast(Any, request.config).system_instruction
    text = given if isinstance(given, str) else "".join(part.text or "" for part in getattr(given, "parts", None) or ())
    named = _IDENTITY.findall(text)
    return named[-1] if named else None
