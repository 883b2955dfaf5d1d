# pyright: strict
"""What users get wrong, as type checkers have to see it: each line that ends with `# wrong`, and no other."""

from __future__ import annotations

from pydantic import BaseModel

from flowloom import (
    AgentTool,
    App,
    BaseAgent,
    FunctionTool,
    Gemini,
    InMemoryRunner,
    Limits,
    LlmAgent,
    LongRunningFunctionTool,
    LoopAgent,
    OpenAIModel,
    ParallelAgent,
    RetryModel,
    RunConfig,
    SequentialAgent,
)
from flowloom.testing import ScriptedModel


class City(BaseModel):
    name: str


class Mine(BaseAgent):
    extra: int


def work() -> str:
    """Work."""
    return "done"


agent = LlmAgent(name="a", output_schema=City)
LlmAgent(name="a", instrution="Help.")  # wrong
LlmAgent(name="a", instruction=3)  # wrong
LlmAgent(name="a", tools=["x"])  # wrong
LlmAgent(name="a", tools=work)  # wrong
LlmAgent(name="a", mode="chatt")  # wrong
LlmAgent(name="a", include_contents="all")  # wrong
LlmAgent(name="a", sub_agents=["b"])  # wrong
LlmAgent(name="a", output_schema="City")  # wrong
LlmAgent(name="a", output_key=1)  # wrong
LlmAgent(name="a", output_retries="2")  # wrong
LlmAgent(name="a", flow="f")  # wrong
LlmAgent(name="a", model=3)  # wrong
LlmAgent(name="a", before_model_callback="look")  # wrong
LlmAgent(name="a", limits=3)  # wrong
LlmAgent(name="a", generate_content_config=3)  # wrong
LlmAgent(instruction="Help.")  # wrong
BaseAgent(nme="a")  # wrong
SequentialAgent(name="a", subagents=[agent])  # wrong
ParallelAgent(name="a", description=1)  # wrong
LoopAgent(name="a", max_iterations="3")  # wrong
Mine(name="a")  # wrong
Mine(name="a", extra="x")  # wrong
App(nme="a", root_agent=agent)  # wrong
App(name="a", root_agent="agent")  # wrong
App(name="a", root_agent=agent, plugins=["p"])  # wrong
RunConfig(max_llm_calls="x")  # wrong
RunConfig(max_llm_call=3)  # wrong
RunConfig(streaming_mode="sse")  # wrong
Limits(on_limit="halt")  # wrong
Limits(model_cals=3)  # wrong
Gemini(modl="gemini-2.5-flash")  # wrong
OpenAIModel(model="gpt-5", timeout="1")  # wrong
ScriptedModel(["x"], stream_chunk=True)  # wrong
RetryModel("gemini-2.5-flash", option=None)  # wrong
FunctionTool(work, timeot=3)  # wrong
LongRunningFunctionTool(work, timeout="3")  # wrong
AgentTool("agent")  # wrong
InMemoryRunner(agent, app_nam="x")  # wrong
InMemoryRunner(agent, concurrency="wait")  # wrong
InMemoryRunner(agent).run_asinc()  # wrong


async def read() -> str:
    result = await InMemoryRunner(agent).run_stateless("hi")
    assert result.output is not None
    return result.output.nme  # wrong
