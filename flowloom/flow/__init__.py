"""The flow: the loop, the pipeline, the model call.

It imports `processors`, `tools` and the rooms below. Begin with `play.py`, the loop; `llm_turn.py` is a turn of an
agent with a model, `flow.py` the list of its processors.
"""

from flowloom.flow.flow import Flow
from flowloom.flow.play import run_agent

__all__ = ["Flow", "run_agent"]
