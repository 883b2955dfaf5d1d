"""A person decides about tool calls: what asks, what is edited, what is rejected, several at once."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from flowloom import (
    AgentTool,
    BaseAgent,
    BasePlugin,
    CallbackContext,
    FunctionTool,
    InputValidationError,
    InvocationContext,
    LlmAgent,
    LongRunningFunctionTool,
    ParallelAgent,
    ToolContext,
)
from flowloom.testing import call
from waiting.desk import Desk, World, by_turn, last_text, model_of, seen_results, seen_text


def desk(world: World, *answers: Any, tools: list[Any] | None = None) -> Desk:
    return Desk(lambda: by_turn("root", *answers, tools=tools or [world.paying, world.look]))


async def test_a_flagged_tool_waits_and_runs_when_it_is_approved(world: World) -> None:
    it = desk(world, call("pay", amount=5), "Paid.")
    await it.say("Pay.")
    assert world.ran == []
    pending = await it.only()
    assert (pending.kind, pending.name, pending.args, pending.agent) == ("confirmation", "pay", {"amount": 5}, "root")
    assert "approval" in pending.message
    assert last_text(await it.answer(pending.approve())) == "Paid."
    assert world.ran == ["pay 5 bob"]
    assert await it.waiting() == []


async def test_a_predicate_over_the_arguments_decides_who_is_asked_about(world: World) -> None:
    async def much(amount: int) -> bool:
        return amount > 100

    tool = FunctionTool(world.pay, require_confirmation=much)
    it = desk(world, [call("pay", amount=5), call("pay", amount=500)], "Paid.", tools=[tool])
    await it.say("Pay.")
    assert world.ran == ["pay 5 bob"]
    await it.answer((await it.only()).approve())
    assert world.ran == ["pay 5 bob", "pay 500 bob"]
    assert seen_results(model_of(it.runner.agent).requests[-1])[0] == {"paid": 5, "to": "bob"}


async def test_a_tool_may_ask_by_itself_and_use_what_the_person_gave(world: World) -> None:
    def careful(days: int, tool_context: ToolContext) -> dict[str, Any]:
        """Take days off."""
        decision = tool_context.tool_confirmation
        if decision is None:
            tool_context.request_confirmation(hint="How many?", payload={"days": days})
            return {"status": "asked"}
        if not decision.confirmed:
            return {"status": "refused", "why": decision.reason}
        assert decision.payload is not None
        world.ran.append(f"off {decision.payload['days']}")
        return {"status": "ok", "days": decision.payload["days"]}

    it = desk(world, call("careful", days=30), "Done.", tools=[careful])
    await it.say("Holidays.")
    pending = await it.only()
    assert (pending.message, pending.payload) == ("How many?", {"days": 30})
    await it.answer(pending.approve(payload={"days": 3}))
    assert world.ran == ["off 3"]


async def test_a_call_runs_with_the_arguments_that_the_person_gave_it(world: World) -> None:
    """The tool gets them, the model is told, and the history keeps what the model has called."""
    it = desk(world, call("pay", amount=500, to="eve"), "Paid less.")
    await it.say("Pay.")
    await it.answer((await it.only()).approve(edited_args={"amount": 50}))
    assert world.ran == ["pay 50 bob"]
    request = model_of(it.runner.agent).requests[-1]
    assert seen_results(request) == [{"paid": 50, "to": "bob"}]
    assert "A person changed the arguments of `pay`" in seen_text(request)
    assert '{"amount": 50}' in seen_text(request)
    (kept,) = [c for e in await it.events() for c in e.get_function_calls() if c.name == "pay"]
    assert kept.args == {"amount": 500, "to": "eve"}


async def test_a_call_with_other_arguments_that_has_no_result_yet_writes_to_the_state(world: World) -> None:
    def send(what: str, tool_context: ToolContext) -> None:
        """Send, which takes days."""
        tool_context.state["sent"] = what

    it = desk(
        world, call("send", what="pen"), "Sent.", tools=[LongRunningFunctionTool(send, require_confirmation=True)]
    )
    await it.say("Send.")
    await it.answer((await it.only()).approve(edited_args={"what": "ink"}))
    assert (await it.session()).state == {"sent": "ink"}


async def test_edited_arguments_that_do_not_fit_are_told_to_the_model(world: World) -> None:
    it = desk(world, call("pay", amount=5), "No.")
    await it.say("Pay.")
    await it.answer((await it.only()).approve(edited_args={"amount": "a lot"}))
    assert world.ran == []
    assert "amount" in seen_results(model_of(it.runner.agent).requests[-1])[0]["error"]
    assert await it.waiting() == []


async def test_a_rejected_call_does_not_run_and_the_model_sees_why(world: World) -> None:
    it = desk(world, call("pay", amount=5), "Then not.")
    await it.say("Pay.")
    assert last_text(await it.answer((await it.only()).reject("too dear"))) == "Then not."
    assert world.ran == []
    (seen,) = seen_results(model_of(it.runner.agent).requests[-1])
    assert "rejected" in seen["error"]
    assert "too dear" in seen["error"]


async def test_a_rejection_with_other_arguments_stays_a_rejection(world: World) -> None:
    it = desk(world, call("pay", amount=5), "Then not.")
    await it.say("Pay.")
    part = (await it.only()).reject("no")
    assert part.function_response is not None
    part.function_response.response = {**(part.function_response.response or {}), "editedArgs": {"amount": 1}}
    await it.answer(part)
    assert world.ran == []
    assert "changed the arguments" not in seen_text(model_of(it.runner.agent).requests[-1])


async def test_three_at_once_are_decided_one_by_one(world: World) -> None:
    """Each answer runs its own call only; in any order; what was answered is asked no more."""
    it = desk(world, [call("pay", amount=n) for n in (1, 2, 3)], "So far.", "So far.", "All.")
    await it.say("Pay.")
    one, two, three = await it.waiting()
    await it.answer(two.approve())
    assert world.ran == ["pay 2 bob"]
    assert [each.id for each in await it.waiting()] == [one.id, three.id]
    await it.answer(three.reject("no"))
    assert [each.id for each in await it.waiting()] == [one.id]
    await it.answer(one.approve())
    assert world.ran == ["pay 2 bob", "pay 1 bob"]
    assert await it.waiting() == []
    request = model_of(it.runner.agent).requests[-1]
    first, second, third = seen_results(request)[:3]
    assert (first, second) == ({"paid": 1, "to": "bob"}, {"paid": 2, "to": "bob"})
    assert "rejected" in third["error"]


async def test_a_call_beside_those_that_wait_runs_at_once(world: World) -> None:
    it = desk(world, [call("pay", amount=1), call("look", what="x"), call("pay", amount=2)], "Seen.", "All.")
    await it.say("Go.")
    assert world.ran == ["look x"]
    one, two = await it.waiting()
    await it.answer(two.approve(), one.approve(edited_args={"amount": 7}))
    assert world.ran == ["look x", "pay 7 bob", "pay 2 bob"]


async def test_what_the_user_says_meanwhile_leaves_the_call_waiting(world: World) -> None:
    it = desk(world, call("pay", amount=1), "It waits for you.", "Paid.")
    await it.say("Pay.")
    pending = await it.only()
    assert last_text(await it.say("What are you waiting for?")) == "It waits for you."
    assert (await it.only()).id == pending.id
    await it.answer(pending.approve())
    assert world.ran == ["pay 1 bob"]


async def test_words_beside_an_answer_are_heard(world: World) -> None:
    it = desk(world, call("pay", amount=1), "Paid.")
    await it.say("Pay.")
    await it.answer((await it.only()).approve(), types.Part(text="And hurry."))
    assert world.ran == ["pay 1 bob"]
    assert "And hurry." in seen_text(model_of(it.runner.agent).requests[-1])


async def test_one_turn_after_the_other_may_ask(world: World) -> None:
    it = desk(world, call("pay", amount=1), call("pay", amount=2), call("pay", amount=3), "All.")
    await it.say("Pay.")
    for _ in range(2):
        await it.answer((await it.only()).approve())
    assert last_text(await it.answer((await it.only()).approve())) == "All."
    assert world.ran == ["pay 1 bob", "pay 2 bob", "pay 3 bob"]


async def test_an_answer_of_the_wrong_kind_is_refused_before_it_is_given(world: World) -> None:
    it = desk(world, call("pay", amount=1), "Paid.")
    await it.say("Pay.")
    with pytest.raises(InputValidationError, match="pay"):
        (await it.only()).reply("yes")


class GatedAgent(AgentTool):
    """An agent as a tool that a person has to let begin."""

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        if tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="May it begin?")
            return {"error": "It waits for a person's approval."}
        return await super().run_async(args=args, tool_context=tool_context)


@pytest.mark.parametrize("restarts", [False, True])
async def test_an_agent_that_was_let_begin_and_waits_keeps_its_caller_waiting(world: World, restarts: bool) -> None:
    """The placeholder of the first question is no result: the caller's model is asked when the agent has answered."""

    def root() -> Any:
        inner = by_turn("inner", call("pay", amount=5), "Inner done.", tools=[world.paying])
        return by_turn("root", call("inner", request="pay"), "All done.", tools=[GatedAgent(inner)])

    it = Desk(root)
    await it.say("Pay.")
    for name in ("inner", "pay"):
        if restarts:
            await it.restart()
        pending = await it.only(name)
        events = await it.answer(pending.approve())
        assert (last_text(events) == "All done.") is (name == "pay")
    assert world.ran == ["pay 5 bob"]
    assert await it.waiting() == []


