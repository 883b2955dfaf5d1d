"""The planning processors and the planners that come with the engine."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from flowloom.context import Context, InvocationContext, ReadonlyContext
from flowloom.context.hooks import NO_CALLBACKS
from flowloom.events import LlmResponse
from flowloom.models.contents import SharedContents
from flowloom.models.request import LlmRequest
from flowloom.processors.planners import BasePlanner, BuiltInPlanner, PlanReActPlanner
from flowloom.processors.planning import planning, planning_response


class _Flow:
    callbacks = NO_CALLBACKS


class _Agent:
    """As much of an LLM agent as these processors look at."""

    name = "planner_agent"
    description = ""
    sub_agents = ()
    is_llm_agent = True
    flow = _Flow()

    def __init__(self, planner: Any = None, *, is_llm_agent: bool = True) -> None:
        self.planner = planner
        self.is_llm_agent = is_llm_agent


def _context(planner: Any = None, **options: Any) -> InvocationContext:
    return InvocationContext(agent=_Agent(planner, **options))  # type: ignore[arg-type]


def _text(text: str, **fields: Any) -> types.Part:
    return types.Part(text=text, **fields)


def _response(*parts: types.Part, **fields: Any) -> LlmResponse:
    return LlmResponse(content=types.Content(role="model", parts=list(parts)), **fields)


def _said(response: LlmResponse) -> list[tuple[str | None, bool]]:
    assert response.content is not None
    return [(part.text, bool(part.thought)) for part in response.content.parts or ()]


def _react(*parts: types.Part, **fields: Any) -> LlmResponse:
    """The response of these parts after a PlanReActPlanner."""
    response = _response(*parts, **fields)
    assert planning_response(_context(PlanReActPlanner()), LlmRequest(), response) is None
    return response


class _Own(BasePlanner):
    """A planner of a user's own, which keeps a log of what it was given."""

    def __init__(self, instruction: str | None = "Plan well.", parts: list[types.Part] | None = None) -> None:
        self.instruction = instruction
        self.parts = parts
        self.asked = 0

    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str | None:
        return None if self.instruction is None else f"{self.instruction} ({readonly_context.agent_name})"

    def process_planning_response(
        self, callback_context: Context, response_parts: list[types.Part]
    ) -> list[types.Part] | None:
        self.asked += 1
        return self.parts


