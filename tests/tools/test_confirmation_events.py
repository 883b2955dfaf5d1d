"""Tools that wait for a person: what they ask, and how the request looks (cases area 12)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, approve, call, context, event, named_call, pending, requests_of, result, story, text

from flowloom import (
    BaseTool,
    BaseToolset,
    ConfigurationError,
    Context,
    Event,
    EventActions,
    Flow,
    FunctionTool,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LongRunningFunctionTool,
    ToolConfirmation,
    ToolContext,
)
from flowloom.errors import ConfirmationRejectedError, ConfirmationRequiredError, ToolSignatureError
from flowloom.tools.confirmation import confirmation_event

# -- the event --------------------------------------------------------------------------------------


def asked(parts: list[types.Part], *ids: str) -> Event | None:
    """The request that follows calls of which those with these ids asked for confirmation."""
    requested = {call_id: ToolConfirmation(hint=f"hint {call_id}") for call_id in ids}
    answers = Event(author="root", actions=EventActions(requested_tool_confirmations=requested))
    return confirmation_event(context(LlmAgent(name="root"), branch="b1", invocation_id="e-1"), parts, answers)


def test_without_requests_there_is_no_event() -> None:
    assert asked([named_call("c1", "pay")]) is None


def test_a_request_whose_id_is_not_among_the_calls_makes_no_event() -> None:
    assert asked([named_call("c1", "pay")], "other") is None


def test_the_event_is_the_agents_and_carries_the_original_call() -> None:
    """Match | author, branch, invocation id, role model, args originalFunctionCall + toolConfirmation, LRO ids, id."""
    found = asked([named_call("c1", "pay", amount=3)], "c1")
    assert found is not None
    assert (found.author, found.branch, found.invocation_id) == ("root", "b1", "e-1")
    assert found.id
    assert found.content is not None
    assert found.content.role == "model"
    [request] = found.get_function_calls()
    assert request.name == "adk_request_confirmation"
    assert request.args == {
        "originalFunctionCall": {"id": "c1", "name": "pay", "args": {"amount": 3}},
        "toolConfirmation": {"hint": "hint c1", "confirmed": False},
    }
    assert found.long_running_tool_ids == [request.id]
    assert (request.id or "").startswith("adk-")
    assert found.is_final_response()


@pytest.mark.parametrize("signature", [b"sig", None])
def test_a_thought_signature_on_the_call_is_copied(signature: bytes | None) -> None:
    part = named_call("c1", "pay")
    part.thought_signature = signature
    found = asked([part], "c1")
    assert found is not None
    assert found.content is not None
    assert [p.thought_signature for p in found.content.parts or ()] == [signature]


def test_parts_and_ids_are_in_the_order_of_the_calls() -> None:
    """4 calls c,a,d,b | parts and LRO ids in that order, stable over repeats."""
    parts = [named_call(call_id, "pay") for call_id in "cadb"]
    for _ in range(10):
        found = asked([text("first"), *parts, named_call("z", "other")], "a", "b", "c", "d")
        assert found is not None
        requests = found.get_function_calls()
        assert [(r.args or {})["originalFunctionCall"]["id"] for r in requests] == list("cadb")
        assert found.long_running_tool_ids == [r.id for r in requests]


async def test_decision_07_the_results_come_before_the_request_for_confirmation() -> None:
    """Order | tool requiring confirmation | FR event precedes confirmation event, and the run pauses on the latter."""
    events = await Chat(paying(True)).say("go")
    assert [line.split(" ")[1].split("(")[0] for line in story(events)] == ["pay", "pay", "adk_request_confirmation"]
    assert events[1].actions.skip_summarization
    assert events[2].is_final_response()


@pytest.mark.parametrize(
    ("names", "skips"), [("pay show", True), ("pay look", None), ("pay pay", True), ("pay post", True)]
)
async def test_whether_results_are_summed_up_is_for_the_calls_that_have_any_to_say(names: str, skips: Any) -> None:
    """A call that waits for a person has nothing to sum up, nor has one without a result; it counts if all are such."""

    def pay() -> None:
        """Pay."""

    def look() -> str:
        """Look."""
        return "seen"

    def show(tool_context: ToolContext) -> str:
        """Show."""
        tool_context.actions.skip_summarization = True
        return "shown"

    def post() -> None:
        """Post."""

    tools = [FunctionTool(pay, require_confirmation=True), look, show, LongRunningFunctionTool(post)]
    events = await Chat(agent("root", [call(name) for name in names.split()], "done", tools=tools)).say("go")
    assert events[1].actions.skip_summarization is skips


# -- the tool ---------------------------------------------------------------------------------------


class Till:
    """Counts what was paid."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, amount: int) -> str:
        """Pay an amount."""
        self.paid.append(amount)
        return f"paid {amount}"


