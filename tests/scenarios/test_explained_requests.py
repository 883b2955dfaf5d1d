"""What `explain` shows is what a model gets: for twenty trees of agents, and for the examples."""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from hierarchies import HIERARCHIES
from kit import collect
from models.gemini_wire import text, whole
from models.wire_server import WireServer

from flowloom import BaseAgent, BaseLlm, Gemini, InMemoryRunner, LlmRequest, Session, explain
from flowloom.cli.loading import load_app
from flowloom.inspection import RequestView
from flowloom.plugins import ModelOverride
from flowloom.testing import FunctionModel, frozen

EXAMPLES = Path(__file__).parents[2] / "examples"


class First(BaseException):
    """Ends a run after its first model call."""


def asked(requests: list[LlmRequest]) -> BaseLlm:
    """A model that keeps the first request, and lets nothing more happen."""

    def answer(request: LlmRequest) -> Any:
        requests.append(request)
        raise First

    return FunctionModel(answer)


async def first_request(root: BaseAgent, message: Any, session: Session, **options: Any) -> None:
    """Run until the first model was asked."""
    runner = InMemoryRunner(root.root_agent, app_name=session.app_name, **options)
    runner.session_service.adopt(session)
    run = runner.run_async(user_id=session.user_id, session_id=session.id, new_message=message)
    with pytest.raises(First):
        await collect(run)


def raw(request: LlmRequest) -> str:
    """Everything in a request that can be written down, nothing shortened."""
    return request.model_copy(update={"contents": list(request.contents)}).model_dump_json(fallback=repr)


@pytest.mark.parametrize("name", HIERARCHIES)
async def test_what_explain_shows_is_what_the_model_gets(name: str) -> None:
    """Byte for byte, over twenty trees."""
    case = HIERARCHIES[name]
    session = Session(id="s1", app_name="app", user_id="ann", state=case.state, events=case.history())
    requests: list[LlmRequest] = []
    with frozen():
        await first_request(case.build(asked(requests)), case.message, session.model_copy(deep=True))
    with frozen():
        assembly = await explain(case.build(asked([])), case.message, session=session)
    assert assembly.reaches_model
    assert raw(assembly.request) == raw(requests[0])
    assert assembly.to_dict()["request"] == RequestView(requests[0]).data


@pytest.mark.parametrize("example", sorted(path.parent.name for path in EXAMPLES.glob("*/agent.py")))
async def test_what_explain_shows_of_an_example_is_what_the_model_gets(example: str) -> None:
    root = load_app(EXAMPLES / example).agent
    requests: list[LlmRequest] = []
    plugins = [ModelOverride(asked(requests))]
    session = Session(id="s1", app_name="app", user_id="ann")
    with frozen():
        await first_request(root, "Hello.", session.model_copy(deep=True), plugins=plugins)
    with frozen():
        assembly = await explain(root, "Hello.", session=session, plugins=plugins)
    assert raw(assembly.request) == raw(requests[0])


@pytest.mark.parametrize("name", HIERARCHIES)
async def test_what_goes_over_the_wire_is_what_explain_shows(name: str) -> None:
    """The adapter makes the same body of the explained request as of that of a run."""
    case = HIERARCHIES[name]
    session = Session(id="s1", app_name="app", user_id="ann", state=case.state, events=case.history())
    with WireServer(*[whole(text("ok"))] * 9) as server:
        model = Gemini(model="gemini-2.5-flash", base_url=server.url, api_key="k")
        with frozen():
            assembly = await explain(case.build(model), case.message, session=session)
        async with aclosing(model.generate_content_async(assembly.request)) as responses:
            await collect(responses)
        runner = InMemoryRunner(case.build(model), app_name="app")
        runner.session_service.adopt(session)
        with frozen():
            async with aclosing(runner.run_async(user_id="ann", session_id="s1", new_message=case.message)) as run:
                async for each in run:
                    if each.content is not None:
                        break
        await model.aclose()
    assert server.requests[1].body == server.requests[0].body
