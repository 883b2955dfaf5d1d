"""The README and the pages in docs: each example runs and prints what the page says, each link leads somewhere."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from opentelemetry import trace
from opentelemetry.util._once import Once

import flowloom

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
SETTINGS = re.compile("(GOOGLE|GEMINI|OTEL|OPENAI|ANTHROPIC|OLLAMA)_")


class Example(NamedTuple):
    """A python block, and what the text block right after it says that it prints."""

    source: str
    line: int
    printed: str


def examples_of(page: Path) -> Iterator[Example]:
    text = page.read_text(encoding="utf-8")
    blocks = list(FENCE.finditer(text))
    for block, following in zip(blocks, [*blocks[1:], None], strict=True):
        if block[1] != "python":
            continue
        printed = following[2] if following is not None and following[1] == "text" else ""
        yield Example(block[2], text.count("\n", 0, block.start(2)), printed)


def run_example(example: Example, page: Path, module: ModuleType, runner: asyncio.Runner) -> str:
    """Run one block and return what it prints; `await` may stand outside of functions."""
    code = compile("\n" * example.line + example.source, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        if code.co_flags & inspect.CO_COROUTINE:

            async def awaited() -> None:
                await eval(code, vars(module))

            runner.run(awaited())
        else:
            exec(code, vars(module))
    return printed.getvalue()


def anchors_of(page: Path) -> set[str]:
    """The fragments that a page's headings can be linked by."""
    headings = HEADING.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Where a page's examples live: a module, so that annotations in them are found; without keys and telemetry."""
    for name in filter(SETTINGS.match, list(os.environ)):
        monkeypatch.delenv(name)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    made = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", made)
    return made


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_example_of_a_page_prints_what_the_page_says(page: Path, module: ModuleType) -> None:
    """The python blocks of a page run one after another in one module; a text block after one is its whole output."""
    with asyncio.Runner() as runner:
        for example in examples_of(page):
            printed = run_example(example, page, module, runner)
            assert printed.rstrip() == example.printed.rstrip(), f"{page.name}, line {example.line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
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
    assert {page.name for page in PAGES if page.parent.name == "docs" and page.name != "index.md"} <= listed


def test_every_public_class_is_named_in_the_docs() -> None:
    """Each name that can be imported from the package, errors aside, stands on some page."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    missing = {name for name in flowloom.__all__ if not name.endswith("Error") and not re.search(rf"\b{name}\b", text)}
    assert missing == set()


def test_the_changelog_has_an_entry_for_this_version() -> None:
    """The version of the package heads a section of the changelog."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{flowloom.__version__}]" in changelog
