"""The text page of an assembly: what the model is given, who wrote it, and what each processor did for it.

It is made from the data of an assembly (`Assembly.to_dict`), so that a stored one can be shown too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, cast

from flowloom.inspection.canonical import Data
from flowloom.inspection.sections import CONTENTS, SYSTEM, TOOLS
from flowloom.models.server_tools import BESIDE
from flowloom.objects.notebook import count

WIDTH = 110
_BAR = 16
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that would steer a terminal, turn the direction of the text, or cannot be written to a file."""

Entry = dict[str, Any]
"""A section, step or change of an assembly's data."""


def report_of(data: Mapping[str, Data]) -> str:
    """The page of an assembly's data (see `Assembly.to_dict`) as plain text, complete and without escape sequences."""
    lines = [*_title(data)]
    outline = outline_of(data)
    for heading, entries, show in (
        ("System instruction", outline.system, _system_lines),
        ("Tools", outline.tools, _tool_lines),
        ("Contents", outline.contents, _content_lines),
        ("Settings", outline.settings, _setting_lines),
        ("Processors", cast(list[Entry], data["steps"]), _step_lines),
    ):
        heading += f" ({len(entries)})" if entries else ""
        lines += ["", _underlined(heading, "-"), *(show(entries) if entries else ["", "  none"])]
    if warnings := warnings_of(data):
        lines += ["", _underlined("Warnings", "-"), ""]
        for warning in warnings:
            lines += _block(warning, "  ! ", "    ")
    return visible("\n".join(line.rstrip() for line in lines))


# -- reading the data --------------------------------------------------------------------------------------


class Outline:
    """The sections of a request by what they are, each list in the order of the wire."""

    def __init__(self) -> None:
        self.system: list[Entry] = []
        self.tools: list[Entry] = []
        self.contents: list[Entry] = []
        self.settings: list[Entry] = []
        """The model, and all else that is set."""


def outline_of(data: Mapping[str, Data]) -> Outline:
    """The sections of an assembly's data."""
    outline = Outline()
    groups = {SYSTEM: outline.system, CONTENTS: outline.contents}
    groups |= {TOOLS: outline.tools, BESIDE: outline.tools}
    for section in cast(list[Entry], data["sections"]):
        path = re.match(r"config\.\w+|\w+", section["path"])
        groups.get(path[0] if path else "", outline.settings).append(section)
    return outline


def warnings_of(data: Mapping[str, Data]) -> list[str]:
    """What the reader of an assembly's data should know about it."""
    warnings: list[str] = []
    halted_by, tools = data["halted_by"], cast(list[str], data["tools_not_run"])
    if halted_by:
        warnings.append(f"The processor `{halted_by}` halted the step: the model is not asked, and this is the request "
                        f"as it was then.")  # fmt: skip
    elif not data["reaches_model"]:
        warnings.append(
            f"`{data['agent']}` ({data['without_flow']}) works without a flow, and no agent below it asks a model: "
            f"there is no request."
            if data.get("without_flow")
            else "The model is not asked: a callback or a plugin answers in its place, or the run ended before."
        )
    if tools:
        names = ", ".join(f"`{name}`" for name in tools)
        warnings.append(f"A real run would run {names} first. What stands here for the results is a placeholder.")
    return warnings


