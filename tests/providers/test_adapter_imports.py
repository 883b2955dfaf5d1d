"""When the libraries of providers are loaded: with the first adapter, and not with the first request."""

from __future__ import annotations

import ast
import asyncio
import gc
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from models.wire_server import WireServer
from providers.sdk_kit import answers, whole

import flowloom
from flowloom import OpenAIModel

PACKAGE = Path(flowloom.__file__).parent

PROGRAM = """
import asyncio, sys
from providers.sdk_kit import answers, frame, whole
from models.wire_server import WireServer, raw_stream
import flowloom

async def main(server):
    model = {model}
    before, tasks = set(sys.modules), asyncio.all_tasks()
    for stream in (False, True):
        try:
            await answers(model, stream=stream)
        except Exception as error:
            print(error)
    await model.aclose()
    print("LOADED", *sorted(set(sys.modules) - before))
    print("TASKS", len(asyncio.all_tasks() - tasks))

reply = whole({whole})
with WireServer(reply, raw_stream([frame(each) for each in {frames}])) as server:
    asyncio.run(main(server))
import threading
print("THREADS", threading.active_count())
"""
SETTINGS = "api_key='k', base_url=server.url, retry_options={'attempts': 1}"
CHAT = {"model": "m", "choices": [{"message": {"content": "ok"}, "delta": {"content": "ok"}, "finish_reason": "stop"}]}
ITEM = {"type": "message", "content": [{"type": "output_text", "text": "ok"}]}
RESPONSE = {"model": "m", "status": "completed", "output": [ITEM]}
MESSAGE = {
    "model": "m",
    "role": "assistant",
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 1},
}
EVENTS = [
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ok"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]
GEMINI = {"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}
WHOLE = {**MESSAGE, "content": [{"type": "text", "text": "ok"}]}
ADAPTERS = {
    "Gemini": (f"flowloom.Gemini({SETTINGS})", GEMINI, [GEMINI]),
    "chat": (f"flowloom.OpenAIModel({SETTINGS})", CHAT, [CHAT]),
    "Responses": (
        f"flowloom.OpenAIModel({SETTINGS}, api='responses')",
        RESPONSE,
        [{"type": "response.completed", "response": RESPONSE}],
    ),
    "Anthropic": (
        f"flowloom.AnthropicModel({SETTINGS})",
        {**MESSAGE, "content": [{"type": "text", "text": "ok"}]},
        EVENTS,
    ),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name == "Responses" else name for name in ADAPTERS]
)
def test_the_first_request_loads_nothing_and_leaves_nothing(name: str) -> None:
    """No module, task or thread comes with a request."""
    model, whole, frames = ADAPTERS[name]
    program = PROGRAM.format(model=model, whole=whole, frames=frames)
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1]
    )
    assert run.stdout.splitlines() == ["LOADED", "TASKS 0", "THREADS 1"], run.stderr


def test_the_package_loads_no_sdk() -> None:
    program = "import flowloom, sys; flowloom.LLMRegistry; flowloom.LlmAgent; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"openai", "anthropic"} & set(run.stdout.split())


def test_the_adapters_use_what_the_sdks_document() -> None:
    """No private module or name of theirs, no header that is their own affair, no `cast_to`."""
    adapters = [path for path in PACKAGE.rglob("*.py") if re.match("openai|anthropic|sdk", path.name)]
    assert len(adapters) > 8
    found = [f"{path.name}: {name}" for path in adapters for name in _private_names(ast.parse(path.read_text()))]
    assert found == []


def _private_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = f"{getattr(node, 'module', None) or ''}."
            names = [f"{module}{alias.name}".lstrip(".") for alias in node.names]
            yield from (name for name in names if re.match(r"(openai|anthropic)\b.*\._", name))
        elif isinstance(node, ast.Attribute) and node.attr.startswith("_") and "client" in ast.unparse(node.value):
            yield from () if ast.unparse(node.value) == "self" else (ast.unparse(node),)
        elif isinstance(node, ast.keyword) and node.arg == "cast_to":
            yield "cast_to"
        elif isinstance(node, ast.Constant) and "x-stainless" in str(node.value).lower():
            yield str(node.value)


async def test_a_model_that_is_let_go_closes_its_connections() -> None:
    """Whoever makes a model for one call, and forgets it, leaves nothing open."""
    with WireServer(whole(CHAT)) as server, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        model = OpenAIModel(model="m", base_url=server.url)
        await answers(model)
        del model
        gc.collect()
        await asyncio.sleep(0)
    assert [str(each.message) for each in warned] == []