def above_ten(amount: int) -> bool:
    return amount > 10


async def async_above_ten(amount: int, tool_context: ToolContext) -> bool:
    assert tool_context.function_call_id
    return amount > 10


def paying(required: Any, amount: int = 50, till: Till | None = None, *more: Any) -> LlmAgent:
    tool = FunctionTool((till or Till()).pay, require_confirmation=required)
    return agent("root", named_call("c1", "pay", amount=amount), *(more or ["done"]), tools=[tool])


RUNS = "{'result': 'paid %d'}"


@pytest.mark.parametrize(
    ("required", "amount", "asks"),
    [
        (False, 50, False),
        (True, 50, True),
        (above_ten, 5, False),
        (above_ten, 50, True),
        (async_above_ten, 5, False),
        (async_above_ten, 50, True),
    ],
)
async def test_a_person_is_asked_when_the_flag_or_the_predicate_says_so(required: Any, amount: int, asks: bool) -> None:
    """Tool | flag off / on / provider false / provider true | run / placeholder + request / run / request."""
    till = Till()
    events = await Chat(paying(required, amount, till)).say("go")
    assert bool(pending(events)) is asks
    assert till.paid == ([] if asks else [amount])
    first_result = events[1].get_function_responses()[0].response or {}
    assert ("error" in first_result) is asks


@pytest.mark.parametrize("required", [True, above_ten, async_above_ten])
async def test_a_confirmed_call_runs(required: Any) -> None:
    """On + confirmed, provider + confirmed | run."""
    till = Till()
    chat = Chat(paying(required, 50, till))
    [request] = pending(await chat.say("go"))
    events = await chat.answer(approve(request))
    assert till.paid == [50]
    assert story(events) == ["root: pay -> {'result': 'paid 50'}", "root: done"]
    assert events[0].get_function_responses()[0].id == "c1"


@pytest.mark.parametrize("required", [True, above_ten, async_above_ten])
async def test_a_rejected_call_does_not_run_and_the_model_is_told(required: Any) -> None:
    """On + rejected, provider + rejected | rejected error."""
    till = Till()
    root = paying(required, 50, till)
    chat = Chat(root)
    [request] = pending(await chat.say("go"))
    events = await chat.answer(approve(request, False))
    assert till.paid == []
    told = (events[0].get_function_responses()[0].response or {})["error"]
    assert "reject" in told
    assert told in str(requests_of(root)[-1].contents)


async def test_the_two_refusals_have_types_of_their_own() -> None:
    tool = FunctionTool(Till().pay, require_confirmation=True)
    ctx = context(LlmAgent(name="root"))
    with pytest.raises(ConfirmationRequiredError, match="pay"):
        await tool.run_async(args={"amount": 1}, tool_context=Context(ctx, function_call_id="c1"))
    decided = Context(ctx, function_call_id="c1", tool_confirmation=ToolConfirmation(confirmed=False))
    with pytest.raises(ConfirmationRejectedError, match="pay"):
        await tool.run_async(args={"amount": 1}, tool_context=decided)


async def test_bad_arguments_are_told_to_the_model_before_a_person_is_asked() -> None:
    events = await Chat(agent("root", call("pay", amount="x"), "ok", tools=[paying(True).tools[0]])).say("go")
    assert not pending(events)
    assert "amount" in str(events[1].get_function_responses()[0].response)