def visible(text: str) -> str:
    """A text with characters that steer a terminal, or the direction of the text, written as escapes."""
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def json_of(value: Data, indent: int | None = None) -> str:
    """Data as JSON, on one line unless `indent` is given."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


class Parameter:
    """A parameter of a declared function: what a reader wants to know of its schema."""

    __slots__ = ("description", "name", "required", "type")

    def __init__(self, name: str, schema: Data, required: bool) -> None:
        self.name = name
        self.type = type_of(schema)
        self.required = required
        self.description = str(_fields_of(schema).get("description") or "")

    def __str__(self) -> str:
        return f"{self.name}{'' if self.required else '?'}: {self.type}"


def parameters_of(declaration: Mapping[str, Data]) -> list[Parameter]:
    """The parameters of a function declaration, which has its own kind of schema or a JSON schema."""
    schema = _fields_of(declaration.get("parameters_json_schema") or declaration.get("parameters"))
    needed = _list_of(schema.get("required"))
    return [Parameter(name, each, name in needed) for name, each in _fields_of(schema.get("properties")).items()]


def type_of(schema: Data) -> str:
    """A schema as a type: `string`, `list[number] | null`, `"red" | "blue"`, the name of an object."""
    fields = _fields_of(schema)
    choices = _list_of(fields.get("enum")) or ([fields["const"]] if "const" in fields else [])
    several = _list_of(fields.get("anyOf") or fields.get("any_of") or fields.get("oneOf"))
    kind: Any = fields.get("type")
    if choices:
        written = " | ".join(map(json_of, choices))
    elif several:
        written = " | ".join(dict.fromkeys(map(type_of, several)))
    elif "$ref" in fields:
        written = str(fields["$ref"]).rpartition("/")[2]
    elif isinstance(kind, list):
        written = " | ".join(map(str, cast(list[Any], kind)))
    else:
        written = str(kind or "any").lower()
    if written == "array" and fields.get("items"):
        written = f"list[{type_of(fields['items'])}]"
    return f"{written} | null" if fields.get("nullable") else written


Line = tuple[str, str]
"""What a part of a content says, and what it is: `text`, `thought`, `call`, `result`, `file`, `code`, `output`,
`data`."""


def part_lines(part: Mapping[str, Data]) -> list[Line]:
    """What a part of a content says. Fields without a form of their own are shown as data, so that nothing is lost."""
    rest = dict(part)
    signature, thought = rest.pop("thought_signature", None), rest.pop("thought", None)
    lines: list[Line] = []
    if "text" in rest:
        lines.append((str(rest.pop("text")), "thought" if thought else "text"))
        thought = None
    for name, kind, written in (
        ("function_call", "call", _call),
        ("function_response", "result", _result),
        ("inline_data", "file", _file),
        ("file_data", "file", _file),
        ("executable_code", "code", _code),
        ("code_execution_result", "output", _output),
    ):
        if name in rest:
            lines.append((written(_fields_of(rest.pop(name))), kind))
    if thought:
        rest["thought"] = thought
    if signature:
        rest["thought_signature"] = signature
    lines += [(f"{name} = {json_of(value)}", "data") for name, value in rest.items()]
    return lines or [("", "text")]


def _call(call: Entry) -> str:
    args = ", ".join(f"{name}={json_of(value)}" for name, value in _fields_of(call.pop("args", None)).items())
    return f"{call.pop('name', '?')}({args}){_more(call)}"


def _result(answer: Entry) -> str:
    given: Any = answer.pop("response", None)
    if isinstance(given, dict) and [*cast(Entry, given)] == ["result"]:
        given = cast(Entry, given)["result"]
    return f"{answer.pop('name', '?')} = {json_of(given)}{_more(answer)}"


def _file(file: Entry) -> str:
    name = file.pop("display_name", None) or file.pop("file_uri", None) or "(no name)"
    facts = [str(file.pop("mime_type", None) or "no mime type")]
    if "data" in file:
        digest, _, size = str(file.pop("data")).partition(" (")
        facts += [size.rstrip(")"), digest] if size else [digest]
    if "file_uri" in file:
        facts.append(str(file.pop("file_uri")))
    return f"{name} ({', '.join(facts)}){_more(file)}"


def _code(code: Entry) -> str:
    return f"{code.pop('code', '')}{_more(code)}"


def _output(output: Entry) -> str:
    return f"{output.pop('output', '')}{_more(output)}"


def _more(fields: Entry) -> str:
    """The fields that have no form of their own; an id goes without its name."""
    facts = [str(fields.pop("id"))] if fields.get("id") else []
    facts += [f"{name}: {value if isinstance(value, str) else json_of(value)}" for name, value in fields.items()]
    return f"  [{', '.join(facts)}]" if facts else ""


def _fields_of(value: Data) -> Entry:
    return dict(cast(Entry, value)) if isinstance(value, dict) else {}


def _list_of(value: Data) -> list[Data]:
    return cast(list[Data], value) if isinstance(value, list) else []


# -- writing the page --------------------------------------------------------------------------------------


def _title(data: Mapping[str, Data]) -> list[str]:
    request, steps = cast(Entry, data["request"]), cast(list[Entry], data["steps"])
    total = sum(step["microseconds"] for step in steps)
    at = f", step {data['step']}" if data.get("step") else ""
    title = f"{data['agent']} asks {request.get('model') or 'no model'}{at}"
    made = f"Assembled by {count(len(steps), 'processor')} in {total:,.0f} µs."
    if data["reaches_model"] and not data.get("sent"):
        made += " Nothing was sent."
    return [_underlined(title, "="), "", made]


def _underlined(heading: str, rule: str) -> str:
    return f"{heading}\n{rule * len(heading)}"


def _system_lines(sections: Sequence[Entry]) -> Iterator[str]:
    for by, written in groupby(sections, key=lambda section: section["by"]):
        yield ""
        yield f"  {by or '(author not known)'}"
        for section in written:
            label = section["path"].removeprefix(SYSTEM).removeprefix(".parts") or "[0]"
            value = section["value"]
            for text, kind in _system_part(value):
                yield from _block(text if kind in ("text", "thought") else f"{kind}: {text}", f"  {label} | ")


def _system_part(value: Data) -> list[Line]:
    if isinstance(value, dict):
        return part_lines(cast(Entry, value))
    return [(value if isinstance(value, str) else json_of(value, 2), "text")]


def _tool_lines(sections: Sequence[Entry]) -> Iterator[str]:
    for section in sections:
        yield ""
        path, value = section["path"].removeprefix(f"{TOOLS}"), section["value"]
        author = _author(section["by"])
        if ".function_declarations[" not in path:
            yield f"  {path.rpartition('.')[2]}: {json_of(value)}{author}"
            continue
        declaration = _fields_of(value)
        parameters = parameters_of(declaration)
        yield from _signature(str(declaration.get("name")), parameters, author)
        if declaration.get("description"):
            yield from _block(str(declaration["description"]), "    | ")
        described = [parameter for parameter in parameters if parameter.description]
        width = max((len(parameter.name) for parameter in described), default=0)
        for parameter in described:
            yield from _block(parameter.description, f"      {parameter.name:<{width}}  ", " " * (width + 8))


def _signature(name: str, parameters: list[Parameter], author: str) -> Iterator[str]:
    line = f"  {name}({', '.join(map(str, parameters))})"
    if len(line) <= WIDTH - len(author):
        yield line + author
        return
    yield f"  {name}("
    for parameter in parameters:
        yield from _block(f"{parameter},", "      ", "          ")
    yield f"  ){author}"


def _content_lines(sections: Sequence[Entry]) -> Iterator[str]:
    names = {"call": "calls ", "result": "result of ", "file": "file ", "thought": "(thinks) ", "text": "", "data": ""}
    for section in sections:
        content = _fields_of(section["value"])
        by = section["by"]
        yield ""
        yield f"  {section['path'].removeprefix(CONTENTS)} {content.get('role') or 'no role'}" + (
            "" if by == "contents" else _author(by)
        )
        for part in cast(list[Entry], content.get("parts") or []):
            for text, kind in part_lines(part):
                yield from _block(names.get(kind, f"{kind}: ") + text, "    | ")


def _setting_lines(sections: Sequence[Entry]) -> Iterator[str]:
    yield ""
    for section in sections:
        path, value, author = section["path"].removeprefix("config."), section["value"], _author(section["by"])
        line = f"  {path} = {json_of(value)}{author}"
        if len(line) <= WIDTH:
            yield line
        else:
            yield f"  {path}{author}"
            yield from _block(value if isinstance(value, str) else json_of(value, 2), "    | ")


def _author(by: str | None) -> str:
    return f"  ← {by}" if by else ""


def _step_lines(steps: Sequence[Entry]) -> Iterator[str]:
    longest = max(step["microseconds"] for step in steps)
    width = max(len("processor"), *(len(step["name"]) for step in steps))
    yield ""
    yield f"   #  {'processor':<{width}}  {'µs':>9}  {'':{_BAR}}  changes"
    for number, step in enumerate(steps, 1):
        head = f"  {number:>2}  {step['name']:<{width}}  {step['microseconds']:>9,.1f}"
        bar = bar_of(step["microseconds"], longest)
        line = f"{head}  {bar:<{_BAR}}  {len(step['changes']):>3}"
        yield line + _first_changes(step, max(WIDTH + 10 - len(line), 60))


def bar_of(value: float, longest: float) -> str:
    """A bar of block characters, `_BAR` long for the longest."""
    eighths = round(value / longest * _BAR * 8) if longest > 0 else 0
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def _first_changes(step: Entry, room: int) -> str:
    """The paths of the first changes, as many as there is room for, but one at least."""
    changes, events = cast(list[Entry], step["changes"]), cast(list[Data], step["events"])
    told = f"  ({len(events)} event{'s' if len(events) > 1 else ''})" if events else ""
    line = ""
    for index, change in enumerate(changes):
        left = len(changes) - index - 1
        longer = f"{line}  {_SIGNS[change['kind']]}{change['path']}"
        if index and len(longer) + len(told) + (8 if left else 0) > room:
            return f"{line}  … {left + 1} more{told}"
        line = longer
    return line + told


def _block(text: str, first: str, then: str | None = None) -> Iterator[str]:
    """A text as lines, the first after `first`; what is too long for a line goes on in the next, after `⋮` if lines
    have a border."""
    margin = first if then is None else then
    if then is None:
        margin = " " * (len(first) - 2) + "| "
    inner = margin[:-2] + "⋮ " if then is None else margin
    for number, line in enumerate(text.split("\n")):
        lead = margin if number else first
        for piece in _wrapped(line, WIDTH - len(lead)):
            yield lead + piece
            lead = inner


def _wrapped(line: str, width: int) -> Iterator[str]:
    """A line in pieces of at most `width` characters, cut at spaces; longer words stay whole."""
    while len(line) > width:
        at = line.rfind(" ", 1, width + 1)
        if at < 0 or not line[:at].strip():
            at = line.find(" ", width)
            if at < 0:
                break
        yield line[:at]
        line = line[at + 1 :]
    yield line
