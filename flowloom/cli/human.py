"""The person at the terminal as the model: requests are shown, and answered with texts, calls or errors."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import aclosing
from typing import Any

from google.genai import types

from flowloom.cli.display import Display
from flowloom.cli.reading import Reader
from flowloom.context import InvocationContext
from flowloom.context.observer import Observer
from flowloom.errors import FlowloomError, ModelError, ModelUnavailableError, quoted_list
from flowloom.events.parts import call_part, text_part
from flowloom.human import (
    Answer,
    FormField,
    HumanModel,
    RequestOverError,
    ToolForm,
    UnfitAnswerError,
    WaitingRequest,
)
from flowloom.human.model import people_in
from flowloom.models import BaseLlm, LlmRequest
from flowloom.objects.notebook import count

_STEPS = re.compile(r"\n\nProcessors \(\d+\)\n-+\n")
_NAME = re.compile(r"[^\s{]+")
_BACK, _END_OF_TEXT = "/back", "."
_HELP = """\
  TEXT                 the answer in words; a line that begins with / is written as //...
  /text                the answer in several lines, the last of them a single .
  /1, /call NAME       call a tool, by number or name; its arguments are asked for one by one
  /call NAME {JSON}    call it with these arguments; several at once: /call NAME {...} NAME {...}
  /add NAME {JSON}     put a call into the answer and go on; /send gives it, TEXT or /call too, /drop forgets it
  /error TEXT          let the model fail
  /page                the whole request, with what made it
  /help                this"""


class _MisreadError(FlowloomError):
    """What was typed is no answer; the person is asked again."""


class Desk(Observer):
    """Where requests to a `HumanModel` are answered, one after the other. It sees for itself which models are asked."""

    def __init__(self, display: Display, reader: Reader) -> None:
        self._display = display
        self._reader = reader
        self._serving: dict[int, asyncio.Task[None]] = {}
        self._asking: asyncio.Task[None] | None = None
        self._one_at_a_time = asyncio.Lock()
        self._latest: dict[str | None, WaitingRequest] = {}
        """The last request of each agent: a new one is shown by what has changed."""

    def model_asked(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> None:
        for person in people_in(model):
            if id(person) not in self._serving:
                self._serving[id(person)] = asyncio.ensure_future(self._serve(person))

    def stop(self) -> None:
        """Stop asking at once: the next line is for somebody else."""
        for task in (self._asking, *self._serving.values()):
            if task is not None:
                task.cancel()

    async def close(self) -> None:
        """Stop asking, at the end of a turn."""
        self.stop()
        serving, self._serving = list(self._serving.values()), {}
        await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, model: HumanModel) -> None:
        async with aclosing(model.arrivals()) as arrivals:
            async for waiting in arrivals:
                async with self._one_at_a_time:
                    if waiting.state == "waiting":
                        await self._ask(model, waiting)

    async def _ask(self, model: HumanModel, waiting: WaitingRequest) -> None:
        """Ask until there is an answer, or the request is over."""
        self._display.hold()
        self._show(waiting)
        asking = asyncio.ensure_future(_Interview(self._display, self._reader, waiting).run(model))
        self._asking = asking
        loop = asyncio.get_running_loop()

        def ended(over: WaitingRequest) -> None:
            if over is waiting and over.state != "answered":
                loop.call_soon_threadsafe(asking.cancel)

        stop = model.subscribe(ended=ended)
        try:
            await asyncio.wait({asking})
            if asking.cancelled():
                self._display.notice(f"No answer is needed any longer: {waiting.state}.")
        finally:
            stop()
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            self._display.release()

    def _show(self, waiting: WaitingRequest) -> None:
        before = self._latest.get(waiting.agent)
        self._latest[waiting.agent] = waiting
        page = _STEPS.split(waiting.text, maxsplit=1)[0] if before is None else waiting.changes_since(before)
        lines = ["", page, ""]
        if waiting.tools:
            numbered = [f"/{number} {form.name}" for number, form in enumerate(waiting.tools, 1)]
            lines.append(f"Tools to call: {', '.join(numbered)}")
        if waiting.response_schema is not None:
            lines.append("A text has to be JSON of the response schema.")
        lines.append(f"You answer as the {_role(waiting)} now: with a text, a call, or /error TEXT; see /help.")
        self._display.page("\n".join(lines))


class _Interview:
    """The questions to the person about one request."""

    def __init__(self, display: Display, reader: Reader, waiting: WaitingRequest) -> None:
        self._display = display
        self._reader = reader
        self._waiting = waiting
        self._draft: list[types.Part] = []
        """What `/add` has put into the answer."""

    async def run(self, model: HumanModel) -> None:
        """Ask until an answer is taken."""
        answered = False
        while not answered:
            try:
                answer = await self._answer()
                if answer is not None:
                    model.answer(self._waiting.id, answer)
                    answered = True
            except (_MisreadError, UnfitAnswerError) as error:
                self._display.notice(str(error))
            except RequestOverError:
                return
            except Exception as error:  # there is nobody to ask, or no way to do it
                why = str(error) or type(error).__name__
                refusal = ModelUnavailableError(f"No person can answer for the model: {why}", model=model.model)
                model.answer(self._waiting.id, refusal)
                return

    async def _answer(self) -> Answer | None:
        """The answer, once a line makes it complete. Raises `_MisreadError` and `UnfitAnswerError`."""
        line = await self._line(f"{_role(self._waiting)}> ")
        if not line:
            return None
        if not line.startswith("/") or line.startswith("//"):
            return [text_part(line.removeprefix("/")), *self._draft]
        word, _, rest = line[1:].partition(" ")
        rest = rest.strip()
        if word.isdigit():
            word, rest = "call", f"{word} {rest}"
        if word == "call":
            return [*self._draft, *await self._calls(rest)]
        if word == "error":
            return ModelError(rest or "The person who answers for the model has refused.", model=self._waiting.model)
        if word == "text":
            return [text_part(await self._lines()), *self._draft]
        if word == "send" and self._draft:
            return self._draft
        await self._act(word, rest)
        return None

    async def _act(self, word: str, rest: str) -> None:
        """What does not end the interview."""
        if word == "add":
            self._draft += await self._calls(rest)
            self._display.notice(f"The answer has {count(len(self._draft), 'call')} so far; /send gives it.")
        elif word == "drop":
            self._draft.clear()
            self._display.notice("The answer is empty again.")
        elif word == "page":
            self._display.page(f"\n{self._waiting.text}\n")
        elif word == "help":
            self._display.page(_HELP)
        elif word == "send":
            raise _MisreadError("There is nothing to send yet. Put a call into the answer with /add.")
        else:
            raise _MisreadError(f"/{word} is no command; see /help. A text that begins with / is written as //{word}.")

    # -- calls -----------------------------------------------------------------------------------------

    async def _calls(self, text: str) -> list[types.Part]:
        """The calls that `NAME {JSON} NAME {JSON}` makes; arguments that are not there are asked for."""
        calls: list[types.Part] = []
        while found := _NAME.match(text):
            form, text = self._form(found[0]), text[found.end() :].lstrip()
            if text.startswith("{"):
                try:
                    args, end = json.JSONDecoder().raw_decode(text)
                except ValueError as error:
                    raise _MisreadError(f"The arguments of `{form.name}` are no JSON: {error}.") from error
                form.check(args)
                text = text[end:].lstrip()
            else:
                args = await self._filled(form)
            calls.append(call_part(None, form.name, args))
        if text or not calls:
            raise _MisreadError(f"Name the tool to call, and then its arguments as JSON. {self._known()}")
        return calls

    def _form(self, name: str) -> ToolForm:
        tools = self._waiting.tools
        form = tools[int(name) - 1] if name.isdigit() and 0 < int(name) <= len(tools) else self._waiting.form(name)
        if form is None:
            raise _MisreadError(f"There is no tool `{name}`. {self._known()}")
        return form

    def _known(self) -> str:
        return f"The tools are {quoted_list(form.name for form in self._waiting.tools)}."

    async def _filled(self, form: ToolForm) -> dict[str, Any]:
        """The arguments, asked for one by one."""
        if form.fields:
            self._display.page(f"  {form.name}: leave empty what is not needed; {_BACK} gives it up.")
        values: dict[str, Any] = {}
        for field in form.fields:
            await self._fill(field, values)
        form.check(values)
        return values

    async def _fill(self, field: FormField, values: dict[str, Any]) -> None:
        default = "" if field.default is None else f" [{json.dumps(field.default, ensure_ascii=False)}]"
        about = f", {field.description}" if field.description else ""
        question = f"  {field.name}{'' if field.required else '?'} ({field.type}{about}){default}> "
        while True:
            text = await self._line(question)
            if text == _BACK:
                raise _MisreadError("No call was made.")
            try:
                if text:
                    values[field.name] = field.read(text)
                elif field.required:
                    self._display.notice(f'`{field.name}` is needed; "" is an empty text.')
                    continue
                return
            except UnfitAnswerError as error:
                self._display.notice(str(error))

    # -- lines -----------------------------------------------------------------------------------------

    async def _lines(self) -> str:
        lines: list[str] = []
        while (line := await self._line("...> ")) != _END_OF_TEXT:
            lines.append(line)
        return "\n".join(lines)

    async def _line(self, question: str) -> str:
        line = await self._reader.ask(question)
        if line is None:
            raise EOFError("the input has ended.")
        return line


def _role(waiting: WaitingRequest) -> str:
    return f"model of {waiting.agent}" if waiting.agent else f"model {waiting.model}"
