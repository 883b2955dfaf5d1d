"""Instruction templates: the brace dialect and full Jinja2 (decision 17, cases area 13)."""

from __future__ import annotations

import re
from inspect import isawaitable
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from kit import context

from flowloom import FlowloomError, InMemoryArtifactService, InvocationContext, LlmAgent, LlmRequest, Template
from flowloom.errors import InputValidationError, MissingVariableError, TemplateError
from flowloom.processors import inject_session_state, instructions

STATE: dict[str, Any] = {
    "name": "Ann",
    "größe": "tall",
    "n": 3,
    "f": 0.5,
    "flag": True,
    "nothing": None,
    "facts": {"a": 1},
    "list": [1, "b"],
    "app:motto": "be kind",
    "user:city": "Oslo",
    "temp:mood": "calm",
    "_x1": "under",
}


def prepared(instruction: Any, state: dict[str, Any] | None = None, **fields: Any) -> InvocationContext:
    helper = LlmAgent(name="writer", instruction=instruction, **fields)
    return context(helper, state=dict(STATE if state is None else state))


async def rendered(instruction: Any, state: dict[str, Any] | None = None, **fields: Any) -> str:
    return await told(prepared(instruction, state, **fields))


async def told(ctx: InvocationContext) -> str:
    request = LlmRequest()
    made = instructions(ctx, request)
    if isawaitable(made):
        await made
    return str(request.config.system_instruction or "")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("{name}", "Ann"),
        ("{{name}}", "Ann"),
        ("{{{name}}}", "Ann"),
        ("{ name }", "Ann"),
        ("{{ name }}", "Ann"),
        ("{name?}", "Ann"),
        ("{ name? }", "Ann"),
        ("{gone?}", ""),
        ("{app:motto}", "be kind"),
        ("{user:city}", "Oslo"),
        ("{temp:mood}", "calm"),
        ("{app:gone?}", ""),
        ("{_x1}", "under"),
        ("{größe}", "tall"),
        ("{n} {f} {flag}", "3 0.5 True"),
        ("{nothing}", ""),
        ("{facts}", "{'a': 1}"),
        ("{list}", "[1, 'b']"),
        ("a {name}, b {user:city}", "a Ann, b Oslo"),
        ("{name}{name}", "AnnAnn"),
        ("line one\n\nline two {name}\n  {gone?}\nend\n", "line one\n\nline two Ann\n  \nend\n"),
    ],
)
async def test_decision_17_a_placeholder_is_filled(written: str, expected: str) -> None:
    """Two state vars, optional missing state, `{app:x}`, null value, multi-line mix: values go in by `str()`."""
    assert await rendered(f"<{written}>") == f"<{expected}>"


@pytest.mark.parametrize(
    "written",
    [
        "{invalid-key}",
        "{invalid:key}",
        "{a-b}",
        "{}",
        "{ }",
        "{{}}",
        "{1}",
        "{a b}",
        "{a:b:c}",
        "{app:}",
        "{app:a-b}",
        "{name??}",
        "{ name ? }",
        "{name.upper()}",
        "{name|upper}",
        "{name!r}",
        "{name:>10}",
        "{:name}",
        '{"name": 1}',
        '{"a": {"b": [1, 2]}}',
        "function f() { return 1; }",
        "if (x) { y() } else { z() }",
        "{",
        "}",
        "a } b { c",
        "${name}",
        "${HOME}/bin",
        "\\{name}",
        "{% if name %}",
        "{# name #}",
        "{%raw%}",
        "%} #} {% {#",
    ],
)
async def test_decision_17_every_other_use_of_braces_stays_as_written(written: str) -> None:
    assert await rendered(f"a {written} b") == f"a {written} b"


async def test_decision_17_literal_braces_and_placeholders_may_stand_side_by_side() -> None:
    source = 'Answer {name} as {"city": "x"} or `{% raw %}` in ${HOME} {user:city}.'
    assert await rendered(source) == 'Answer Ann as {"city": "x"} or `{% raw %}` in ${HOME} Oslo.'


@pytest.mark.parametrize("value", ["{n}", "{{n}}", "{% if x %}", "{{ 7*7 }}", "{# c #}", "$x \\{n}"])
async def test_decision_17_values_are_never_rendered_again(value: str) -> None:
    assert await rendered("<{v}> {n}", {"v": value, "n": 1}) == f"<{value}> 1"


