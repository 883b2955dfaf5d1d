"""`WaitingRequest`: a request that waits for a person, and how it is shown."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, Self, cast

from google.genai import types

from flowloom.errors import ConfigurationError
from flowloom.events.wire import replace
from flowloom.human.forms import ToolForm, forms_of
from flowloom.inspection.assembly import Assembly
from flowloom.inspection.difference import diff
from flowloom.inspection.report import report_of
from flowloom.inspection.request_view import RequestView
from flowloom.inspection.sections import Section
from flowloom.models.contents import SharedContents
from flowloom.models.request import LlmRequest
from flowloom.tools.output import OutputSchema

RequestState = Literal["waiting", "answered", "cancelled", "timed out"]

UNKNOWN_AGENT = "An agent"
_LAST_MOMENT = 253_402_300_799
"""The end of the calendar, in epoch seconds: what comes later comes never."""
_EMPTY_GROUP = re.compile(r"\n\n[A-Z][a-z ]+\n-+\n\n  none")
_STEPS = re.compile(r"\n\nProcessors(?: \(\d+\))?\n-+\n")

followed: ContextVar[Assembly | None] = ContextVar("flowloom_human_followed", default=None)
"""How the request came about that this task is about to ask a model with, if a `HumanObserver` has followed it."""


@dataclass(eq=False)
class WaitingRequest:
    """A request that a person is to answer, as it was when it came.

    `print` it for the page as text; `html` is the same for a browser, `to_dict` as data, with the forms.

    `id` is what an answer names, `state` whether the request waits, or how it ended.
    """

    id: str
    model: str
    """The name of the model that was asked."""
    assembly: Assembly
    """The request, and if a `HumanObserver` saw how it was made, the processors and which of them wrote what."""
    came_at: float
    """When it came, in epoch seconds."""
    expires_at: float | None
    """When it times out; None for never."""
    tools: list[ToolForm]
    """The tools that the answer may call, each with a form for its arguments."""
    state: RequestState = field(default="waiting")
    streaming: bool = False
    """Whether the run takes pieces of the answer before it is complete (`HumanModel.say`)."""
    said: list[types.Part] = field(default_factory=list[types.Part])
    """The pieces that were said of the answer so far."""

    @classmethod
    def of(
        cls,
        request: LlmRequest,
        *,
        request_id: str,
        model: str,
        came_at: float,
        timeout: float | None,
        streaming: bool = False,
    ) -> Self:
        """The record of a request that has just come. It is looked at once, here: what follows does not change it.

        `request_id` becomes its `id`, `model` is the name of the model that was asked, `came_at` the time in seconds
        since the epoch, `timeout` the seconds until it times out (None for never), `streaming` whether its answer may
        come in pieces.
        """
        copy = snapshot(request)
        assembly = followed.get()
        followed.set(None)
        if assembly is not None and assembly.request is request:
            assembly = dataclasses.replace(assembly, request=copy)
        else:
            assembly = Assembly(UNKNOWN_AGENT, copy, sections=list(RequestView(copy).sections), reaches_model=True)
        expires_at = None if timeout is None or came_at + timeout > _LAST_MOMENT else came_at + timeout
        return cls(request_id, model, assembly, came_at, expires_at, forms_of(copy), streaming=streaming)

    @property
    def agent(self) -> str | None:
        """The agent that asks; None if no `HumanObserver` looked on."""
        return None if self.assembly.agent == UNKNOWN_AGENT else self.assembly.agent

    @property
    def request(self) -> LlmRequest:
        """The request itself."""
        return self.assembly.request

    @cached_property
    def view(self) -> RequestView:
        """The request as data and text that are the same on every run."""
        return self.assembly.view

    @property
    def sections(self) -> Sequence[Section]:
        """The request in pieces, each with its author if that is known; `diff` takes a waiting request, too."""
        return self.assembly.sections

    @property
    def response_schema(self) -> dict[str, Any] | None:
        """The JSON schema that a text has to follow; None if any text will do."""
        return None if self.output is None else self.output.json_schema

    @cached_property
    def output(self) -> OutputSchema | None:
        """What checks a text against the schema that the request asks for."""
        config = cast(Any, self.request.config)
        schema = config.response_schema if config.response_schema is not None else config.response_json_schema
        try:
            return None if schema is None else OutputSchema(schema)
        except ConfigurationError:
            return None  # nobody can say what would fit

    def form(self, name: str) -> ToolForm | None:
        """The form of the tool `name`; None if there is no such tool."""
        return next((each for each in self.tools if each.name == name), None)

    # -- showing it ------------------------------------------------------------------------------------

    @cached_property
    def text(self) -> str:
        """The page as plain text, without escape sequences."""
        return self._page(self.assembly.to_dict())

    @cached_property
    def html(self) -> str:
        """The page as one HTML file that needs no other. The forms are not in it."""
        return self.assembly.to_html()

    def changes_since(self, earlier: WaitingRequest) -> str:
        """The page with only what is new or different in comparison with an earlier request."""
        differences = diff(earlier, self).differences
        left = {each.path for each in differences if each.kind != "removed"}
        data = self.assembly.to_dict()
        data["sections"] = [section for section in data["sections"] if section["path"] in left]
        page = _STEPS.split(self._page(data), maxsplit=1)[0]
        gone = [f"  - {each.path}" for each in differences if each.kind == "removed"]
        page = _EMPTY_GROUP.sub("", page)
        return "\n".join([page, "", "No longer there", "-" * 15, "", *gone]) if gone else page

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values: `id`, `agent`, `model`, times, `state`, `streaming`, `tools`, `response_schema`,
        and `assembly`, from which both pages are made."""
        return {
            "id": self.id,
            "agent": self.agent,
            "model": self.model,
            "came_at": self.came_at,
            "expires_at": self.expires_at,
            "state": self.state,
            "streaming": self.streaming,
            "tools": [form.to_dict() for form in self.tools],
            "response_schema": self.response_schema,
            "assembly": self.assembly.to_dict(),
        }

    def _page(self, data: dict[str, Any]) -> str:
        """The page of an assembly's data, with the time in the place of what is said of the assembling."""
        title, rule, _, _, body = report_of(data).split("\n", 4)
        came = f"Waits since {_moment(self.came_at)}"
        until = "" if self.expires_at is None else f", until {_moment(self.expires_at)}"
        page = "\n".join([title, rule, "", f"{came}{until}.", body])
        return page if self.assembly.steps else _STEPS.split(page, maxsplit=1)[0]

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<WaitingRequest {self.id} of {self.agent or 'an agent'}: {self.state}>"


def snapshot(request: LlmRequest) -> LlmRequest:
    """The request as it is now: later changes of its lists and config do not reach the copy."""
    contents = request.contents
    return replace(
        request,
        contents=list(contents.plain() if isinstance(contents, SharedContents) else contents),
        config=replace(request.config),
        tools_dict=dict(request.tools_dict),
    )


def _moment(seconds: float) -> str:
    return f"{datetime.datetime.fromtimestamp(seconds, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
