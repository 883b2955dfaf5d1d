"""`McpInstructionProvider`: an agent's instruction from a server's prompt (protocols spec §1, Prompts)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from flowloom.context import ReadonlyContext
from flowloom.errors import MissingVariableError, TemplateError, ToolError, closest_first, quoted_list
from flowloom.protocols.mcp.toolset import McpToolset

_log = logging.getLogger("flowloom.mcp")


class McpInstructionProvider:
    """Gives an `LlmAgent(instruction=...)` the words of a server's prompt.

    Its arguments are read from the session's state, by their names. `connection_params` says where the server is, as
    for `McpToolset`; or it is such a toolset, whose connections are used then. Without one a connection is made for
    each run, and closed. `prompt_name` is the prompt's.
    """

    def __init__(self, connection_params: Any, prompt_name: str) -> None:
        given = connection_params
        self._shared = isinstance(given, McpToolset)
        self._toolset: McpToolset = given if isinstance(given, McpToolset) else McpToolset(connection_params=given)
        self.prompt_name = prompt_name

    async def __call__(self, context: ReadonlyContext) -> str:
        """The instruction for the run of `context`.

        Raises `TemplateError` for a prompt that is not there, `MissingVariableError` for a required argument that the
        state does not have, `ToolsetError` if the server cannot be reached.
        """
        try:
            return await self._words(await self._toolset.headers(context), context.state)
        except ToolError as error:
            raise self._toolset.unavailable(error) from error
        finally:
            if not self._shared:
                await self._toolset.close()

    async def _words(self, headers: Mapping[str, str], state: Any) -> str:
        toolset, mcp = self._toolset, _types()
        prompts, _ = await toolset.pool.reading(headers, lambda made: made.listed("prompts"))
        prompt = next((each for each in prompts if each.name == self.prompt_name), None)
        if prompt is None:
            names = closest_first(self.prompt_name, [each.name for each in prompts])
            raise TemplateError(f"{toolset.address} has no prompt `{self.prompt_name}`. It has: {quoted_list(names)}.")
        arguments: dict[str, str] = {}
        for each in prompt.arguments or ():
            if each.name in state and state[each.name] is not None:
                arguments[each.name] = str(state[each.name])
            elif each.required:
                raise MissingVariableError(
                    f"The prompt `{self.prompt_name}` of {toolset.address} needs `{each.name}`, which the state does "
                    f"not have.",
                    variable=each.name,
                )
        asked = mcp.GetPromptRequest(params=mcp.GetPromptRequestParams(name=self.prompt_name, arguments=arguments))
        timeout = toolset.connection_params.timeout
        answer: Any = await toolset.pool.reading(
            headers, lambda made: made.request(asked, mcp.GetPromptResult, timeout=timeout)
        )
        words_of = import_module("flowloom.protocols.mcp.content").words_of
        told: list[str] = []
        for each in answer.messages:
            words = words_of(each.content)
            if words:
                told.append(words)
            elif words is None:
                _log.warning(
                    "The prompt `%s` of %s has a file, which is no part of an instruction: it is left out.",
                    self.prompt_name,
                    toolset.address,
                )
        return "\n\n".join(told)


def _types() -> Any:
    return import_module("mcp_types")
