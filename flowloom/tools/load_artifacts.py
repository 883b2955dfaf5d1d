"""`load_artifacts`: files that the model asks for (spec §20.1)."""

from __future__ import annotations

from typing import Any

from google.genai import types

from flowloom.context import Context
from flowloom.events.parts import content_of, text_part
from flowloom.models.contents import SharedContents
from flowloom.models.request import LlmRequest
from flowloom.tools.base_tool import BaseTool


class LoadArtifactsTool(BaseTool):
    """Tells the model which files there are, and shows it those that it asks for, in the next request only."""

    def __init__(self) -> None:
        super().__init__(
            name="load_artifacts",
            description="Load files of this conversation by name, so that you can read them in the next step.",
        )

    def _get_declaration(self) -> types.FunctionDeclaration:
        names = types.Schema(type=types.Type.ARRAY, items=types.Schema(type=types.Type.STRING))
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters=types.Schema(type=types.Type.OBJECT, properties={"artifact_names": names}),
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Which of the names exist. The files themselves are put into the next request."""
        wanted: list[str] = args.get("artifact_names") or []
        there = set(await tool_context.list_artifacts())
        result: dict[str, Any] = {"artifact_names": [name for name in wanted if name in there]}
        missing = [name for name in wanted if name not in there]
        if missing:
            result["missing"] = missing
        return result

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        llm_request.append_tools([self])
        names = await tool_context.list_artifacts()
        if not names:
            return
        listed = ", ".join(f"`{name}`" for name in names)
        llm_request.append_instructions(
            [f"Files in this conversation: {listed}. Call `{self.name}` before you say what is in them."]
        )
        for name in _asked_for(llm_request, self.name):
            part = await tool_context.load_artifact(name)
            if part is not None:
                llm_request.contents.append(content_of("user", [text_part(f"The file `{name}`:"), part]))


def _asked_for(request: LlmRequest, tool: str) -> list[str]:
    """The names in the results of this tool, if they are the latest content."""
    contents = request.contents
    plain = contents.plain() if isinstance(contents, SharedContents) else contents
    if not plain:
        return []
    names: list[str] = []
    for part in plain[-1].parts or ():
        answer = part.function_response
        if answer is not None and answer.name == tool:
            names.extend((answer.response or {}).get("artifact_names") or [])
    return names


load_artifacts = LoadArtifactsTool()
