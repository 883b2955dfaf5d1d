"""The README and the pages in docs: each example runs and prints what the page says, each link leads somewhere."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType, ModuleType
from typing import NamedTuple

import pytest
from cli.process import flowloom as run_command
from opentelemetry import trace
from opentelemetry.util._once import Once
from test_architecture import FLOOR_OF, PACKAGE
from typer import Context
from typer.core import TyperGroup
from typer.main import get_command

import flowloom
from flowloom import InMemoryRunner, LlmAgent
from flowloom.cli.commands import app
from flowloom.testing import ScriptedModel, call

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [README, *DOCS, *sorted((ROOT / "examples").glob("*/README.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
INLINE = re.compile(r"`((?:flowloom|make|pip install) [^`\n]+)`")
EXTRA = re.compile(r"\[(\w+)\]")
SETTINGS = re.compile("(GOOGLE|GEMINI|OTEL|OPENAI|ANTHROPIC|OLLAMA)_")


def name_of(page: Path) -> str:
    """A page as it is told of."""
    return str(page.relative_to(ROOT))


class Example(NamedTuple):
    """A python block, and what the text block right after it says that it prints."""

    source: str
    line: int
    printed: str


def examples_of(page: Path) -> Iterator[Example]:
    text = page.read_text(encoding="utf-8")
    blocks = list(FENCE.finditer(text))
    for block, following in zip(blocks, [*blocks[1:], None], strict=False):
        if block[1] != "python":
            continue
        printed = following[2] if following is not None and following[1] == "text" else ""
        yield Example(block[2], text.count("\n", 0, block.start(2)), printed)


def run_in_script(example: Example, page: Path, module: ModuleType) -> str:
    """Run one block as a part of a script, and return what it prints."""
    code = compile("\n" * example.line + example.source, page, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, vars(module))
    return printed.getvalue()


async def run_in_notebook(example: Example, page: Path, module: ModuleType) -> str:
    """Run one block as a cell of a notebook, where a loop runs and `await` may stand outside of functions."""
    code = compile("\n" * example.line + example.source, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        awaited = eval(code, vars(module))
        if code.co_flags & inspect.CO_COROUTINE:
            await awaited
    return printed.getvalue()


def commands_of(page: Path) -> Iterator[str]:
    """The shell commands of a page: lines of `sh` blocks, those of `console` blocks, and those within sentences."""
    text = page.read_text(encoding="utf-8")
    for kind, block in FENCE.findall(text):
        if kind == "sh":
            yield from filter(None, block.splitlines())
    yield from (line for line, _ in shown_commands(page) if not line.startswith("#"))
    yield from INLINE.findall(FENCE.sub("", text))


def shown_commands(page: Path) -> Iterator[tuple[str, str]]:
    """Each command of a page's `console` blocks, with what the block says that it prints."""
    for kind, block in FENCE.findall(page.read_text(encoding="utf-8")):
        if kind == "console":
            yield from re.findall(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)


def check_command(line: str) -> None:
    """Raise unless a command, its options, its target or the extra that it installs exist. Nothing is done."""
    program, *args = shlex.split(re.split(" [|<>] ", line)[0], comments=True)
    if program == "make":
        subprocess.run(["make", "--dry-run", *args], cwd=ROOT, check=True, capture_output=True)
    elif program == "pip":
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(EXTRA.findall(line)) <= set(known), line
    elif program == "flowloom":
        command = get_command(app)
        while args and isinstance(command, TyperGroup) and "|" not in args[0]:
            command, args = command.commands[args[0]], args[1:]
        command.make_parser(Context(command)).parse_args(args)


