"""The instructions processor: what the agent is told to do (spec §8.2 to §8.6)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext, ReadonlyContext
from flowloom.context.protocols import AnyLlmAgent, as_llm_agent
from flowloom.errors import ConfigurationError
from flowloom.events.parts import content_like, parts_of
from flowloom.events.wire import fields_of
from flowloom.models.request import LlmRequest
from flowloom.processors.template import BraceTemplate, Template


def instructions(ctx: InvocationContext, request: LlmRequest) -> Awaitable[None] | None:
    """The global instruction (the root agent's), the static one, and the agent's own.

    Reads: instructions of the agent and of the root; state and artifacts, for templates.
    Writes: `config.system_instruction`; with a static instruction, `dynamic_instructions`.
    Must come after: basic (which replaces the config), confirmation (whose tools may write state).
    """
    agent = ctx.llm_agent
    if agent is None:
        return None
    root, own = as_llm_agent(ctx.root) or agent, agent.instruction
    if type(own) is str and "{" not in own and not root.global_instruction and not agent.static_instruction:
        return request.append_instructions(own)  # most agents have just that
    texts: list[str] = []
    slow: list[tuple[int, Awaitable[str], str]] = []
    for source, owner, kind in ((root.global_instruction, root, "global "), (agent.instruction, agent, "")):
        try:
            text = _resolve(ctx, source, owner, kind)
        except Exception as error:
            _explain(error, ctx, kind)
            raise
        if isinstance(text, str):
            texts.append(text)
        else:
            slow.append((len(texts), text, kind))
            texts.append("")
    if slow:
        return _finish(ctx, agent, request, texts, slow)
    _write(agent, request, *texts)
    return None


async def _finish(
    ctx: InvocationContext,
    agent: AnyLlmAgent,
    request: LlmRequest,
    texts: list[str],
    slow: list[tuple[int, Awaitable[str], str]],
) -> None:
    for index, text, kind in slow:
        try:
            texts[index] = str(await text or "")
        except Exception as error:
            _explain(error, ctx, kind)
            raise
    _write(agent, request, *texts)


def _write(agent: AnyLlmAgent, request: LlmRequest, everywhere: str, own: str) -> None:
    static = agent.static_instruction
    if not static:
        request.append_instructions((everywhere, own))
        return
    request.append_instructions(everywhere)
    if isinstance(static, str):
        request.append_instructions(static)
    else:
        try:
            content = content_like(static)
        except ValueError as error:
            raise ConfigurationError(
                f"The `static_instruction` of agent `{agent.name}` is a {type(static).__name__}. Give a text or a "
                f"Content."
            ) from error
        _append_content(request, content)
    if own:
        request.dynamic_instructions.append(own)


def _append_content(request: LlmRequest, content: types.Content) -> None:
    parts = parts_of(content)
    if all(part.text is not None for part in parts):
        request.append_instructions(content)
        return
    before: Any = fields_of(request.config)["system_instruction"]
    lead = parts_of(before) if isinstance(before, types.Content) else [types.Part(text=before)] if before else []
    request.config.system_instruction = types.Content(role=content.role, parts=[*lead, *parts])


def _resolve(ctx: InvocationContext, source: Any, owner: AnyLlmAgent, kind: str) -> str | Awaitable[str]:
    if isinstance(source, str):
        return owner.derive(f"{kind}instruction", BraceTemplate, source).render(ctx, owner.on_missing)
    if isinstance(source, Template):
        return source.render(ctx, owner.on_missing)
    return _provided(source, ctx)


def _provided(provider: Callable[[ReadonlyContext], Any], ctx: InvocationContext) -> str | Awaitable[str]:
    """What a provider says, verbatim (spec §8.3)."""
    answer = provider(ReadonlyContext(ctx))
    return answer if isawaitable(answer) else str(answer or "")


def _explain(error: Exception, ctx: InvocationContext, kind: str) -> None:
    error.add_note(f"while resolving the {kind}instruction of agent `{ctx.agent.name}`")