async def test_a_missing_name_is_an_error_that_names_agent_variable_and_line() -> None:
    with pytest.raises(MissingVariableError) as caught:
        await rendered("first\nsecond {gone}\n")
    error = caught.value
    assert (error.agent, error.variable, error.line) == ("writer", "gone", 2)
    assert "writer" in str(error)
    assert "gone" in str(error)
    assert "2" in str(error)


async def test_the_error_text_tells_the_remedy_and_what_is_there() -> None:
    with pytest.raises(MissingVariableError, match=r"on_missing") as caught:
        await rendered("{gone}", {"there": 1})
    assert "there" in str(caught.value)


@pytest.mark.parametrize(("policy", "expected"), [("empty", "a  b"), ("keep", "a {gone} b")])
async def test_decision_17_on_missing_of_the_agent_decides(policy: str, expected: str) -> None:
    assert await rendered("a {gone} b", on_missing=policy) == expected


async def test_an_optional_name_is_empty_even_when_missing_ones_are_kept() -> None:
    assert await rendered("a {gone?} b", on_missing="keep") == "a  b"


async def with_artifact(instruction: Any, name: str, part: types.Part, **fields: Any) -> str:
    ctx = prepared(instruction, **fields)
    assert ctx.artifact_service is not None
    await ctx.artifact_service.save_artifact(
        app_name="app", user_id="ann", session_id="s1", filename=name, artifact=part
    )
    return await told(ctx)


async def files(texts: dict[str, str]) -> InMemoryArtifactService:
    service = InMemoryArtifactService()
    for name, text in texts.items():
        where = {"app_name": "app", "user_id": "ann", "session_id": "s1", "filename": name}
        await service.save_artifact(**where, artifact=types.Part(text=text))
    return service


async def test_an_artifacts_text_is_put_in() -> None:
    filled = await with_artifact("Rules: {artifact.rules.txt} for {name}", "rules.txt", types.Part(text="be {kind}"))
    assert filled == "Rules: be {kind} for Ann"


async def test_an_artifact_name_may_hold_anything_but_braces() -> None:
    assert await with_artifact("<{artifact.my file-2.md}>", "my file-2.md", types.Part(text="x")) == "<x>"


async def test_an_artifact_without_text_is_nothing() -> None:
    blob = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
    assert await with_artifact("<{artifact.pic}>", "pic", blob) == "<>"


async def test_an_optional_missing_artifact_is_nothing() -> None:
    assert await rendered("<{artifact.gone?}>") == "<>"


async def test_a_missing_artifact_is_an_error_that_names_it() -> None:
    with pytest.raises(MissingVariableError, match=r"gone\.txt") as caught:
        await rendered("x\n{artifact.gone.txt}")
    assert caught.value.line == 2


@pytest.mark.parametrize("policy", ["error", "empty", "keep"])
async def test_an_artifact_without_a_name_is_an_error_unless_optional(policy: str) -> None:
    """It is malformed, and not missing."""
    with pytest.raises(InputValidationError, match="line 1, names an artifact without a file name"):
        await rendered("{artifact.}", on_missing=policy)
    assert await rendered("<{artifact.?}>") == "<>"


@pytest.mark.parametrize("written", ["{artifact.x}", "{artifact.x?}"])
async def test_without_an_artifact_service_an_artifact_is_an_error_even_if_optional(written: str) -> None:
    ctx = context(LlmAgent(name="writer", instruction=written), artifact_service=None)
    with pytest.raises(TemplateError, match="artifact service"):
        await told(ctx)


async def test_the_four_failures_have_distinct_messages() -> None:
    """Missing state; missing artifact; no artifact service; empty artifact name | errors (distinct messages)."""
    texts: set[str] = set()
    for written, options in (
        ("{x}", {}),
        ("{artifact.x}", {}),
        ("{artifact.x}", {"artifact_service": None}),
        ("{artifact.}", {}),
    ):
        ctx = context(LlmAgent(name="writer", instruction=written), **options)
        with pytest.raises(FlowloomError) as caught:
            await told(ctx)
        texts.add(str(caught.value))
    assert len(texts) == 4