class TestRequest:
    def test_an_agent_without_a_planner_leaves_the_request_alone(self) -> None:
        request = LlmRequest(contents=[types.Content(role="model", parts=[_text("idea", thought=True)])])
        before = request.model_copy(deep=True)
        planning(_context(None), request)
        assert request == before

    def test_an_agent_that_is_no_llm_agent_has_no_planner(self) -> None:
        request = LlmRequest()
        planning(_context(PlanReActPlanner(), is_llm_agent=False), request)
        assert request.config.system_instruction is None

    def test_the_planners_instruction_follows_what_is_there(self) -> None:
        request = LlmRequest()
        request.append_instructions(["Be kind."])
        planning(_context(_Own()), request)
        assert request.config.system_instruction == "Be kind.\n\nPlan well. (planner_agent)"

    def test_a_planner_is_shown_the_request_and_the_place(self) -> None:
        class Looking(_Own):
            def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str:
                return f"{readonly_context.agent_name} of {llm_request.model}"

        request = LlmRequest(model="m1")
        planning(_context(Looking()), request)
        assert request.config.system_instruction == "planner_agent of m1"

    def test_a_planner_without_an_instruction_adds_none(self) -> None:
        request = LlmRequest()
        planning(_context(_Own(instruction=None)), request)
        assert request.config.system_instruction is None

    def test_the_plan_react_instruction_names_every_tag(self) -> None:
        request = LlmRequest()
        planning(_context(PlanReActPlanner()), request)
        text = request.config.system_instruction
        assert isinstance(text, str)
        for tag in ("PLANNING", "REPLANNING", "REASONING", "ACTION", "FINAL_ANSWER"):
            assert f"/*{tag}*/" in text

    def test_the_built_in_planner_replaces_the_thinking_config(self) -> None:
        request = LlmRequest()
        request.config.thinking_config = types.ThinkingConfig(thinking_budget=1)
        planning(_context(BuiltInPlanner(thinking_config=types.ThinkingConfig(thinking_budget=512))), request)
        assert request.config.thinking_config == types.ThinkingConfig(thinking_budget=512)

    def test_the_built_in_planner_changes_nothing_but_the_thinking_config(self) -> None:
        thought = types.Content(role="model", parts=[_text("idea", thought=True)])
        request = LlmRequest(contents=[thought])
        planning(_context(BuiltInPlanner(thinking_config=types.ThinkingConfig(thinking_budget=512))), request)
        assert request.config.system_instruction is None
        assert request.contents == [thought]
        assert thought.parts is not None
        assert thought.parts[0].thought is True

    def test_what_a_request_does_to_its_thinking_config_does_not_reach_the_planner(self) -> None:
        planner = BuiltInPlanner(thinking_config=types.ThinkingConfig(thinking_budget=512))
        request = LlmRequest()
        planning(_context(planner), request)
        assert request.config.thinking_config is not None
        request.config.thinking_config.thinking_budget = 1
        assert planner.thinking_config.thinking_budget == 512

    def test_earlier_plans_are_shown_to_the_model_as_its_own_words(self) -> None:
        plan = types.Content(role="model", parts=[_text("1. look", thought=True), _text("done")])
        request = LlmRequest.empty("m")
        request.contents = SharedContents([plan])
        planning(_context(PlanReActPlanner()), request)
        assert [part.thought for part in request.contents[0].parts or ()] == [None, None]

    @pytest.mark.parametrize("shared", [True, False], ids=["shared", "plain list"])
    def test_unmarking_a_plan_leaves_the_history_as_it_is(self, shared: bool) -> None:
        plan = types.Content(role="model", parts=[_text("1. look", thought=True)])
        request = LlmRequest.empty("m")
        request.contents = SharedContents([plan]) if shared else [plan]
        planning(_context(PlanReActPlanner()), request)
        assert plan.parts is not None
        assert plan.parts[0].thought is True
        assert (request.contents[0].parts or [])[0].thought is None

    def test_contents_without_a_plan_are_not_copied(self) -> None:
        plain = types.Content(role="user", parts=[_text("hello")])
        contents = SharedContents([plain])
        request = LlmRequest.empty("m")
        request.contents = contents
        planning(_context(PlanReActPlanner()), request)
        assert contents.plain()[0] is plain
        assert not contents.touched

    def test_thoughts_that_the_model_signed_stay_thoughts(self) -> None:
        """Beside a plan, too."""
        signed, plan = _text("hm", thought=True, thought_signature=b"s"), _text("1. look", thought=True)
        for parts in ([signed, _text("so")], [signed, plan]):
            request = LlmRequest.empty("m")
            request.contents = SharedContents([types.Content(role="model", parts=parts)])
            planning(_context(PlanReActPlanner()), request)
            assert [part.thought for part in request.contents[0].parts or []] == [True, None]

    def test_a_content_without_parts_has_no_plan(self) -> None:
        request = LlmRequest.empty("m")
        request.contents = [types.Content(role="user")]
        planning(_context(PlanReActPlanner()), request)
        assert request.contents == [types.Content(role="user")]


