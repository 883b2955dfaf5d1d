"""The HTML page of an assembly."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any

import kit
from google.genai import types

from flowloom import Flow, LlmAgent, LlmRequest, LlmResponse
from flowloom.inspection.explanation import explain
from flowloom.inspection.page import page_of

ATTACK = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7 * 7 }}&amp;"
VOID = {"meta", "input", "img", "br", "link"}


class Page(HTMLParser):
    """What a page holds, read as a browser would."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()

    @property
    def text(self) -> str:
        return "".join(self.words)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for _, attrs in self.tags if name in (attrs.get("class") or "").split()]


def paint(colour: str) -> str:
    """Paint the fence.

    Args:
        colour: What it looks like afterwards.
    """
    return colour


def painter(**fields: Any) -> LlmAgent:
    return kit.agent("painter", instruction="Paint well.", tools=[paint], **fields)


async def html_of(agent: LlmAgent | None = None, **options: Any) -> str:
    return (await explain(agent or painter(), "Hello", **options)).to_html()


async def test_it_is_one_file_that_loads_nothing_and_runs_nothing() -> None:
    source = await html_of()
    page = Page(source)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "img", "iframe", "object", "base", "form"})
    assert not re.search(r"https?:|//|url\(|@import|javascript:|\son\w+=", source)
    for _, attrs in page.tags:
        assert (attrs.get("href") or "#").startswith("#")


async def test_its_elements_are_closed_in_order() -> None:
    page = Page(await html_of())
    assert page.open == []
    assert page.tags[0] == ("html", {"lang": "en"})


async def test_its_links_and_labels_lead_somewhere() -> None:
    page = Page(await html_of())
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for _, attrs in page.tags:
        for target in (attrs.get("href", "#system"), f"#{attrs.get('aria-labelledby', 'system')}"):
            assert (target or "").removeprefix("#") in ids


async def test_everything_that_the_request_says_is_on_it() -> None:
    history = [
        types.Content(role="model", parts=[kit.text("Hm.", thought=True), kit.named_call("c1", "paint", colour="red")]),
        kit.user(kit.result("c1", "paint", {"result": "red paint"})),
    ]
    text = Page(await html_of(history=history)).text
    for words in (
        "painter asks scripted",
        "Paint well.",
        "paint(colour)",
        "colour: string",
        "What it looks like afterwards.",
        "thinks Hm.",
        'calls paint(colour="red")  [call_1]',
        'result paint = "red paint"  [call_1]',
        "Hello",
        "config.system_instruction[0]",
    ):
        assert words in text


async def test_every_piece_has_the_name_of_its_author_beside_its_colour() -> None:
    assembly = await explain(painter(), "Hello")
    source = assembly.to_html()
    articles = re.findall(r'<article class="piece p(\d+).*?</article>', source, re.S)
    chips = re.findall(r'<a class="chip" href="#step-(\d+)"[^>]*><i></i>([^<]+)</a>', source)
    assert articles == [number for number, _ in chips]
    names = [step.name for step in assembly.steps]
    assert [names[int(number) - 1] for number in articles] == [name for _, name in chips]
    assert sorted(name for _, name in chips) == sorted(section.by or "" for section in assembly.sections)


async def test_processors_have_colours_of_their_own() -> None:
    hues = re.findall(r"^\.p\d+ \{ --edge: oklch\(\S+ \S+ (\d+)\)", await html_of(), re.M)
    assert len(hues) == len(set(hues)) == 13


async def test_a_processor_that_wrote_something_can_be_chosen() -> None:
    """Without a script: a radio button, and a rule that hides what others wrote."""
    assembly = await explain(painter(), "Hello")
    source = assembly.to_html()
    chosen = {int(number) for number in re.findall(r'<input type="radio" name="only" id="only-(\d+)"', source)}
    names = [step.name for step in assembly.steps]
    assert {names[number - 1] for number in chosen - {0}} == {section.by for section in assembly.sections}
    for number in chosen - {0}:
        hiding = rf"#only-{number}:checked\) :is\(\.piece, \.step\):not\(\.p{number}\).* \{{ display: none; \}}"
        assert re.search(hiding, source)


async def test_bars_are_as_long_as_their_times() -> None:
    data = (await explain(painter(), "Hello")).to_dict()
    for number, step in enumerate(data["steps"]):
        step["microseconds"] = 1000.0 * (number + 1)
    widths = [float(width) for width in re.findall(r'<span style="width: ([\d.]+)%">', page_of(data))]
    assert widths == [round(100 * (number + 1) / 13, 2) for number in range(13)]