# -- Template: Jinja2 -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ state.name }}", "Ann"),
        ("{{ state['user:city'] }}", "Oslo"),
        ("{{ app.motto }} {{ user.city }} {{ temp.mood }}", "be kind Oslo calm"),
        ("{{ state.name | upper }}", "ANN"),
        ("{% if state.flag %}yes{% else %}no{% endif %}", "yes"),
        ("{% for i in state.list %}{{ i }};{% endfor %}", "1;b;"),
        ("{% raw %}{{ state.name }} {x}{% endraw %}", "{{ state.name }} {x}"),
        ("{{ state.gone | default('none') }}", "none"),
        ("{% if state.gone is defined %}x{% endif %}", ""),
        ("{{ agent.name }} in {{ session.id }}", "writer in s1"),
        ("<{{ state.nothing }}>", "<>"),
        ("{name} and {}", "{name} and {}"),
        ("ends with a line break\n", "ends with a line break\n"),
    ],
)
async def test_decision_17_a_template_is_full_jinja(source: str, expected: str) -> None:
    assert await rendered(Template(source)) == expected


async def test_a_template_reads_artifacts() -> None:
    filled = await with_artifact(Template("{{ artifact('a.md') | upper }}"), "a.md", types.Part(text="hi {{ x }}"))
    assert filled == "HI {{ X }}"


@pytest.mark.parametrize(("policy", "gone"), [("empty", ""), ("keep", "{{ artifact('gone') }}")])
async def test_what_becomes_of_missing_artifacts_leaves_those_alone_that_are_there(policy: str, gone: str) -> None:
    ctx = prepared(Template("{{ artifact('a.txt') }} {{ '' ~ artifact('gone') }}"), on_missing=policy)
    ctx.run.artifact_service = await files({"a.txt": "A"})
    assert await told(ctx) == f"A {gone}"


async def test_a_missing_artifact_that_is_empty_is_a_text() -> None:
    """It may be used as one."""
    ctx = prepared(Template("{{ artifact('gone') + '!' }}"), on_missing="empty")
    ctx.run.artifact_service = await files({})
    assert await told(ctx) == "!"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ 'Hi ' ~ gone }}", "Hi {{ gone }}"),
        ("{{ 'Hi ' ~ state.gone }}", "Hi {{ state.gone }}"),
        ("{{ 'Hi ' ~ state.facts.b.c ~ '!' }}", "Hi {{ state.facts.b.c }}!"),
        ("{% set it = 'Hi ' ~ user['gone by'] %}{{ it }}", "Hi {{ user['gone by'] }}"),
        ("{% set it = {'a': 1} %}{{ it.gone }}", "{{ it.gone }}"),
        ("{{ [state.gone, 1] | join(', ') }}", "{{ state.gone }}, 1"),
        ("{{ [state.gone, 1] }}", "[{{ state.gone }}, 1]"),
        ("{{ {'a': state.gone} }}", "{'a': {{ state.gone }}}"),
        ("{{ artifact('gone') ~ state.gone }}", "{{ artifact('gone') }}{{ state.gone }}"),
        ("{{ ([] | first).a }}", "{{ a }}"),
        ("{{ gone.__class__ }}", "{{ gone.__class__ }}"),
    ],
)
async def test_a_missing_value_that_is_kept_may_stand_within_an_expression(source: str, text: str) -> None:
    """It is written there as in its template, as far as it has a place."""
    ctx = prepared(Template(source), on_missing="keep")
    ctx.run.artifact_service = await files({})
    assert await told(ctx) == text


@pytest.mark.parametrize("source", ["{{ [state.gone] }}", "{{ {'a': [state.gone]} }}"])
async def test_a_missing_value_in_a_list_is_missing(source: str) -> None:
    """It is an error, or nothing."""
    with pytest.raises(MissingVariableError, match=r"`state\.gone`"):
        await rendered(Template(source))
    assert "Undefined" not in await rendered(Template(source), on_missing="empty")


async def test_a_template_names_what_is_missing() -> None:
    with pytest.raises(MissingVariableError) as caught:
        await rendered(Template("one\ntwo\n{{ state.gone }}"))
    assert caught.value.agent == "writer"
    assert caught.value.line == 3
    assert "gone" in caught.value.variable


async def test_a_missing_artifact_of_a_template_is_an_error_that_names_it() -> None:
    with pytest.raises(MissingVariableError, match="gone"):
        await rendered(Template("{{ artifact('gone') }}"))


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("{{ state.gone }}", "state.gone"),
        ("{{ user.gone }} of {{ user.city }}", "user.gone"),
        ("{{ temp['gone by'] }}", "temp['gone by']"),
        ("{{ state.facts.b }}", "state.facts.b"),
        ("{{ state.gone.b }}", "state.gone"),
        ("{{ state.list[7] }}", "state.list[7]"),
        ("{% for each in state.people %}{{ each.age }}{% endfor %}", "state.people[1].age"),
        ("{{ agent.gone }}", "agent.gone"),
        ("{{ gone.b }}", "gone"),
        ("{{ artifact('a.txt') or state.gone }}", "state.gone"),
    ],
)
async def test_decision_17_a_template_names_where_a_missing_value_should_be(source: str, missing: str) -> None:
    ctx = prepared(Template(source), {**STATE, "people": [{"age": 1}, {"name": "Bob"}]})
    ctx.run.artifact_service = await files({"a.txt": ""})
    with pytest.raises(MissingVariableError, match=f"`{re.escape(missing)}`") as caught:
        await told(ctx)
    assert caught.value.variable == missing