def anchors_of(page: Path) -> set[str]:
    """The fragments that a page's headings can be linked by."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """Where a page's examples live: a module, so that annotations in them are found; in an empty folder, without keys
    and telemetry.
    """
    for name in filter(SETTINGS.match, list(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    monkeypatch.chdir(tmp_path)
    made = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", made)
    return made


def test_the_readme_is_one_script(module: ModuleType) -> None:
    """Its python blocks, one below the other, are a plain script; a text block after one is its whole output."""
    for example in examples_of(README):
        printed = run_in_script(example, README, module)
        assert printed.rstrip() == example.printed.rstrip(), f"README.md, line {example.line}"


@pytest.mark.parametrize("page", DOCS, ids=name_of)
def test_each_page_is_one_notebook(page: Path, module: ModuleType) -> None:
    """The python blocks of a page run in order as cells of a notebook; a text block after one is its whole output."""
    with asyncio.Runner() as runner:
        for example in examples_of(page):
            printed = runner.run(run_in_notebook(example, page, module))
            assert printed.rstrip() == example.printed.rstrip(), f"{page.name}, line {example.line}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_command_of_a_page_exists(page: Path) -> None:
    """Commands that a page names have the subcommands, options, targets and extras that it says."""
    for line in commands_of(page):
        check_command(line)


def test_commands_that_are_shown_with_their_output_print_it(tmp_path: Path) -> None:
    """What ends by itself, on an agent of the examples, is run: it prints the lines that are shown."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    ran: list[str] = []
    for line, shown in (each for page in DOCS for each in shown_commands(page)):
        program, *args = shlex.split(line.removesuffix("< /dev/null"))
        if program == "flowloom" and "examples/travel_desk" in args and (args[0] == "explain" or "-m" in args):
            done = run_command(*args, cwd=tmp_path)
            assert set(shown.splitlines()) <= {each.rstrip() for each in (done.stdout + done.stderr).splitlines()}, line
            ran.append(args[0])
    assert sorted(ran) == ["explain", "run"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_each_link_of_a_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    """A relative link names a file that is there, and a fragment a heading of that file."""
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        file, _, fragment = link.partition("#")
        target = page.parent / file if file else page
        assert target.exists(), f"{page.name} links to {link}"
        assert not fragment or fragment in anchors_of(target), f"{page.name} links to {link}"


def test_the_index_lists_every_page() -> None:
    """A page that the index does not name is not found by a reader."""
    listed = set(LINK.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8")))
    assert {page.name for page in DOCS if page.name != "index.md"} <= listed


def test_the_site_has_every_page() -> None:
    """A page that the navigation leaves out is an error of `make docs`, which also checks all links."""
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert pages <= set(re.findall(r"[\w/]+\.md", nav))


def test_the_index_tells_the_rooms_in_the_order_of_their_floors() -> None:
    """All of them are told; rooms between two `>` are on one floor, above those that follow."""
    [told] = [
        text for _, text in FENCE.findall((ROOT / "docs" / "index.md").read_text(encoding="utf-8")) if ">" in text
    ]
    rows = [[room.strip() for room in rooms.split(",")] for rooms in told.split(">")]
    floors = [{FLOOR_OF[room] for room in row} for row in rows]
    assert {room for row in rows for room in row} == FLOOR_OF.keys() - {"__main__"}
    assert all(len(floor) == 1 for floor in floors)
    assert floors == sorted(floors, key=max, reverse=True)


def test_the_picture_of_the_house_shows_the_imports_of_the_source() -> None:
    """What `python docs/house.py` draws is what is in the file."""
    house = runpy.run_path(str(ROOT / "docs" / "house.py"))
    assert house["drawn"]() == house["PICTURE"].read_text(encoding="utf-8"), "run `python docs/house.py`"


ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SPAN = re.compile(r"`([^`]+)`")


def test_every_file_that_the_architecture_names_exists() -> None:
    """A path is one below the package, or below the project."""
    paths = {
        span for span in SPAN.findall(ARCHITECTURE) if re.fullmatch(r"[\w/]+(/|\.\w+)", span) and not span[0].isupper()
    }
    assert len(paths) > 30
    assert [path for path in sorted(paths) if not (PACKAGE / path).exists() and not (ROOT / path).exists()] == []


def test_every_name_of_the_architecture_is_defined_in_a_file_beside_it() -> None:
    """A name in a row of a table is defined in a file of that row, any other one in the package."""
    everywhere = {name for path in PACKAGE.rglob("*.py") for name in defined_in(path)}
    for line in ARCHITECTURE.splitlines():
        spans = SPAN.findall(line)
        files = [PACKAGE / span for span in spans if span.endswith(".py")] if line.startswith("|") else []
        known = {name for path in files for name in defined_in(path)} if files else everywhere
        assert {span for span in spans if re.fullmatch(r"\w+|[A-Z]\w*\.\w+", span)} <= known, line


def test_a_message_comes_by_all_places_that_the_architecture_names() -> None:
    """A breakpoint at each of the ten is reached by one message whose answer calls a tool, in this order."""
    rows = re.findall(r"^\| \d+ \|[^|]+\|([^|]+)\|", ARCHITECTURE, re.MULTILINE)
    reached: dict[str, int] = {}

    def note(frame: FrameType, happened: str, _: object) -> None:
        if happened == "call":
            reached.setdefault(frame.f_code.co_qualname, len(reached))

    agent = LlmAgent(name="clerk", model=ScriptedModel([call("add", a=1, b=2), "3."]), tools=[add])
    with asyncio.Runner() as runner:
        sys.setprofile(note)
        try:
            result = runner.run(InMemoryRunner(agent).run_debug("One and two?", quiet=True))
        finally:
            sys.setprofile(None)
    assert result[-1].text == "3."
    places = [SPAN.findall(row) for row in rows]
    assert len(places) == 10
    missing = {name for names in places for name in names} - reached.keys()
    assert missing == set()
    before = [reached[names[0]] for names in places[:7]]  # events and the ledger come by from the message on
    assert before == sorted(before)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@cache
def defined_in(path: Path) -> frozenset[str]:
    """The functions, classes, constants and methods of a file."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    inner = [(f"{node.name}.", each) for node in body if isinstance(node, ast.ClassDef) for each in node.body]
    names: set[str] = set()
    for prefix, node in [*(("", each) for each in body), *inner]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(prefix + node.name)
        elif isinstance(node, ast.Assign):
            names |= {prefix + ast.unparse(target) for target in node.targets}
    return frozenset(names)


SHOWN = "agents artifacts client context human interop memory plugins providers runner tools wrappers".split()
"""The rooms whose names are all for users."""


def test_every_public_class_is_named_in_the_docs() -> None:
    """Each name that can be imported from the package or a room for users, errors aside, stands on some page."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    names = {*flowloom.__all__, *(name for room in SHOWN for name in import_module(f"flowloom.{room}").__all__)}
    missing = {name for name in names if not name.endswith("Error") and not re.search(rf"\b{name}\b", text)}
    assert missing == set()


def test_the_changelog_has_an_entry_for_this_version() -> None:
    """The version of the package heads a section of the changelog."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{flowloom.__version__}]" in changelog