@pytest.mark.parametrize("where", ["agent", "plugin", "branch"])
async def test_a_callback_that_answers_in_the_agents_place_is_asked_once(world: World, where: str) -> None:
    """Spec §17.3: the agent does not run; the decision stays for the next message."""
    closed = types.Content(role="model", parts=[types.Part(text="Closed.")])
    shut: list[types.Content] = []

    def guard(callback_context: CallbackContext) -> types.Content | None:
        return shut[0] if shut else None

    class Guard(BasePlugin):
        async def before_run_callback(self, *, invocation_context: InvocationContext) -> types.Content | None:
            return shut[0] if shut else None

    def payer(name: str, **fields: Any) -> LlmAgent:
        fields |= {"before_agent_callback": guard} if name == "root" and where != "plugin" else {}
        return by_turn(name, call("pay", amount=5), "Paid.", tools=[world.paying], **fields)

    def root() -> BaseAgent:
        if where == "branch":
            return ParallelAgent(name="both", sub_agents=[payer("root"), payer("other")])
        return payer("root")

    it = Desk(root, plugins=[Guard("guard")] if where == "plugin" else [])
    await it.say("Pay.")
    decisions = [each.approve() for each in await it.waiting()]
    shut.append(closed)
    events = await it.answer(*decisions)
    assert [each.text for each in events if each.text] == (["Closed.", "Paid."] if where == "branch" else ["Closed."])
    assert world.ran == ["pay 5 bob"] * (where == "branch")
    shut.clear()
    assert last_text(await it.answer(*decisions)) == "Paid."
    assert world.ran == ["pay 5 bob"] * len(decisions)
