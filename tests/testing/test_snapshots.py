"""Snapshots of requests and events, in a pytest of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

MODULE = """
    from flowloom import InMemoryRunner, LlmAgent, explain
    from flowloom.inspection import EventsView, RequestView
    from flowloom.testing import ScriptedModel, call

    def look(place: str) -> str:
        "{docstring}"
        return "a door"

    def guide(*answers):
        helper = LlmAgent(name="helper", model=ScriptedModel([]), description="{description}")
        return LlmAgent(name="guide", model=ScriptedModel(answers), instruction="{instruction}", tools=[look],
                        sub_agents=[helper])

    def alone():
        return LlmAgent(name="alone", model=ScriptedModel([]), instruction="Wait.")

    async def test_guide(request_snapshot):
        assert await explain(guide(), "hi") == request_snapshot

    async def test_helper(request_snapshot):
        assert await explain(guide().sub_agents[0], "hi") == request_snapshot

    async def test_alone(request_snapshot):
        assert await explain(alone(), "hi") == request_snapshot

    async def test_steps(request_snapshot):
        assert (await explain(guide(), "hi")).steps == request_snapshot

    async def test_events(event_snapshot, request_snapshot):
        agent = guide(call("look", place="here"), "There is a door.")
        runner = InMemoryRunner(agent)
        events = [e async for e in runner.run_async(user_id="u", session_id="s", new_message="hi")]
        assert events == event_snapshot
        assert agent.model.requests == request_snapshot
"""
WORDS = {"docstring": "Look somewhere.", "description": "Helps.", "instruction": "Guide people."}
ALL = {"test_guide", "test_helper", "test_alone", "test_steps", "test_events"}
Run = Callable[..., "pytest.RunResult"]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Runs the module with some words changed; returns what came of it."""
    pytester.makeini("[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function")

    def run_module(*options: str, source: str = MODULE, **words: str) -> pytest.RunResult:
        text = source
        for name, value in (WORDS | words).items():
            text = text.replace(f"{{{name}}}", value)
        pytester.makepyfile(test_it=text)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "no:xdist", *options)

    return run_module


def failed(result: pytest.RunResult) -> set[str]:
    """The tests that failed."""
    return {line.split("::")[1].split(" ")[0] for line in result.outlines if line.startswith("FAILED")}


def test_what_was_written_is_found_again(run: Run) -> None:
    assert failed(run()) == ALL
    run("--snapshot-update").assert_outcomes(passed=5)
    run().assert_outcomes(passed=5)


@pytest.mark.parametrize(
    ("change", "concerned", "processor"),
    [
        ({"instruction": "Guide folks."}, {"test_guide", "test_steps", "test_events"}, "instructions"),
        ({"docstring": "Look anywhere."}, {"test_guide", "test_steps", "test_events"}, "tool_declarations"),
        ({"description": "Assists."}, ALL - {"test_alone"}, "agent_transfer"),
    ],
    ids=["instruction", "docstring", "description"],
)
def test_one_word_shows_in_exactly_the_snapshots_concerned(
    run: Run, change: dict[str, str], concerned: set[str], processor: str
) -> None:
    """The failure names the processor that wrote the section, and shows both wordings."""
    run("--snapshot-update")
    result = run(**change)
    assert failed(result) == concerned
    ((name, word),) = change.items()
    result.stdout.fnmatch_lines([f"*(by `{processor}`)*"])
    result.stdout.fnmatch_lines([f"*- *{WORDS[name]}*", f"*+ *{word}*"])


def test_the_description_of_an_agent_is_in_its_own_identity(run: Run) -> None:
    run("--snapshot-update")
    run("-k", "helper", description="Assists.").stdout.fnmatch_lines(["*(by `identity`)*"])


def test_each_snapshot_is_one_readable_file(run: Run, pytester: pytest.Pytester) -> None:
    run("--snapshot-update")
    files = {path.name: path for path in (pytester.path / "__snapshots__" / "test_it").iterdir()}
    assert set(files) == {f"{name}.request.txt" for name in ALL} | {"test_events.events.txt"}
    lines = files["test_guide.request.txt"].read_text(encoding="utf-8").splitlines()
    assert 'config.system_instruction[0] = "Guide people."  ← instructions' in lines
    events = files["test_events.events.txt"].read_text(encoding="utf-8").splitlines()
    assert events[0] == "events[0]  ← guide"
    requests = files["test_events.request.txt"].read_text(encoding="utf-8").splitlines()
    assert requests[0] == 'requests[0].model = "scripted"  ← basic'


def test_parts_can_be_left_out_and_matched(run: Run) -> None:
    """`exclude`, `include` and `matcher` go by the paths of the request."""
    source = """
        import random
        import pytest
        from syrupy.filters import paths, props
        from syrupy.matchers import path_type
        from flowloom import LlmAgent, explain
        from flowloom.testing import ScriptedModel

        @pytest.fixture
        async def assembly():
            agent = LlmAgent(name="guide", model=ScriptedModel([]), instruction=f"Number {random.random()}.",
                             description="Guides.")
            return await explain(agent, "hi")

        def test_excluded_by_path(assembly, request_snapshot):
            assert assembly == request_snapshot(exclude=paths("config.system_instruction.0"))

        def test_excluded_by_name(assembly, request_snapshot):
            assert assembly == request_snapshot(exclude=props("system_instruction"))

        def test_included(assembly, request_snapshot):
            keep = lambda prop, path: prop in ("contents", 0, "role") and (path or prop == "contents")
            assert assembly == request_snapshot(include=keep)

        def test_matched(assembly, request_snapshot):
            assert assembly == request_snapshot(matcher=path_type({"config.system_instruction.0": (str,)}))

        def test_as_it_is(assembly, request_snapshot):
            assert assembly == request_snapshot
    """
    run("--snapshot-update", source=source).assert_outcomes(passed=5)
    assert failed(run(source=source)) == {"test_as_it_is"}