def unknown_parameter(total: int) -> bool:
    return total > 10


def untyped_rest(*amounts: int) -> bool:
    return True


@pytest.mark.parametrize("predicate", [unknown_parameter, untyped_rest])
def test_a_predicate_that_does_not_fit_the_tool_is_an_error_when_it_is_built(predicate: Any) -> None:
    """Provider type | wrong signatures | construction error."""
    with pytest.raises((ConfigurationError, ToolSignatureError)):
        FunctionTool(Till().pay, require_confirmation=predicate)


async def test_a_predicate_that_fails_is_an_error_for_the_model_and_runs_nothing() -> None:
    def broken(amount: int) -> bool:
        raise RuntimeError("rates are down")

    till = Till()
    events = await Chat(paying(broken, 50, till)).say("go")
    assert till.paid == []
    assert "rates are down" in str(events[1].get_function_responses()[0].response)


async def test_any_tool_may_ask_and_give_a_placeholder_of_its_own() -> None:
    def book(room: str, tool_context: ToolContext) -> dict[str, Any]:
        """Book a room."""
        decision = tool_context.tool_confirmation
        if decision is None:
            tool_context.request_confirmation(hint="Really?", payload={"nights": 1})
            return {"status": "waiting"}
        return {"booked": room, "nights": (decision.payload or {}).get("nights")}

    chat = Chat(agent("root", named_call("c1", "book", room="12"), "done", tools=[book]))
    events = await chat.say("go")
    assert events[1].get_function_responses()[0].response == {"status": "waiting"}
    [request] = pending(events)
    assert (request.args or {})["toolConfirmation"] == {"hint": "Really?", "confirmed": False, "payload": {"nights": 1}}
    answer = result(request.id, "adk_request_confirmation", {"confirmed": True, "payload": {"nights": 3}})
    assert story(await chat.answer(answer))[0] == "root: book -> {'booked': '12', 'nights': 3}"


def test_only_a_tool_call_can_ask() -> None:
    from flowloom.errors import ContextError

    with pytest.raises(ContextError, match="tool"):
        Context(context(LlmAgent(name="root"))).request_confirmation(hint="x")


# -- toolsets ---------------------------------------------------------------------------------------


class Bank(BaseToolset):
    """A set whose tools ask as they are told to."""

    def __init__(self, till: Till, required: Any, **options: Any) -> None:
        super().__init__(**options)
        self.till = till
        self.required = required

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        return [FunctionTool(self.till.pay, require_confirmation=self.required)]


@pytest.mark.parametrize(
    ("required", "confirmed", "paid", "asks"),
    [
        (True, None, [], True),
        (True, True, [50], True),
        (True, False, [], True),
        (False, None, [50], False),
        (above_ten, True, [50], True),
        (lambda amount: False, None, [50], False),
    ],
)
async def test_tools_of_a_toolset_ask_like_any_other(
    required: Any, confirmed: bool | None, paid: list[int], asks: bool
) -> None:
    """Toolset wrapper | required, confirmed, rejected, not required, provider yes / no | as expected."""
    till = Till()
    bank = Bank(till, required, tool_name_prefix="bank")
    chat = Chat(agent("root", named_call("c1", "bank_pay", amount=50), "done", tools=[bank]))
    waiting = pending(await chat.say("go"))
    assert bool(waiting) is asks
    if confirmed is not None:
        await chat.answer(approve(waiting[0], confirmed))
    assert till.paid == paid


class Guard(BaseTool):
    """Wraps a tool that declares itself, and asks before it runs."""

    def __init__(self, inner: BaseTool) -> None:
        super().__init__(name=inner.name, description=inner.description)
        self.inner = inner

    def _get_declaration(self) -> types.FunctionDeclaration | None:
        return self.inner.declaration

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="guarded")
            return {"status": "waiting"}
        return await self.inner.run_async(args=args, tool_context=tool_context)