@pytest.mark.parametrize(
    "kept",
    [
        "{{ state.gone }}",
        "{{ state.facts.b }}",
        "{{ state.gone.b[0].c }}",
        "{{ user['gone by'] }}",
        "{{ gone }}",
        "{{ gone.b }}",
        "{{ artifact('gone') }}",
    ],
)
async def test_on_missing_rules_templates_too(kept: str) -> None:
    ctx = prepared(Template(f"a {kept} b"), on_missing="keep")
    ctx.run.artifact_service = await files({})
    assert await told(ctx) == f"a {kept} b"
    ctx = prepared(Template(f"a {kept} b"), on_missing="empty")
    ctx.run.artifact_service = await files({})
    assert await told(ctx) == "a  b"


async def test_what_is_missing_and_has_no_place_is_told_in_jinjas_words() -> None:
    with pytest.raises(MissingVariableError, match="No first item"):
        await rendered(Template("{{ [] | first }}"))


async def test_a_missing_value_that_is_kept_is_none_for_conditions_and_defaults() -> None:
    source = "{% if state.gone %}x{% endif %}{{ state.gone | default('y') }}{% for a in state.gone %}z{% endfor %}"
    assert await rendered(Template(source), on_missing="keep") == "y"


def test_a_malformed_template_is_an_error_when_it_is_made() -> None:
    with pytest.raises(TemplateError, match=r"line 2"):
        Template("ok\n{% if %}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ state.__class__.__mro__ }}",
        "{{ ''.__class__ }}",
        "{{ agent.__init__.__globals__ }}",
        "{% set _ = state.update({'x': 1}) %}",
        "{% set _ = state.list.append(1) %}",
    ],
)
async def test_decision_17_a_template_is_sandboxed(source: str) -> None:
    """Neither Python's insides nor the state can be got at."""
    ctx = prepared(Template(source))
    before = repr(ctx.session.state)
    with pytest.raises(Exception):  # noqa: B017, PT011 - jinja2's own security error, or an undefined name
        await told(ctx)
    assert repr(ctx.session.state) == before


async def test_what_a_template_puts_in_is_never_rendered_again() -> None:
    assert await rendered(Template("{{ state.v }}"), {"v": "{{ 7*7 }} {x}"}) == "{{ 7*7 }} {x}"


# -- laws -------------------------------------------------------------------------------------------

plain = st.text(alphabet=st.characters(exclude_characters="{}", exclude_categories=["Cs"]), max_size=30)


@given(text=plain)
async def test_a_text_without_braces_is_not_templated(text: str) -> None:
    assert await rendered(text) == text


@given(pieces=st.lists(st.tuples(plain, st.sampled_from(["name", "n", "user:city"])), max_size=6), end=plain)
async def test_only_placeholders_change(pieces: list[tuple[str, str]], end: str) -> None:
    """Whatever stands around a placeholder stays as written, `\\` and `$` before it excepted."""
    pieces = [(before.rstrip("$\\"), name) for before, name in pieces]
    source = "".join(f"{before}{{{name}}}" for before, name in pieces) + end
    assert await rendered(source) == "".join(f"{before}{STATE[name]}" for before, name in pieces) + end


@given(value=st.text(max_size=40))
async def test_any_value_goes_in_as_it_is(value: str) -> None:
    assert await rendered("<{v}>", {"v": value}) == f"<{value}>"


@given(source=st.text(alphabet="{}%#$\\ na:?.'\"\n1", max_size=25))
async def test_any_text_is_an_instruction(source: str) -> None:
    """No text of braces and signs breaks the dialect; without known names everything stays as written or is empty."""
    await rendered(source, {}, on_missing="empty")