class TestResponse:
    def test_without_a_planner_the_response_stays(self) -> None:
        response = _response(_text("/*PLANNING*/ 1. look"))
        content = response.content
        assert planning_response(_context(None), LlmRequest(), response) is None
        assert response.content is content

    def test_the_built_in_planner_leaves_the_response_alone(self) -> None:
        response = _response(_text("/*PLANNING*/ 1. look"))
        content = response.content
        planner = BuiltInPlanner(thinking_config=types.ThinkingConfig())
        assert planning_response(_context(planner), LlmRequest(), response) is None
        assert response.content is content

    def test_the_planners_parts_take_the_place_of_the_responses(self) -> None:
        response = _response(_text("old"))
        planning_response(_context(_Own(parts=[_text("new")])), LlmRequest(), response)
        assert _said(response) == [("new", False)]

    @pytest.mark.parametrize("parts", [None, []], ids=["None", "no parts"])
    def test_a_planner_that_returns_nothing_leaves_the_response_as_it_is(self, parts: list[types.Part] | None) -> None:
        response = _response(_text("old"))
        planning_response(_context(_Own(parts=parts)), LlmRequest(), response)
        assert _said(response) == [("old", False)]

    def test_the_content_is_replaced_and_not_changed(self) -> None:
        response = _response(_text("/*PLANNING*/ 1. look"))
        before = response.content
        assert before is not None
        planning_response(_context(PlanReActPlanner()), LlmRequest(), response)
        assert response.content is not before
        assert before == types.Content(role="model", parts=[_text("/*PLANNING*/ 1. look")])

    def test_a_planner_that_writes_to_the_parts_it_is_given_does_not_change_the_old_content(self) -> None:
        class Marker(_Own):
            def process_planning_response(
                self, callback_context: Context, response_parts: list[types.Part]
            ) -> list[types.Part] | None:
                for part in response_parts:
                    part.thought = True
                return response_parts

        response = _response(_text("hm"))
        before = response.content
        planning_response(_context(Marker()), LlmRequest(), response)
        assert _said(response) == [("hm", True)]
        assert before == types.Content(role="model", parts=[_text("hm")])

    def test_partial_responses_are_given_to_the_planner_too(self) -> None:
        planner = _Own(parts=[_text("chunk", thought=True)])
        response = _response(_text("chunk"), partial=True)
        planning_response(_context(planner), LlmRequest(), response)
        assert planner.asked == 1
        assert _said(response) == [("chunk", True)]

    def test_a_response_without_content_is_not_given_to_the_planner(self) -> None:
        planner = _Own()
        planning_response(_context(planner), LlmRequest(), LlmResponse(error_code="X"))
        planning_response(_context(planner), LlmRequest(), _response())
        assert planner.asked == 0

    def test_state_that_the_planner_writes_is_on_an_event_of_the_agent(self) -> None:
        class Counter(_Own):
            def process_planning_response(
                self, callback_context: Context, response_parts: list[types.Part]
            ) -> list[types.Part] | None:
                callback_context.state["plans"] = callback_context.state.get("plans", 0) + 1
                return None

        event = planning_response(_context(Counter()), LlmRequest(), _response(_text("x")))
        assert event is not None
        assert event.author == "planner_agent"
        assert event.content is None
        assert event.actions.state_delta == {"plans": 1}

    def test_state_that_the_planner_changes_in_place_is_on_the_event(self) -> None:
        class Logger(_Own):
            def process_planning_response(
                self, callback_context: Context, response_parts: list[types.Part]
            ) -> list[types.Part] | None:
                callback_context.state["log"].append(response_parts[0].text)
                return None

        ctx = _context(Logger())
        ctx.session.state["log"] = []
        event = planning_response(ctx, LlmRequest(), _response(_text("x")))
        assert event is not None
        assert event.actions.state_delta == {"log": ["x"]}