def test_what_cannot_be_compared_is_refused(run: Run) -> None:
    source = """
        def test_request(request_snapshot):
            assert 5 == request_snapshot

        def test_events(event_snapshot):
            assert ["no event"] == event_snapshot
    """
    result = run("--snapshot-update", source=source)
    assert failed(result) == {"test_request", "test_events"}
    result.stdout.fnmatch_lines(["*cannot compare int*"])


def test_a_damaged_snapshot_fails_and_says_where(run: Run, pytester: pytest.Pytester) -> None:
    run("--snapshot-update")
    path = pytester.path / "__snapshots__" / "test_it" / "test_alone.request.txt"
    path.write_text("model: nonsense\n", encoding="utf-8")
    result = run()
    assert failed(result) == {"test_alone"}
    result.stdout.fnmatch_lines(["*Line 1 is no part of a written request*"])


@pytest.mark.allow_model_requests
def test_a_test_that_would_call_a_hosted_model_fails(run: Run) -> None:
    """Even if the error was caught on its way; and not if the test is marked."""
    source = """
        import pytest
        from flowloom import Gemini, InMemoryRunner, LlmAgent

        def ask(**fields):
            model = Gemini(model="gemini-2.5-flash", api_key="k")
            agent = LlmAgent(name="talker", model=model, **fields)
            return list(InMemoryRunner(agent).run(user_id="u", session_id="s", new_message="hi"))

        def test_seen():
            ask()

        def test_caught():
            with pytest.raises(AssertionError):
                ask()
    """
    result = run(source=source)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*`talker` was about to call the hosted model `gemini-2.5-flash`*"])


def test_a_cassette_is_recorded_when_it_is_asked_for_and_played_after_that(run: Run, pytester: pytest.Pytester) -> None:
    """Beside the test, under its name; without a recording the test fails, and nothing is called."""
    source = """
        from flowloom import InMemoryRunner, LlmAgent
        from flowloom.testing import ScriptedModel

        ANSWERS = {answers}

        def test_talk(cassette):
            agent = LlmAgent(name="talker", model=cassette(ScriptedModel(ANSWERS)))
            events = list(InMemoryRunner(agent).run(user_id="u", session_id="s", new_message="hi"))
            assert events[-1].text == "recorded"
    """
    assert failed(run(source=source, answers="['recorded']")) == {"test_talk"}
    run("--cassettes", "record", source=source, answers="['recorded']").assert_outcomes(passed=1)
    assert [path.name for path in (pytester.path / "cassettes" / "test_it").iterdir()] == ["test_talk.jsonl"]
    run(source=source, answers="[]").assert_outcomes(passed=1)
    assert failed(run("--cassettes", "rewrite", source=source, answers="['other']")) == {"test_talk"}


def test_the_plugin_loads_nothing_that_a_test_does_not_use(pytester: pytest.Pytester, tmp_path: Path) -> None:
    """A project that has flowloom installed does not pay for it in every test run."""
    pytester.makepyfile(
        """
        import sys

        def test_nothing(request):
            rooms = "flowloom.agents", "flowloom.context.run", "flowloom.models", "flowloom.testing.scripted"
            heavy = (*rooms, "google.genai", "opentelemetry")
            assert [name for name in heavy if name in sys.modules] == []
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


SECRET = """
    from flowloom import InMemoryRunner, LlmAgent
    from flowloom.testing import ScriptedModel, call

    def unlock(password: str) -> dict:
        "Unlock the door."
        return {"headers": {"Authorization": "Basic abc"}, "said": "{instruction}"}

    async def test_events(event_snapshot, request_snapshot):
        model = ScriptedModel([call("unlock", password="swordfish"), "It is {instruction}."])
        agent = LlmAgent(name="guide", model=model, instruction="Say {instruction}.", tools=[unlock])
        events = [e async for e in InMemoryRunner(agent).run_async(user_id="u", session_id="s", new_message="hi")]
        assert events == event_snapshot
        assert model.requests == request_snapshot
"""


def test_no_snapshot_holds_a_secret(run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the value of a variable whose name says so, nor what a declared field or header holds."""
    monkeypatch.setenv("DOOR_PASSWORD", "open-sesame")
    run("--snapshot-update", source=SECRET, instruction="open-sesame")
    files = [path.read_text() for path in pytester.path.rglob("*.txt")]
    assert len(files) == 2
    for text in files:
        assert "<redacted DOOR_PASSWORD>" in text
        assert "<redacted password>" in text
        assert "<redacted Authorization>" in text
        assert not [secret for secret in ("open-sesame", "swordfish", "Basic abc") if secret in text]
    run(source=SECRET, instruction="open-sesame").assert_outcomes(passed=1)
