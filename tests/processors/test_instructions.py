"""Whose words make the system instruction, and in which order (cases area 13)."""

from __future__ import annotations

from inspect import isawaitable
from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, context, requests_of, shown, system_text

from flowloom import (
    BaseAgent,
    ConfigurationError,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    ReadonlyContext,
    SequentialAgent,
    Template,
)
from flowloom.processors import inject_session_state as inject
from flowloom.processors import instructions


async def instructed(ctx: InvocationContext) -> str:
    request = LlmRequest()
    made = instructions(ctx, request)
    if isawaitable(made):
        await made
    return system_text(request)


async def test_an_agent_that_is_no_llm_agent_gets_no_instruction() -> None:
    assert await instructed(context(BaseAgent(name="plain"))) == ""


async def test_an_empty_instruction_leaves_no_trace() -> None:
    assert await instructed(context(LlmAgent(name="a", instruction=""))) == ""


async def test_an_instruction_is_filled_from_the_state() -> None:
    """Provider | instruction template | evaluated from state."""
    helper = LlmAgent(name="a", instruction="Help {name}.")
    assert await instructed(context(helper, state={"name": "Ann"})) == "Help Ann."


async def test_the_same_agent_is_instructed_by_each_sessions_own_state() -> None:
    helper = LlmAgent(name="a", instruction="Help {name}.")
    told = [await instructed(context(helper, state={"name": name})) for name in ("Ann", "Bob")]
    assert told == ["Help Ann.", "Help Bob."]


def from_state(readonly: ReadonlyContext) -> str:
    return f"Help {readonly.state['name']} with {{braces}} and {{name}}."


async def async_from_state(readonly: ReadonlyContext) -> str:
    return from_state(readonly)


@pytest.mark.parametrize("provider", [from_state, async_from_state])
async def test_what_a_provider_says_is_taken_verbatim(provider: Any) -> None:
    """Provider + string | provider only, braces untouched."""
    helper = LlmAgent(name="a", instruction=provider)
    told = await instructed(context(helper, state={"name": "Ann"}))
    assert told == "Help Ann with {braces} and {name}."


async def test_a_provider_may_only_read_the_state() -> None:
    def writing(readonly: ReadonlyContext) -> str:
        readonly.state["name"] = "Eve"  # type: ignore[index]
        return ""

    with pytest.raises(TypeError):
        await instructed(context(LlmAgent(name="a", instruction=writing), state={"name": "Ann"}))


async def test_a_provider_can_fill_the_brace_dialect_itself() -> None:
    async def provider(readonly: ReadonlyContext) -> str:
        return await inject("Help {name}.", readonly)

    helper = LlmAgent(name="a", instruction=provider)
    assert await instructed(context(helper, state={"name": "Ann"})) == "Help Ann."


async def test_a_global_provider_is_taken_verbatim() -> None:
    """Global | global provider + global string | provider only."""
    root = LlmAgent(name="a", global_instruction=from_state)
    assert await instructed(context(root, state={"name": "Ann"})) == "Help Ann with {braces} and {name}."


async def test_the_global_instruction_stands_before_the_agents_own() -> None:
    """Global + own | both providers | both, global first."""
    root = LlmAgent(name="a", global_instruction=lambda _: "Be kind.", instruction=lambda _: "Sum up.")
    assert await instructed(context(root)) == "Be kind.\n\nSum up."


async def test_the_order_holds_when_only_the_global_provider_is_slow() -> None:
    async def slow(readonly: ReadonlyContext) -> str:
        return "Be kind."

    root = LlmAgent(name="a", global_instruction=slow, instruction="Sum up.")
    assert await instructed(context(root)) == "Be kind.\n\nSum up."


async def test_a_sub_agent_gets_the_global_instruction_of_the_root_and_not_its_own() -> None:
    child = LlmAgent(name="child", global_instruction="Never seen.", instruction="Sum up.")
    LlmAgent(name="root", global_instruction="Be kind.", sub_agents=[child])
    assert await instructed(context(child)) == "Be kind.\n\nSum up."


async def test_below_a_root_that_is_no_llm_agent_the_agents_own_global_instruction_counts() -> None:
    child = LlmAgent(name="child", global_instruction="Be kind.", instruction="Sum up.")
    SequentialAgent(name="root", sub_agents=[child])
    assert await instructed(context(child)) == "Be kind.\n\nSum up."


async def test_the_global_instruction_is_filled_from_the_state() -> None:
    root = LlmAgent(name="a", global_instruction="For {name}.", instruction=Template("Sum up {{ state.n }}."))
    assert await instructed(context(root, state={"name": "Ann", "n": 3})) == "For Ann.\n\nSum up 3."


def broken(readonly: ReadonlyContext) -> str:
    raise LookupError("no prompt in the database")


async def broken_later(readonly: ReadonlyContext) -> str:
    return broken(readonly)


@pytest.mark.parametrize("broken", [broken, broken_later])
@pytest.mark.parametrize(("field", "word"), [("instruction", "instruction"), ("global_instruction", "global")])
async def test_an_error_tells_which_instruction_failed(field: str, word: str, broken: Any) -> None:
    """However late it fails."""
    with pytest.raises(LookupError) as caught:
        await instructed(context(LlmAgent(name="planner", **{field: broken})))
    notes = " ".join(caught.value.__notes__)
    assert word in notes
    assert "planner" in notes