async def test_a_wrapper_is_the_tool_that_is_registered_and_declared_once() -> None:
    """Wrapper packing | inner tool packs itself | registered object is the wrapper; declared once."""
    till = Till()
    guard = Guard(FunctionTool(till.pay))
    root = agent("root", named_call("c1", "pay", amount=5), "done", tools=[guard])
    chat = Chat(root)
    [request] = pending(await chat.say("go"))
    assert till.paid == []
    await chat.answer(approve(request))
    assert till.paid == [5]
    sent = requests_of(root)[0]
    assert sent.tools_dict["pay"] is guard
    [group] = sent.config.tools or ()
    assert isinstance(group, types.Tool)
    assert len(group.function_declarations or ()) == 1


# -- the original call, as it comes back --------------------------------------------------------------

ORIGINAL = {"id": "c1", "name": "pay", "args": {"amount": 5}}


async def resumed(args: dict[str, Any] | None) -> list[int]:
    """What is paid when a person approves a request with these arguments."""
    till = Till()
    root = agent("root", "done", tools=[FunctionTool(till.pay, require_confirmation=True)])
    request = types.FunctionCall(id="adk-1", name="adk_request_confirmation", args=args)
    ctx = context(
        root,
        event("user", "go"),
        event("root", named_call("c1", "pay", amount=5)),
        event("root", result("c1", "pay", {"error": "needs approval"})),
        event("root", types.Part(function_call=request), long_running_tool_ids=["adk-1"]),
        event("user", result("adk-1", "adk_request_confirmation", {"confirmed": True})),
    )
    assert [e async for e in root.run_async(ctx)]
    return till.paid


async def test_the_original_call_is_run_as_it_was_asked_for() -> None:
    assert await resumed({"originalFunctionCall": ORIGINAL}) == [5]


@pytest.mark.parametrize(
    "args",
    [
        None,
        {},
        {"other": ORIGINAL},
        {"originalFunctionCall": json.dumps(ORIGINAL)},
        {"originalFunctionCall": None},
        {"originalFunctionCall": {"id": 3, "name": ["pay"]}},
        {"originalFunctionCall": {"name": "pay", "args": {"amount": 5}}},
        {"originalFunctionCall": [ORIGINAL]},
    ],
)
async def test_an_original_call_that_cannot_be_read_runs_nothing(args: dict[str, Any] | None) -> None:
    """OriginalCallFrom | nil / missing key / string / null / wrong inner type | errors."""
    assert await resumed(args) == []


async def test_a_processor_before_the_confirmation_may_put_the_decision_into_the_log() -> None:
    """Nothing in the message answers the call, and yet it is carried out in the same step."""
    till = Till()

    async def approves(ctx: InvocationContext, request: LlmRequest) -> None:
        open_requests = pending(ctx.session.events)
        if open_requests and ctx.user_content is not None and "fine" in (ctx.user_content.parts or [text("")])[0].text:
            decision = event("user", approve(open_requests[0]), invocation_id=ctx.invocation_id)
            await ctx.session_service.append_event(ctx.session, decision)

    tools = [FunctionTool(till.pay, require_confirmation=True)]
    flow = Flow().with_processor(approves, before="auth")
    chat = Chat(agent("root", call("pay", amount=3), "done", "more", tools=tools, flow=flow))
    await chat.say("go")
    await chat.say("fine")
    assert till.paid == [3]


async def test_a_tool_may_put_the_decision_about_an_earlier_call_into_the_log() -> None:
    """The step after it carries it out."""
    till = Till()

    async def ask_the_boss(tool_context: ToolContext) -> str:
        """Ask."""
        place = tool_context.invocation_context
        decision = event("user", approve(pending(place.session.events)[0]), invocation_id=place.invocation_id)
        await place.session_service.append_event(place.session, decision)
        return "fine"

    tools = [FunctionTool(till.pay, require_confirmation=True), ask_the_boss]
    chat = Chat(agent("root", call("pay", amount=3), call("ask_the_boss"), "done", tools=tools))
    await chat.say("go")
    assert story(await chat.say("May I?"))[2:] == ["root: pay -> {'result': 'paid 3'}", "root: done"]
    assert till.paid == [3]