class TestPlanReAct:
    @pytest.mark.parametrize("tag", ["PLANNING", "REPLANNING", "REASONING", "ACTION"])
    def test_text_under_a_working_tag_is_a_thought_without_the_tag(self, tag: str) -> None:
        assert _said(_react(_text(f"/*{tag}*/ first this"))) == [("first this", True)]

    def test_the_final_answer_is_text_and_what_stands_before_it_a_thought(self) -> None:
        response = _react(_text("/*PLANNING*/\n1. look\n/*REASONING*/\nseen it\n/*FINAL_ANSWER*/\nIt is 42.\n"))
        assert _said(response) == [("1. look\nseen it", True), ("It is 42.\n", False)]

    def test_text_before_a_final_answer_is_a_thought_even_without_a_tag(self) -> None:
        assert _said(_react(_text("Hm. /*FINAL_ANSWER*/ 42"))) == [("Hm.", True), ("42", False)]

    def test_the_last_of_several_final_answers_is_the_answer(self) -> None:
        response = _react(_text("/*FINAL_ANSWER*/ 41 /*REASONING*/ no /*FINAL_ANSWER*/ 42"))
        assert _said(response) == [("41\nno", True), ("42", False)]

    def test_text_after_the_final_answer_that_has_a_tag_of_its_own_is_a_thought(self) -> None:
        assert _said(_react(_text("/*FINAL_ANSWER*/ 42 /*REASONING*/ sure"))) == [("42", False), ("sure", True)]

    def test_text_before_the_first_working_tag_stays_text(self) -> None:
        assert _said(_react(_text("Sure! /*PLANNING*/ 1. look"))) == [("Sure!", False), ("1. look", True)]

    def test_text_without_tags_stays_as_it_is(self) -> None:
        assert _said(_react(_text("  /* a comment */ x "))) == [("  /* a comment */ x ", False)]

    def test_the_models_own_thoughts_stay_thoughts_whatever_they_mention(self) -> None:
        response = _react(_text("I end with /*FINAL_ANSWER*/ 42", thought=True))
        assert _said(response) == [("I end with /*FINAL_ANSWER*/ 42", True)]

    def test_function_calls_are_kept_behind_the_plan(self) -> None:
        call = types.Part(function_call=types.FunctionCall(name="look", args={}))
        response = _react(_text("/*PLANNING*/ 1. look /*ACTION*/"), call)
        assert response.content is not None
        assert response.content.parts == [_text("1. look", thought=True), call]

    def test_a_response_ends_with_its_first_group_of_calls(self) -> None:
        calls = [types.Part(function_call=types.FunctionCall(name=name, args={})) for name in "abc"]
        response = _react(calls[0], calls[1], _text("and then"), calls[2])
        assert response.content is not None
        assert response.content.parts == calls[:2]

    def test_calls_without_a_name_are_left_out(self) -> None:
        nameless = types.Part(function_call=types.FunctionCall(args={}))
        named = types.Part(function_call=types.FunctionCall(name="look", args={}))
        response = _react(nameless, named)
        assert response.content is not None
        assert response.content.parts == [named]

    def test_parts_other_than_text_are_kept(self) -> None:
        image = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
        response = _react(image, _text("/*FINAL_ANSWER*/ here"))
        assert response.content is not None
        assert response.content.parts == [image, _text("here")]

    def test_plans_without_an_answer_are_one_thought(self) -> None:
        assert _said(_react(_text("/*PLANNING*/ a /*REASONING*/ b"))) == [("a\nb", True)]

    def test_a_signature_stays_with_the_answer(self) -> None:
        response = _react(_text("/*REASONING*/ so /*FINAL_ANSWER*/ 42", thought_signature=b"s"))
        assert response.content is not None
        assert [part.thought_signature for part in response.content.parts or ()] == [None, b"s"]

    def test_a_chunk_that_is_nothing_but_a_tag_shows_no_text(self) -> None:
        assert _said(_react(_text("/*PLANNING*/"), partial=True)) == [("", True)]

    def test_in_a_chunk_only_the_space_next_to_a_tag_goes(self) -> None:
        assert _said(_react(_text("/*FINAL_ANSWER*/ The "), partial=True)) == [("The ", False)]
        assert _said(_react(_text(" and /*PLANNING*/ so"), partial=True)) == [(" and", False), ("so", True)]
