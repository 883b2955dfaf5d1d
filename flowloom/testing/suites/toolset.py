"""`ToolsetSuite`: what every toolset promises."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, ClassVar, cast

import pytest
from google.genai import types
from pydantic_core import PydanticSerializationError, to_json

from flowloom.agents import LlmAgent
from flowloom.context import Context, InvocationContext, ReadonlyContext
from flowloom.flow import Flow
from flowloom.models import LlmRequest
from flowloom.processors import Contents, basic, tool_declarations, tools
from flowloom.sessions import Session
from flowloom.testing.scripted import ScriptedModel
from flowloom.testing.suites.loop import Suite, in_loop
from flowloom.tools import BaseTool, BaseToolset
from flowloom.tools.calls import run_calls

_LEGAL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""The names that all providers accept."""


class ToolsetSuite(Suite):
    """The rules of toolsets. Subclass it in a test module, and make your toolset:

    ```python
    from flowloom.testing.suites import ToolsetSuite


    class TestMyToolset(ToolsetSuite):
        sample_calls = {"search": [{"query": "tea"}]}

        def make_toolset(self) -> MyToolset:
            return MyToolset("http://127.0.0.1:8000")
    ```

    The tools in `sample_calls` are really called with the arguments given, and every tool that has to have an
    argument is called without any, which it must refuse. `state` is what the session's state holds meanwhile.
    """

    sample_calls: ClassVar[Mapping[str, Sequence[Mapping[str, Any]]]] = {}
    """Arguments that tools are to be called with, by the name that the tool is listed under."""
    state: ClassVar[Mapping[str, Any]] = {}
    """The state of the session in which the tools are listed and called."""

    def make_toolset(self) -> BaseToolset | Awaitable[BaseToolset]:
        """The toolset to be checked, made anew for each test."""
        raise NotImplementedError(f"{type(self).__name__} has to define `make_toolset(self)`.")

    # -- the list ----------------------------------------------------------------------------------

    @in_loop
    async def test_the_list_is_stable(self) -> None:
        """Listed again, at once or by a second set, the tools have the same names in the same order."""
        toolset = await self._toolset()
        first = await self._names(toolset)
        again = await self._names(toolset)
        assert first == again, f"Listed twice, the tools are {first}, then {again}."
        for at_once in await asyncio.gather(*(self._names(toolset) for _ in range(3))):
            assert at_once == first, f"Listed by several tasks at once, the tools are {at_once}, not {first}."
        second = await self._names(await self._toolset())
        assert second == first, f"A second set lists the tools {second}, the first {first}."

    @in_loop
    async def test_names_are_legal_and_different(self) -> None:
        """Tools have names that every provider accepts, no two the same."""
        names = await self._names(await self._toolset())
        illegal = [name for name in names if not _LEGAL_NAME.fullmatch(name)]
        assert not illegal, (
            f"Tools are named {illegal}. A name has letters, digits, `_` and `-`, 64 at most, and no digit first."
        )
        twice = sorted({name for name in names if names.count(name) > 1})
        assert not twice, f"Two tools are named {twice}."

    @in_loop
    async def test_tools_are_declared_as_they_are_named(self) -> None:
        """A tool that is declared has its own name in the declaration, and a description that is not empty."""
        for tool in await self._tools(await self._toolset()):
            declared = tool.__declare__()
            if declared is None:
                continue
            assert declared.name == tool.name, f"Tool `{tool.name}` is declared as `{declared.name}`."
            said = (declared.description or "").strip()
            assert said, f"Tool `{tool.name}` is declared without a description; the model cannot know what it is for."

    @in_loop
    async def test_declarations_are_json_objects(self) -> None:
        """A declaration is JSON; its parameters are an object, and what is required is among its properties."""
        for tool in await self._tools(await self._toolset()):
            declared = tool.__declare__()
            if declared is None:
                continue
            try:
                _bytes_of(declared)
            except (TypeError, ValueError) as error:
                raise AssertionError(f"The declaration of tool `{tool.name}` is not JSON: {error}") from None
            kind, properties, required = _parameters(declared)
            assert kind == "object", f"The parameters of tool `{tool.name}` are of type {kind!r}, no object."
            unknown = sorted(required - properties.keys())
            assert not unknown, f"Tool `{tool.name}` requires {unknown}, which are none of its parameters."

    @in_loop
    async def test_declarations_are_stable_byte_for_byte(self) -> None:
        """Listed again, or by a second set, tools are declared by the same bytes: providers cache by them."""
        toolset = await self._toolset()
        first = await self._declared(toolset)
        for which, other in (("again", toolset), ("by a second set", await self._toolset())):
            for name, declared in (await self._declared(other)).items():
                assert declared == first.get(name), (
                    f"Listed {which}, tool `{name}` is declared as {declared!r}, before as {first.get(name)!r}."
                )

    @in_loop
    async def test_a_prefix_is_put_before_the_names(self) -> None:
        """With `tool_name_prefix`, names and declarations begin with it and an underscore; nothing else changes."""
        toolset = await self._toolset()
        toolset.tool_name_prefix = None
        plain = await self._names(toolset)
        toolset.tool_name_prefix = "pre"
        tools = await self._tools(toolset)
        expected, found = [f"pre_{name}" for name in plain], [tool.name for tool in tools]
        assert found == expected, f"With the prefix `pre`, the tools are {found}, not {expected}."
        declared = [made.name for tool in tools if (made := tool.__declare__()) is not None]
        assert set(declared) <= set(expected), f"With the prefix `pre`, the tools are declared as {declared}."
        toolset.tool_name_prefix = None
        again = await self._names(toolset)
        assert again == plain, f"Once the prefix is taken off, the tools are {again}: it changed the tools themselves."

    @in_loop
    async def test_a_filter_keeps_what_it_names(self) -> None:
        """With `tool_filter`, only the tools of those names, or those that the predicate accepts, are listed."""
        toolset = await self._toolset()
        toolset.tool_name_prefix = toolset.tool_filter = None
        last = (await self._names(toolset))[-1:]
        toolset.tool_filter = last
        found = await self._names(toolset)
        assert found == last, f"With `tool_filter={last}`, the tools are {found}."

        def accept(tool: BaseTool, context: ReadonlyContext | None) -> bool:
            return tool.name in last

        toolset.tool_filter = accept
        found = await self._names(toolset)
        assert found == last, f"With a predicate that accepts {last}, the tools are {found}."
        toolset.tool_filter = []
        found = await self._names(toolset)
        assert found == [], f"With `tool_filter=[]`, the tools are {found}."

    # -- the request -------------------------------------------------------------------------------

    @in_loop
    async def test_a_request_has_the_tools(self) -> None:
        """In a real run, every tool that is declared is in the request, in the order of the list, and can be found."""
        toolset = await self._toolset()
        listed = [tool for tool in await self._tools(toolset) if tool.__declare__() is not None]
        names = [tool.name for tool in listed]
        request = await self._request(toolset)
        declared = [each.name for each in declared_in(request)]
        mine = [name for name in declared if name in names]
        assert mine == names, f"The tools {names} are declared in a request as {declared}."
        lost = [name for name in names if name not in request.tools_dict]
        assert not lost, f"Tools are declared in a request, but not in its `tools_dict`: {lost}."

    @in_loop
    async def test_a_request_is_the_same_each_time(self) -> None:
        """Two runs with the same input declare the same tools by the same bytes, and say the same of them."""
        toolset = await self._toolset()
        first, second = [_bytes_of((await self._request(toolset)).config) for _ in range(2)]
        assert first == second, f"Two requests differ: {first!r} and then {second!r}."

    # -- the calls ---------------------------------------------------------------------------------

    @in_loop
    async def test_sample_calls_give_json(self) -> None:
        """A tool that is called as in `sample_calls` gives a result that is JSON, and does not fail."""
        if not self.sample_calls:
            pytest.skip("`sample_calls` is empty")
        found = {tool.name: tool for tool in await self._tools(await self._toolset())}
        ctx = self._context()
        for name, calls in self.sample_calls.items():
            assert name in found, f"`sample_calls` names tool `{name}`, but the set lists {sorted(found)}."
            for args in calls:
                context = Context(ctx, function_call_id="call-1")
                try:
                    result = await found[name].run_async(args=dict(args), tool_context=context)
                except Exception as error:
                    raise AssertionError(f"Tool `{name}` failed when called with {dict(args)!r}: {error!r}") from error
                try:
                    to_json(result)
                except PydanticSerializationError as error:
                    raise AssertionError(f"The result of tool `{name}` is not JSON: {error}") from None
        await ctx.run.threads.close()

    @in_loop
    async def test_a_call_without_its_arguments_is_an_error_that_the_model_sees(self) -> None:
        """A tool called without an argument that it requires answers with an error; the run goes on."""
        found = {tool.name: tool for tool in await self._tools(await self._toolset())}
        ctx = self._context()
        for name, tool in found.items():
            declared = tool.__declare__()
            required = _parameters(declared)[2] if declared is not None else set[str]()
            if not required:
                continue
            call = types.FunctionCall(id="call-1", name=name, args={})
            try:
                event = (await run_calls(ctx, [call], found)).event
            except BaseException as error:
                raise AssertionError(
                    f"Tool `{name}`, called without {sorted(required)}, ended the run: {error!r}"
                ) from error
            answers = event.get_function_responses() if event is not None else []
            answer = (answers[0].response if answers else None) or {}
            assert answer.get("error") or answer.get("isError"), (
                f"Tool `{name}`, called without {sorted(required)}, answered {answer!r}. The model has to see an error."
            )
        await ctx.run.threads.close()

    # -- the end -----------------------------------------------------------------------------------

    @in_loop
    async def test_closing_is_idempotent(self) -> None:
        """`close()` may be called again, and before the tools were ever listed."""
        unused, used = await self._toolset(), await self._toolset()
        await self._names(used)
        for toolset in (unused, used):
            for time in ("first", "second"):
                try:
                    await toolset.close()
                except Exception as error:
                    raise AssertionError(f"`close()` raised {error!r} the {time} time.") from error

    # -- asking ------------------------------------------------------------------------------------

    async def _toolset(self) -> BaseToolset:
        return await self.opened(self.make_toolset())

    def _context(self, toolset: BaseToolset | None = None) -> InvocationContext:
        agent = LlmAgent(name="suite_agent", model=ScriptedModel(["done"]), tools=[toolset] if toolset else [])
        session = Session(id="s1", app_name="suite", user_id="ann", state=dict(self.state))
        message = types.Content(role="user", parts=[types.Part(text="go")])
        return InvocationContext(agent=agent, session=session, user_content=message)

    async def _tools(self, toolset: BaseToolset) -> list[BaseTool]:
        return await toolset.get_tools_with_prefix(ReadonlyContext(self._context()))

    async def _names(self, toolset: BaseToolset) -> list[str]:
        return [tool.name for tool in await self._tools(toolset)]

    async def _declared(self, toolset: BaseToolset) -> dict[str, bytes]:
        tools = await self._tools(toolset)
        return {tool.name: _bytes_of(made) for tool in tools if (made := tool.__declare__()) is not None}

    async def _request(self, toolset: BaseToolset) -> LlmRequest:
        """What a model is asked in a run of an agent that has the set."""
        ctx = self._context(toolset)
        await ctx.start()
        flow = Flow([basic, tools, Contents(), tool_declarations], [])
        async for _ in flow.run_one_step(ctx):
            pass
        [request] = cast(ScriptedModel, cast(LlmAgent, ctx.agent).model).requests
        return request


def _bytes_of(model: types.FunctionDeclaration | types.GenerateContentConfig) -> bytes:
    """The JSON form. Raises `ValueError` for what JSON cannot hold."""
    return json.dumps(model.model_dump(mode="json", exclude_none=True)).encode()


def _parameters(declared: types.FunctionDeclaration) -> tuple[str, dict[str, Any], set[str]]:
    """Of the parameters in either of their two forms: the type, the properties, the names of those required."""
    schema: Any = declared.parameters_json_schema
    if schema is None and declared.parameters is not None:
        schema = declared.parameters.model_dump(mode="json", exclude_none=True)
    if not isinstance(schema, dict):
        return "object", {}, set()
    fields = cast(dict[str, Any], schema)
    return str(fields.get("type", "object")).lower(), fields.get("properties") or {}, set(fields.get("required") or ())


def declared_in(request: LlmRequest) -> list[types.FunctionDeclaration]:
    """The functions that a request tells a model of, in order."""
    groups: list[Any] = list(request.config.tools or ())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    return [
        declared for group in groups if isinstance(group, types.Tool) for declared in group.function_declarations or ()
    ]