async def test_changes_have_before_and_after() -> None:
    def louder(ctx: Any, request: LlmRequest) -> None:
        request.config.temperature = 0.9

    config = types.GenerateContentConfig(temperature=0.25)
    agent = painter(flow=Flow().with_processor(louder), generate_content_config=config)
    text = " ".join(Page(await html_of(agent)).text.split())
    assert "config.temperature added 0.25" in text
    assert "config.temperature changed before 0.25 after 0.9" in text


async def test_a_long_instruction_is_folded_and_whole() -> None:
    long = "\n".join(f"Rule {number}." for number in range(40))
    model = kit.model("never")
    page = Page((await explain(LlmAgent(name="root", model=model, instruction=long), "Be short.")).to_html())
    assert len(page.with_class("long")) == 1
    assert long in page.text
    assert "Rule 0." in page.text[: page.text.index("Rule 9. …")]
    short = Page((await explain(LlmAgent(name="root", model=model, instruction="One."), "Be short.")).to_html())
    assert not short.with_class("long")


async def test_the_list_of_processors_scrolls_downwards_only() -> None:
    """Nothing in it is wider than it is: what is as wide as all of it has no margins."""
    style = (await explain(LlmAgent(name="root", model=kit.model("never")), "hi")).to_html().partition("</style>")[0]
    rail = dict(re.findall(r"(\.rail[^{,]*) \{([^}]*)\}", style))
    assert "overflow: hidden auto" in rail[".rail"]
    assert "margin" not in rail[".rail legend"]


async def test_warnings_come_first() -> None:
    agent = painter(before_model_callback=kit.Ran().gives("answer", LlmResponse(content=kit.said("No."))))
    text = Page(await html_of(agent)).text
    assert text.index("The model is not asked") < text.index("Paint well.")


async def test_nothing_in_a_request_becomes_markup() -> None:
    """Wherever the text comes from, it is shown and not run."""

    def attacking(ctx: Any, request: LlmRequest) -> None:
        request.config.tools = [
            types.Tool(
                function_declarations=[
                    types.FunctionDeclaration(
                        name=ATTACK,
                        description=ATTACK,
                        parameters_json_schema={"properties": {ATTACK: {"enum": [ATTACK], "description": ATTACK}}},
                    )
                ]
            )
        ]
        request.config.stop_sequences = [ATTACK]
        request.contents.append(types.Content(role=ATTACK, parts=[kit.named_call("c1", ATTACK, **{ATTACK: ATTACK})]))
        request.model = ATTACK

    attacking.__name__ = attacking.__qualname__ = ATTACK
    agent = kit.agent("painter", instruction="{attack}", flow=Flow().with_processor(attacking))
    file = types.Blob(data=b"1", mime_type=ATTACK, display_name=ATTACK)
    history = [kit.user(kit.text(ATTACK), types.Part(inline_data=file))]
    assembly = await explain(agent, ATTACK, history=history, state={"attack": ATTACK})
    page = Page(assembly.to_html())
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img"})
    assert not [name for _, attrs in page.tags for name in attrs if name.startswith("on")]
    assert page.text.count(ATTACK) > 15, page.text.count(ATTACK)
    assert page.open == []


async def test_data_that_was_stored_cannot_become_markup_either() -> None:
    data = (await explain(painter(), "Hello")).to_dict()
    data["agent"] = data["halted_by"] = data["steps"][0]["name"] = data["sections"][0]["by"] = ATTACK
    data["tools_not_run"] = [ATTACK]
    data["steps"][0]["events"] = [{ATTACK: ATTACK}]
    page = Page(page_of(data))
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "img"})
    assert page.text.count(ATTACK) > 5


async def test_characters_that_a_browser_would_drop_are_shown() -> None:
    source = await html_of(kit.agent("painter", instruction="\x00 \x1b[31m \u202egnp \ud800"))
    assert "\\x00 \\x1b[31m \\u202egnp \\ud800" in source
    assert source.encode()


def test_jinja2_is_loaded_by_the_first_page_only() -> None:
    program = (
        "import asyncio, sys\n"
        "from flowloom import LlmAgent\n"
        "from flowloom.inspection.explanation import explain\n"
        "assembly = asyncio.run(explain(LlmAgent(name='a', model='gemini-2.5-flash'), 'Hello'))\n"
        "str(assembly)\n"
        "print('jinja2' in sys.modules)\n"
        "assembly.to_html()\n"
        "print('jinja2' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
