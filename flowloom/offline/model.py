"""`OfflineModel`: plays a sensible part for any agent, without a network, a key, randomness or a clock.

It compares words. From the request it reads what was asked, which tools and agents there are, and what has come of
them so far; it calls what fits best by name and description, fills arguments by their types, and tells the results.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from google.genai import types

from flowloom.errors import ConfigurationError
from flowloom.events.parts import call_part, content_of, text_part
from flowloom.events.response import LlmResponse
from flowloom.models.aggregator import StreamingAggregator
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest
from flowloom.models.server_tools import Asked
from flowloom.offline.answers import asked_back, composed, greeting, overview, review, told_results
from flowloom.offline.arguments import Filled, Filler
from flowloom.offline.request import LABEL, Function, View, read
from flowloom.offline.words import (
    FITS,
    TEXT_WEIGHT,
    Candidate,
    candidate,
    clauses,
    is_small_talk,
    plain_words,
    ranked,
    stems,
)

_TRANSFER = "transfer_to_agent"
_SET_RESPONSE = "set_model_response"
_FINISH = "finish_task"
_NAME = r"[A-Z][\w-]+(?:\s[A-Z][\w-]+)*"
_REFERENCE = re.compile(r"\b(?:it|that|this|that one|the (?:first|cheapest|best)(?: one)?)\b", re.I)
_MAX_CALLS = 4
"""How many calls of one tool a list of names in the message may lead to."""
_OWN_TOOL_FACTOR = 1.25
_PARENT_FACTOR = 0.5


class OfflineModel(BaseLlm):
    """A stand-in for a model: deterministic, and labelled as offline in each text and in `model_version`.

    It never makes the same call twice in a turn, asks for arguments that it cannot fill, and transfers to an agent at
    most once in a turn, so that every run ends. `seconds_per_word` slows streams down for people who watch.
    """

    model: str = "offline"
    seconds_per_word: float = 0.0

    keeps_call_ids: ClassVar[bool] = True

    def server_tool_refusal(self, asked: Asked, functions: Sequence[str], model: str | None = None) -> str | None:
        """No provider stands behind it."""
        return "has no provider that could run it"

    def model_post_init(self, context: Any, /) -> None:
        if self.seconds_per_word < 0:
            raise ConfigurationError(f"`seconds_per_word` is {self.seconds_per_word}, but must be 0 or more.")

    @classmethod
    def supported_models(cls) -> list[str]:
        return [r"offline(-.*)?"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer from the request alone; streamed, a chunk is a word."""
        parts = _Turn(read(llm_request)).answer()
        if not stream:
            yield self._response(parts, ends=True)
            return
        aggregator = StreamingAggregator()
        chunks = [piece for part in parts for piece in _pieces(part)]
        for index, chunk in enumerate(chunks):
            for partial in aggregator.feed(self._chunk([chunk], ends=index == len(chunks) - 1)):
                yield partial
            if self.seconds_per_word and chunk.text:
                await asyncio.sleep(self.seconds_per_word)
        complete = aggregator.close()
        if complete is not None:
            yield complete

    def _response(self, parts: list[types.Part], *, ends: bool) -> LlmResponse:
        return LlmResponse.create(self._chunk(parts, ends=ends))

    def _chunk(self, parts: list[types.Part], *, ends: bool) -> types.GenerateContentResponse:
        candidate = types.Candidate(
            content=content_of("model", parts), finish_reason=types.FinishReason.STOP if ends else None
        )
        return types.GenerateContentResponse(candidates=[candidate], model_version=self.model)


def _pieces(part: types.Part) -> list[types.Part]:
    if not part.text:
        return [part]
    return [text_part(word) for word in re.findall(r"\s*\S+(?:\s+$)?", part.text)]


@dataclass(slots=True)
class _Plan:
    """What one step could do about the message."""

    calls: list[types.Part] = field(default_factory=list[types.Part])
    hand_to: str = ""
    question: str = ""