async def test_a_run_sees_state_that_a_callback_before_it_wrote() -> None:
    def note(callback_context: Any) -> None:
        callback_context.state["name"] = "Ann"

    root = agent("root", "hello", instruction="Help {name}.", before_agent_callback=note)
    await Chat(root).say("hi")
    assert "Help Ann." in system_text(requests_of(root)[0])


async def test_a_static_instruction_is_the_systems_and_the_changing_one_stands_before_the_latest_input() -> None:
    """What providers can cache does not change from turn to turn."""
    root = agent("root", "one", "two", static_instruction="Rules.", instruction="Turn {n?}.")
    chat = Chat(root)
    await chat.say("first", state_delta={"n": 1})
    await chat.say("second", state_delta={"n": 2})
    first, second = requests_of(root)
    assert system_text(first) == system_text(second)
    assert system_text(first).startswith("Rules.")
    assert shown(second) == ["user: first", "model: one", "user: Turn 2.", "user: second"]


@pytest.mark.parametrize("wrong", [types.Part(text="Rules."), types.File(uri="gs://rules"), 3])
async def test_a_static_instruction_of_another_kind_is_refused(wrong: Any) -> None:
    """It is never left out."""
    with pytest.raises(ConfigurationError, match=rf"`root` is a {type(wrong).__name__}\. Give a text or a Content"):
        await Chat(agent("root", "one", static_instruction=wrong)).say("go")


async def test_a_static_instruction_may_hold_files() -> None:
    data = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
    static = types.Content(role="user", parts=[types.Part(text="Rules."), data])
    root = agent("root", "one", static_instruction=static)
    await Chat(root).say("hi")
    given: Any = requests_of(root)[0].config.system_instruction
    assert [bool(part.inline_data) for part in given.parts][:2] == [False, True]


async def test_state_that_the_user_controls_is_never_rendered_again() -> None:
    helper = LlmAgent(name="a", instruction="Say {word}.")
    told = await instructed(context(helper, state={"word": "{secret} {{ 7*7 }}", "secret": "s"}))
    assert told == "Say {secret} {{ 7*7 }}."


async def slow(readonly: ReadonlyContext) -> str:
    return "Slow."


@pytest.mark.parametrize("own", ["Own.", slow])
@pytest.mark.parametrize("everywhere", ["All.", slow, ""])
async def test_beside_a_static_instruction_the_global_one_is_the_systems_and_the_agents_own_is_not(
    everywhere: Any, own: Any
) -> None:
    """However long they take; the global one is the root's."""
    helper = LlmAgent(name="helper", static_instruction="Rules.", instruction=own, global_instruction="never mine")
    root = LlmAgent(name="root", global_instruction=everywhere, sub_agents=[helper])
    request, texts = LlmRequest(), {"All.": "All.", "Own.": "Own.", slow: "Slow.", "": ""}
    made = instructions(context(helper), request)
    if made is not None:
        await made
    assert root.sub_agents == [helper]
    assert system_text(request).split() == [*texts[everywhere].split(), "Rules."]
    assert request.dynamic_instructions == [texts[own]]


async def test_a_static_instruction_with_files_stands_behind_the_global_one() -> None:
    """As parts of one content."""
    data = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
    static = types.Content(role="user", parts=[types.Part(text="Rules."), data])
    for everywhere, texts in (("All.", ["All.", "Rules.", None]), ("", ["Rules.", None])):
        request = LlmRequest()
        instructions(context(LlmAgent(name="a", global_instruction=everywhere, static_instruction=static)), request)
        given: Any = request.config.system_instruction
        assert [part.text for part in given.parts] == texts
        assert given.role == "user"


async def test_a_static_instruction_with_files_stands_behind_what_is_there() -> None:
    """Whatever another processor has written before."""
    data = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
    request = LlmRequest()
    request.config.system_instruction = types.Content(parts=[types.Part(text="First."), data])
    instructions(context(LlmAgent(name="a", static_instruction=types.Content(parts=[data]))), request)
    given: Any = request.config.system_instruction
    assert [part.text for part in given.parts] == ["First.", None, None]


async def test_beside_a_static_instruction_an_empty_one_leaves_no_trace() -> None:
    """Not even that of a provider."""
    request = LlmRequest()
    instructions(context(LlmAgent(name="a", static_instruction="Rules.", instruction=lambda _: "")), request)
    assert request.dynamic_instructions == []


async def test_a_static_instruction_without_parts_leaves_no_trace() -> None:
    assert await instructed(context(LlmAgent(name="a", static_instruction=types.Content(role="user")))) == ""


async def test_a_static_instruction_of_texts_is_text() -> None:
    """However many parts they are."""
    static = types.Content(role="user", parts=[types.Part(text="Be kind."), types.Part(text="Be brief.")])
    assert await instructed(context(LlmAgent(name="a", static_instruction=static))) == "Be kind.\n\nBe brief."


@pytest.mark.parametrize(("given", "said"), [(None, ""), ("", ""), (3, "3")])
async def test_what_a_provider_gives_is_taken_as_text(given: Any, said: str) -> None:
    """None is nothing; at once or later."""

    async def later(readonly: ReadonlyContext) -> Any:
        return given

    for provider in (lambda _: given, later):
        assert await instructed(context(LlmAgent(name="a", instruction=provider))) == said
