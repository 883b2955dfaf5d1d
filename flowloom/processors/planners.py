"""Planners: they let a model plan before it acts (spec §11c)."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

from google.genai import types

from flowloom.context import Context, ReadonlyContext
from flowloom.events.parts import text_part
from flowloom.events.wire import replace
from flowloom.models.request import LlmRequest

PLANNING_TAG = "/*PLANNING*/"
REPLANNING_TAG = "/*REPLANNING*/"
REASONING_TAG = "/*REASONING*/"
ACTION_TAG = "/*ACTION*/"
FINAL_ANSWER_TAG = "/*FINAL_ANSWER*/"

_TAGS = (PLANNING_TAG, REPLANNING_TAG, REASONING_TAG, ACTION_TAG, FINAL_ANSWER_TAG)
_ANY_TAG = re.compile("(" + "|".join(re.escape(tag) for tag in _TAGS) + ")")


class BasePlanner(ABC):
    """Tells a model how to plan, and tells the plan from the answer in what it says.

    Set one as an agent's `planner`. The text that it marks as thoughts is not part of the agent's answer, but is
    shown to the model again as its own words.
    """

    @abstractmethod
    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str | None:
        """What is appended to the system instruction of `llm_request`; None for nothing.

        `readonly_context` says for whom the plan is.
        """

    @abstractmethod
    def process_planning_response(
        self, callback_context: Context, response_parts: list[types.Part]
    ) -> list[types.Part] | None:
        """`response_parts` as they are to go on; None (or no parts) leaves the response as it is.

        `callback_context` may write state. It is called for every response, partial ones included. The parts are copies
        and may be changed.
        """


class BuiltInPlanner(BasePlanner):
    """Lets the model plan by itself, in its own thinking.

    `thinking_config` takes the place of the one in the agent's `generate_content_config`. A model that cannot
    think refuses the request.
    """

    def __init__(self, *, thinking_config: types.ThinkingConfig) -> None:
        self.thinking_config = thinking_config

    def apply_thinking_config(self, llm_request: LlmRequest) -> None:
        """Set the thinking config of a request."""
        llm_request.config.thinking_config = self.thinking_config.model_copy()

    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str | None:
        """Nothing: the config says it all."""
        return None

    def process_planning_response(
        self, callback_context: Context, response_parts: list[types.Part]
    ) -> list[types.Part] | None:
        """Nothing: the model marks its thoughts itself."""
        return None


class PlanReActPlanner(BasePlanner):
    """Lets any model plan, act, and reason about what came of it, under tags that it writes into its text.

    What stands under the planning, reasoning and action tags becomes thoughts, and what stands under the
    final-answer tag the answer; the tags are taken out. Text without tags stays as it is. A response ends with its
    first group of function calls: whatever the model says after them it says without having seen their results.
    """

    INSTRUCTION = f"""\
Plan first, then act on the plan, then answer. Begin every section of what you write with one of these tags:

{PLANNING_TAG} A numbered list of steps that together do all that was asked. Name the tool that each step uses, and \
use only tools that you have. Your first message starts with this section.
{ACTION_TAG} Stands right before the tool calls, or the code, that carry out the next steps.
{REASONING_TAG} After results have come back: what is known now, what is still open, and what that means for the \
next step.
{REPLANNING_TAG} A new numbered list for the work that is left, when results show that the plan does not hold.
{FINAL_ANSWER_TAG} The answer, once, as the last section. The user is shown this section alone: it has to be complete \
without the others, exact, and in the form that was asked for.

Take facts from the conversation and from tools rather than from memory. Do not ask a tool again for what you were \
given already, and never write down a result that you were not given. If the request is unclear, or what you have \
does not suffice to answer it, say so under {FINAL_ANSWER_TAG} and ask for what is missing."""

    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str | None:
        """How to plan, and which tags to write."""
        return self.INSTRUCTION

    def process_planning_response(
        self, callback_context: Context, response_parts: list[types.Part]
    ) -> list[types.Part] | None:
        """The parts with plans marked as thoughts, up to and including the first group of function calls."""
        kept: list[types.Part] = []
        calling = False
        for part in response_parts:
            call = part.function_call
            if call is None:
                if calling:
                    break
                kept.extend(_split(part))
            elif call.name:
                kept.append(part)
                calling = True
        return kept


def _split(part: types.Part) -> list[types.Part]:
    """A text part as thoughts and answer, in the order they are written; any other part as it is."""
    text = part.text
    # what the model itself marked as a thought is no answer, whatever tags it mentions
    if not text or part.thought or "/*" not in text:
        return [part]
    pieces = _ANY_TAG.split(text)
    tags, texts = ["", *pieces[1::2]], pieces[0::2]
    answer = max((i for i, tag in enumerate(tags) if tag == FINAL_ANSWER_TAG), default=0)
    thoughts: list[str] = []
    parts: list[types.Part] = []
    for index, section in enumerate(texts):
        # only the space next to a tag goes: in a stream, the rest joins the chunks before and after
        section = section.lstrip() if index else section
        section = section.rstrip() if index < len(texts) - 1 else section
        if not section:
            continue
        if index != answer:
            thoughts.append(section)
            continue
        if thoughts:
            parts.append(text_part("\n".join(thoughts), thought=True))
            thoughts.clear()
        spoken = replace(part)  # a signature goes with the words that stay the model's answer
        spoken.text = section
        parts.append(spoken)
    if thoughts or not parts:  # a chunk of nothing but a tag must not show the tag
        parts.append(text_part("\n".join(thoughts), thought=True))
    return parts
