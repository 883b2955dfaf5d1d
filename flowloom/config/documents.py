"""A YAML or JSON file as plain data, and where in the file each value stands."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, cast

from flowloom.config.problems import ConfigProblem, KeyPath
from flowloom.extras import absent, missing_extra, require

try:
    import yaml
except ImportError as error:
    yaml = absent(missing_extra("Agents from files need PyYAML", "config", error))

MOST_BYTES = 1_048_576
MOST_VALUES = 100_000
"""Values of a file, those that aliases repeat counted each time."""


@dataclass(slots=True)
class Document:
    """What a file says; `problems` of the file as such: it cannot be read, or says a key twice."""

    file: Path
    data: Any = None
    problems: list[ConfigProblem] = field(default_factory=list[ConfigProblem])
    lines: dict[KeyPath, int] = field(default_factory=dict[KeyPath, int])
    """The line of each value; of a value with a key, that of the key."""
    words: dict[KeyPath, str] = field(default_factory=dict[KeyPath, str])
    """How the values that are no mappings and no lists are written."""
    readable: bool = True

    def line_of(self, path: KeyPath) -> int:
        """The line, from 1, of a value, or of the nearest one around it that has a place of its own."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def note(self, path: KeyPath, message: str) -> None:
        """Add a problem with the value at `path`."""
        problem = ConfigProblem(str(self.file), self.line_of(path), path, message)
        if problem not in self.problems:
            self.problems.append(problem)

    def is_sound(self, path: KeyPath) -> bool:
        """Whether no problem is known of what is at `path`, or below or around it, the document itself apart."""
        return not any(
            problem.path and problem.path[: len(path)] == path[: len(problem.path)] for problem in self.problems
        )


def read_document(file: Path) -> Document:
    """What a file says. It never raises for the file's sake: `readable` and `problems` tell.

    Plain data only: a YAML tag that would make an object is a problem. Raises `MissingExtraError` without PyYAML.
    """
    require(yaml)
    document = Document(file)
    try:
        _read(document)
    except OSError as error:
        _unreadable(document, 1, f"The file cannot be read: {error.strerror}.")
    except UnicodeDecodeError as error:
        _unreadable(document, 1, f"The file is no UTF-8 text (byte {error.start}).")
    except RecursionError:
        _unreadable(document, 1, "The file nests its values too deep.")
    except json.JSONDecodeError as error:
        _unreadable(document, error.lineno, f"This is no JSON: {error.msg}.")
    except ValueError as error:
        _unreadable(document, 1, f"This is no plain data: {error}.")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        words = " ".join(filter(None, (error.context, error.problem)))
        _unreadable(document, 1 if mark is None else mark.line + 1, f"This is no YAML of plain data: {words}.")
    except yaml.YAMLError as error:
        _unreadable(document, 1, f"This is no YAML of plain data: {error}")
    return document


def _unreadable(document: Document, line: int, message: str) -> None:
    document.readable = False
    document.problems.append(ConfigProblem(str(document.file), line, (), message))


def _read(document: Document) -> None:
    raw = document.file.read_bytes()
    if len(raw) > MOST_BYTES:
        _unreadable(document, 1, f"The file has {len(raw):,} bytes; {MOST_BYTES:,} are the most.")
        return
    text = raw.decode("utf-8-sig")
    if document.file.suffix == ".json":
        document.data = json.loads(text)
        text = text.replace("\t", " ")  # JSON may be laid out by tabs, YAML may not; no string of JSON has one
    loader = _loader()(text)
    try:
        node = loader.get_single_node()
        if node is None:
            _unreadable(document, 1, "The file is empty. Write at least `name` and `instruction`.")
            return
        _Walk(document).visit(node, (), node.start_mark.line)
        if document.readable and document.file.suffix != ".json":
            document.data = loader.construct_document(node)
    finally:
        loader.dispose()


@cache
def _loader() -> Any:
    """Makes plain data, and tells the place of a value that is not what YAML takes it for: a 13th month."""

    base: Any = yaml.SafeLoader

    class Loader(base):
        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return base.construct_object(self, node, deep)
            except (ValueError, LookupError, AttributeError, ArithmeticError):
                kind = str(node.tag).rpartition(":")[2]
                problem = f"a value is written as `{kind}`, but is none; put quotes around it to have it as text"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None

    return Loader


class _Walk:
    """Goes through a file's values once, as they stand there."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._values = 0
        self._open: list[Any] = []

    def visit(self, node: Any, path: KeyPath, line: int) -> None:
        document = self._document
        self._values += 1
        if not document.readable:
            return
        if self._values > MOST_VALUES:
            _unreadable(document, line + 1, f"The file has more than {MOST_VALUES:,} values, aliases counted.")
        elif any(node is each for each in self._open):
            _unreadable(document, line + 1, "An alias names a value that it is part of.")
        else:
            document.lines[path] = line + 1
            self._open.append(node)
            self._enter(node, path)
            self._open.pop()

    def _enter(self, node: Any, path: KeyPath) -> None:
        if isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                self.visit(item, (*path, position), item.start_mark.line)
        elif isinstance(node, yaml.MappingNode):
            self._mapping(node, path)
        else:
            self._document.words[path] = cast(str, node.value)

    def _mapping(self, node: Any, path: KeyPath) -> None:
        first: dict[str, int] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else None
            if name is None or key.tag == "tag:yaml.org,2002:merge":
                continue  # a merged mapping stands elsewhere; other keys are refused when the data is made
            line = key.start_mark.line
            if not path and key.tag != "tag:yaml.org,2002:str":
                message = f"A key has to be text. Put quotes around `{name}` to have it so."
                self._document.problems.append(ConfigProblem(str(self._document.file), line + 1, (name,), message))
            if name in first:
                where = (*path, name)
                self._document.problems.append(
                    ConfigProblem(
                        str(self._document.file),
                        line + 1,
                        where,
                        f"The key is there twice, in line {first[name]} too. Keep one of them.",
                    )
                )
                continue
            first[name] = line + 1
            self.visit(value, (*path, name), line)