async def test_a_missing_name_is_told_with_its_line_whatever_stands_before_it() -> None:
    """And with the keys that are there."""
    for source, line in (("\n{gone}", 2), ("{name}\n\n{gone}", 3), ("{gone}\n", 1), ("{not so}\n{gone}", 2)):
        with pytest.raises(
            MissingVariableError, match=rf"of agent `writer`, line {line} needs .* State keys: name\."
        ) as e:
            await rendered(source, {"name": "Ann"})
        assert (e.value.line, e.value.variable) == (line, "gone")
    with pytest.raises(MissingVariableError, match="State keys: none"):
        await rendered("{gone}", {})


async def test_names_and_artifacts_may_stand_side_by_side() -> None:
    """Each is filled in."""
    ctx = prepared("{name}, {artifact.a.txt?}{n} {city?}{app:motto}\r\n")
    ctx.run.artifact_service = InMemoryArtifactService()
    where = {"app_name": "app", "user_id": "ann", "session_id": "s1"}
    await ctx.run.artifact_service.save_artifact(**where, filename="a.txt", artifact=types.Part(text="A"))
    assert await told(ctx) == "Ann, A3 be kind\r\n"


async def test_a_template_may_lack_what_is_no_plain_name() -> None:
    """Jinja2's words say what it is."""
    with pytest.raises(MissingVariableError, match="needs the variable `gone`") as missing:
        await rendered(Template("{{ gone }}"))
    assert missing.value.variable == "gone"
    ctx = prepared(Template("{{ artifact('a.txt') }}"))
    ctx.run.artifact_service = InMemoryArtifactService()
    with pytest.raises(MissingVariableError, match=r"of agent `writer` needs the artifact `a\.txt`"):
        await told(ctx)
    with pytest.raises(MissingVariableError, match="value of which Jinja2 says: 'dict object' has no attribute 'b'"):
        await rendered(Template("{{ state.facts.b }}"))


async def test_a_provider_may_fill_in_artifacts_itself() -> None:
    """And names alone, at once."""
    ctx = prepared(lambda readonly: inject_session_state("{name} {artifact.a.txt?}", readonly))
    ctx.run.artifact_service = InMemoryArtifactService()
    assert await told(ctx) == "Ann "


async def test_an_agent_that_was_changed_is_instructed_by_what_it_is_now() -> None:
    """Each of its instructions is filled in by itself."""
    helper = LlmAgent(name="a", instruction="Help {name}.", global_instruction="All {n}.")
    helper.description = "changed"
    assert await told(context(helper, state=dict(STATE))) == "All 3.\n\nHelp Ann."
    helper.instruction = "Ask {name}."
    assert await told(context(helper, state=dict(STATE))) == "All 3.\n\nAsk Ann."


async def test_a_template_with_files_tells_what_else_is_missing() -> None:
    """With its line; a file that may be missing is nothing."""
    ctx = prepared(Template("{{ artifact('a.txt') }}.\n{{ gone }}"), on_missing="empty")
    ctx.run.artifact_service = InMemoryArtifactService()
    assert await told(ctx) == ".\n"
    ctx = prepared(Template("{{ user.city }}\n{{ gone.a }}{{ artifact('a.txt') }}"))
    ctx.run.artifact_service = InMemoryArtifactService()
    with pytest.raises(MissingVariableError, match="of agent `writer`, line 2 needs the variable `gone`") as missing:
        await told(ctx)
    assert (missing.value.variable, missing.value.line) == ("gone", 2)


def test_a_template_is_strict_if_no_agent_says_otherwise() -> None:
    """As `render` is called by a provider."""
    ctx = prepared("")
    assert Template("{{ state.name }}").render(ctx) == "Ann"
    with pytest.raises(MissingVariableError):
        Template("{{ gone }}").render(ctx)


async def test_names_beside_files_are_looked_for_by_the_same_rule() -> None:
    """Kept, left out, or an error that tells which kind of thing is missing, and where."""
    source = "\n{X}\n{gone}{artifact.gone.txt}"

    async def made_of(text: str, **fields: Any) -> str:
        ctx = prepared(text, {"X": 1, "Y": 2}, **fields)
        ctx.run.artifact_service = InMemoryArtifactService()
        return await told(ctx)

    assert await made_of(source, on_missing="keep") == "\n1\n{gone}{artifact.gone.txt}"
    assert await made_of(source, on_missing="empty") == "\n1\n"
    with pytest.raises(MissingVariableError, match=r"line 3 needs the variable `gone`, .* State keys: X, Y\."):
        await made_of(source)
    with pytest.raises(MissingVariableError, match=r"line 2 needs the artifact `gone\.txt`, ") as missing:
        await made_of("{X}\n{artifact.gone.txt}")
    assert missing.value.variable == "gone.txt"
