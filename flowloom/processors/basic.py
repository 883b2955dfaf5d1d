"""The basic processor: model name and generation config (spec §4)."""

from __future__ import annotations

from flowloom.context import InvocationContext
from flowloom.events.wire import stored_fields
from flowloom.models.contents import own_copy
from flowloom.models.request import LlmRequest
from flowloom.processors.model_choice import model_of
from flowloom.processors.output_schema import needs_response_tool


def basic(ctx: InvocationContext, request: LlmRequest) -> None:
    """The model's name, and the agent's generation config with its output schema.

    Reads: model, `generate_content_config`, `output_schema`, mode and tools of the agent; labels, HTTP options and
    service tier of the run.
    Writes: `model`, `config`, `service_tier`.
    Must come after: nothing; it may replace the config, so all that append to it come later.
    """
    agent = ctx.llm_agent
    if agent is None:
        return
    config = request.config if agent.generate_content_config is None else own_copy(agent.generate_content_config)
    values = stored_fields(request)
    run_config = ctx.run.config
    values["model"], values["config"], values["service_tier"] = model_of(ctx).model, config, run_config.service_tier
    if run_config.labels:
        config.labels = (config.labels or {}) | run_config.labels
    if run_config.http_options is not None:
        config.http_options = run_config.http_options.model_copy(deep=True)
    if agent.output_schema is not None and agent.mode != "task" and not needs_response_tool(ctx, agent):
        request.set_output_schema(agent.output_schema)