class _Turn:
    """One answer to one request."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.known = set(stems(" ".join(f"{f.name} {f.description}" for f in view.functions.values())))
        self.known.update(stems(" ".join([*view.targets, *view.targets.values()])))
        special = (_SET_RESPONSE, _FINISH)
        self.special = {name: view.functions.pop(name) for name in special if name in view.functions}
        self.exit = next((name for name in view.functions if re.search(r"exit|approve", name)), None)
        if self.exit is not None:
            del view.functions[self.exit]
        self.called = {done.name for done in view.done}

    def answer(self) -> list[types.Part]:
        """The parts of the answer."""
        view = self.view
        if self.exit is not None and self.exit not in self.called and view.own_texts:
            return [call_part(None, self.exit, {})]
        plan = self._plan()
        if plan.calls:
            return plan.calls
        if plan.hand_to:
            told = [text_part(self._labelled(told_results(self._reportable())))] if self._reportable() else []
            return [*told, call_part(None, _TRANSFER, {"agent_name": plan.hand_to})]
        text = "\n".join(filter(None, (told_results(self._reportable()), plan.question))) or self._text()
        for name, function in self.special.items():
            if name not in self.called and not (name == _FINISH and plan.question):
                return [call_part(None, name, self._filler(whole=self._labelled(text)).arguments(function).args)]
        if view.response_schema is not None and not self.special:
            value = self._filler(whole=self._labelled(text)).value(view.response_schema)
            return [text_part(json.dumps(value, ensure_ascii=False))]
        return [text_part(self._labelled(text))]

    def _labelled(self, text: str) -> str:
        return f"{LABEL} {text}"

    def _reportable(self) -> list[Any]:
        return [done for done in self.view.unreported if done.name not in (_TRANSFER, _SET_RESPONSE, _FINISH)]

    def _text(self) -> str:
        view = self.view
        if self.exit is not None:
            return review(view)
        if view.done or not (view.functions or (view.targets and not (view.handed_over and view.parent))):
            return composed(view)
        return greeting(view) if is_small_talk(view.ask) else overview(view)

    # -- what to do ----------------------------------------------------------------------------------

    def _plan(self) -> _Plan:
        view, plan = self.view, _Plan()
        if not view.ask or (is_small_talk(view.ask) and not view.asked_back):
            return plan
        pool = self._candidates()
        open_targets = [name for name in view.targets if name not in view.visited and name not in self.called]
        for clause in self._clauses(pool):
            self._plan_clause(clause, ranked(clause, pool), open_targets, plan)
        if not plan.calls and not view.done and (not plan.hand_to or view.handed_over):
            self._plan_without_words(pool, plan)
        idle = not (plan.calls or plan.hand_to or plan.question or view.done or view.handed_over)
        if idle and view.parent in open_targets:
            plan.hand_to = view.parent
        plan.calls = _different(plan.calls)
        return plan

    def _clauses(self, pool: list[Candidate]) -> list[str]:
        """The parts of the message; an answer to a question goes on with what the question was about."""
        view = self.view
        parts = [piece for clause in clauses(view.ask) for piece in _pieces_of_clause(clause, pool)]
        fits = any(score >= FITS for part in parts for score, _ in ranked(part, pool)[:1])
        return [f"{view.earlier[0]}. {view.ask}"] if view.asked_back and view.earlier and not fits else parts

    def _plan_clause(self, clause: str, ranking: list[tuple[float, str]], open_targets: list[str], plan: _Plan) -> None:
        """Plan for the best that fits a part of the message."""
        view = self.view
        for score, name in ranking:
            if score < FITS:
                return
            if name in view.targets:
                if name in open_targets:
                    plan.hand_to = plan.hand_to or name
                return
            if name in self.called:
                return
            calls, missing = self._calls(view.functions[name], clause)
            if calls or not missing:
                plan.calls += calls
                return
            # something else may find out what is missing
            open_functions = set(view.functions) - self.called - {name}
            others = [each for score, each in ranking if score > 0 and each in open_functions and not view.done]
            found = self._calls(view.functions[others[0]], clause)[0] if others else []
            plan.calls += found
            answered = any(score >= FITS and each in self.called for score, each in ranking)
            if not found and not (answered and len(missing) == len(view.functions[name].required)):
                plan.question = plan.question or asked_back(name, missing)
            return

    def _plan_without_words(self, pool: list[Candidate], plan: _Plan) -> None:
        """No word fits, but the agent was chosen or is alone: take a tool that the message has the arguments for."""
        view = self.view
        again = view.functions.get(view.previous.name) if view.previous else None
        if again is not None and len(plain_words(view.ask)) <= 8 and not plan.hand_to:
            filled = Filler(view.ask, known=self.known).arguments(again)
            changed = {k: v for k, v in filled.args.items() if filled.found}
            if changed and not set(stems(view.ask)) <= self.known:
                plan.calls = [call_part(None, again.name, {**view.previous.args, **changed})]  # type: ignore[union-attr]
                plan.question = ""
                return
        if view.targets and not view.handed_over:
            return
        own = [each for each in pool if each.name in view.functions]
        for _, name in ranked(view.ask, own):
            filled = self._filler(view.ask).arguments(view.functions[name])
            if not filled.missing and filled.found:
                plan.calls = [call_part(None, name, filled.args)]
                plan.hand_to = plan.question = ""
                return

    def _candidates(self) -> list[Candidate]:
        view = self.view
        tools = [
            candidate(each.name, each.description, each.texts, _OWN_TOOL_FACTOR) for each in view.functions.values()
        ]
        agents = [
            candidate(name, text, factor=_PARENT_FACTOR if name == view.parent else 1.0)
            for name, text in view.targets.items()
        ]
        return [*tools, *agents]

    # -- arguments -----------------------------------------------------------------------------------

    def _filler(self, clause: str | None = None, whole: str | None = None) -> Filler:
        view = self.view
        facts: dict[str, Any] = {}
        if view.previous is not None and _REFERENCE.search(view.ask):
            _collect(view.previous.result, facts)
        for done in view.done:
            _collect(done.result, facts)
        text = view.ask if clause is None else clause
        return Filler(text, view.ask, view.earlier, view.given, facts, self.known, whole)

    def _calls(self, function: Function, clause: str) -> tuple[list[types.Part], list[str]]:
        """The calls of a function that a part of the message asks for, or what is missing for them.

        Several names where the function takes one make several calls.
        """
        filler = self._filler(clause)
        filled = filler.arguments(function)
        if filled.missing:
            return [], filled.missing
        if self.view.done and all(filler.facts.get(key) == value for key, value in filled.args.items()):
            return [], []  # results alone are no reason to call: something has to be asked for
        calls = [call_part(None, function.name, filled.args)]
        key, others = _further_names(clause, function, filled)
        calls += [call_part(None, function.name, {**filled.args, key: other}) for other in others]
        return calls[:_MAX_CALLS], []


def _pieces_of_clause(clause: str, pool: list[Candidate]) -> list[str]:
    """A clause, cut at "and" where its parts are for different candidates, and the best for all is not for both."""
    pieces = re.split(r",?\s+(?:and|as well as|plus)\s+|,\s+", clause)
    bests = [ranked(piece, pool)[:1] for piece in pieces]
    fitting = {best[0][1] for best in bests if best and best[0][0] >= FITS}
    if len(fitting) < 2:
        return [clause]
    weights = {each.name: each.weights for each in pool}
    whole = weights[ranked(clause, pool)[0][1]]
    others = [piece for piece, best in zip(pieces, bests, strict=True) if best and best[0][0] >= FITS]
    if all(any(whole.get(word, 0) >= TEXT_WEIGHT for word in stems(piece)) for piece in others):
        return [clause]
    return others


def _further_names(clause: str, function: Function, filled: Filled) -> tuple[str, list[str]]:
    """The one parameter that holds a name of the message, and the names listed beside that one."""
    named = [
        (key, value)
        for key, value in filled.args.items()
        if isinstance(value, str)
        and value.istitle()
        and value in clause
        and "enum" not in str(function.properties[key])
    ]
    if len(named) != 1:
        return "", []
    key, value = named[0]
    listed = re.search(rf"{re.escape(value)}((?:\s*(?:,|and|or|,\s*and)\s+{_NAME})+)", clause)
    return key, re.findall(_NAME, listed.group(1)) if listed else []


def _collect(value: Any, facts: dict[str, Any]) -> None:
    """The values of results by name; of a list the first entry speaks."""
    if isinstance(value, list) and value:
        _collect(cast(list[Any], value)[0], facts)
    elif isinstance(value, dict):
        for key, each in cast(dict[str, Any], value).items():
            if isinstance(each, dict | list) and each:
                facts.setdefault(key, each)
                _collect(each, facts)
            elif each is not None:
                facts.setdefault(key, each)


def _different(calls: list[types.Part]) -> list[types.Part]:
    seen: dict[str, types.Part] = {}
    for part in calls:
        call = part.function_call
        assert call is not None
        seen.setdefault(json.dumps([call.name, call.args], sort_keys=True, default=str), part)
    return list(seen.values())
