"""The flow: the loop, the pipeline, the model call."""

from flowloom.flow.ending import record_end, settle_end, settle_failure
from flowloom.flow.flow import Flow
from flowloom.flow.play import run_agent

__all__ = ["Flow", "record_end", "run_agent", "settle_end", "settle_failure"]
