"""The rules of the house that a machine can read off the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import cast

import flowloom

PACKAGE = Path(flowloom.__file__).parent

# From the ground up; a module may import its own room and the rooms on lower floors.
FLOORS: list[set[str]] = [
    {"errors"},
    {"extras"},
    {"objects", "schemas"},
    {"events"},
    {"sql", "auth", "asgi"},
    {"models"},
    {"log"},
    {"sessions", "artifacts"},
    {"memory"},
    {"context"},
    {"telemetry", "compaction"},
    {"tools"},
    {"processors"},
    {"flow"},
    {"agents"},
    {"plugins"},
    {"run_stream"},
    {"runner"},
    {"inspection"},
    {"providers", "offline"},
    {"interop", "wrappers"},
    {"client", "human"},
    {"protocols", "durable"},
    {"skills"},
    {"config"},
    {"testing"},
    {"server"},
    {"cli", "adk"},
    {"__main__"},
]
UPWARD = {"flow/flow.py imports flowloom.inspection.assembly"}
"""The import that runs upwards: `Flow.assemble` loads what looks at requests."""
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
# Rooms of optional extras may import them where they are used; Jinja2 is loaded by the first template or page, and the
# room that looks at requests by the first `Flow.assemble`.
EDGES = (
    "cli/",
    "server/__init__.py",
    "server/application.py",
    "server/models.py",
    "server/services.py",
    "__init__.py",
    "models/registry.py",
    "processors/template.py",
    "inspection/page.py",
    "flow/flow.py",
)
PLAYED = {"flow", "context", "log", "processors", "tools", "agents", "auth", "runner"}
"""The rooms that a run goes through."""
CHANCES = ("time", "datetime", "uuid", "random", "secrets", "flowloom.events.clock")
TIME_AND_CHANCE = {
    "auth/access.py": ["urandom"],  # the secret of a process, by which it knows its own requests
    # an exchange with a server is the effect of the tool that asks for it
    "auth/assertion.py": ["flowloom.events.clock", "new_id"],
    "auth/exchange.py": ["flowloom.events.clock"],
    "auth/service.py": ["urandom"],
    "context/ending.py": ["time"],  # for how long a cancelled run is waited for
    "context/invocation.py": ["new_id"],  # the session of a context that is made by hand
    "context/protocols.py": ["flowloom.events.clock", "new_id"],  # the effects themselves
    "flow/observed.py": ["time"],
    "processors/code_process.py": ["secrets"],  # names of folders that the code cannot know
}
OWN_FIELDS = {
    "cli/loading.py": ["vars"],  # the names of a module
    "context/invocation.py": ["__dict__", "object.__new__"],  # a context, which is no model, copies itself
    "interop/adk_pickle.py": ["__dict__", "__pydantic_extra__"],  # the words of a pickle
    "objects/on_use.py": ["vars"],  # the names of a module
    "objects/settings.py": ["vars"],  # of a class
    "plugins/plugin_manager.py": ["__dict__"],  # the hooks of a plugin that are set on the object
    "testing/cassette_file.py": ["vars"],  # errors, whose constructors may be any
    "testing/secrets.py": ["__dict__"],  # whatever may hold a secret
    "testing/suites/session_leases.py": ["vars"],  # an error
    "tools/schema.py": ["vars"],  # the names of a module
    "wrappers/fallback.py": ["vars"],  # errors, whose constructors may be any
}
MAX_LINES = 500
# The engine: the rooms that run an agent, and beside it the processors of the default list and the base of the tools.
ENGINE = {"flow", "log", "context", "runner", "events", "agents", "plugins"}
BESIDE = {
    "processors": "__init__ agent_transfer auth basic code_execution confirmation contents file_uploads identity "
    "instructions model_choice output_schema planning template tool_declarations tools unfinished",
    "tools": "__init__ base_tool base_toolset calls confirmation credential_request delegation docstrings "
    "function_tool input_request output pending request_record schema transfer validation",
}
# These numbers only fall: whoever makes one smaller writes down the smaller one.
ENGINE_LINES = 7636
BESIDE_LINES = 2807
PAST_LIMITS = 0
LIMITS = {"lines": 60, "depth": 5, "complexity": 15}
NESTING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension, ast.match_case)


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def room_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            named = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from {name if _path_of(name) else node.module for name in named}
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@cache
def _path_of(module: str) -> Path | None:
    """The file of one of the package's modules; None if there is none of that name."""
    stem = PACKAGE.parent.joinpath(*module.split("."))
    return next((path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.exists()), None)


def test_every_module_imports_its_own_floor_and_below_only() -> None:
    """Imports run downwards."""
    upward = {
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules()
        if (room := room_of(path)) != "__init__"
        for name in imports(parsed(path))
        if name.startswith("flowloom.") and (other := name.split(".")[1]) != room and FLOOR_OF[other] >= FLOOR_OF[room]
    }
    assert upward == UPWARD


def test_every_module_imports_at_the_top() -> None:
    """No import hides in a function, save at the edges named above."""
    hidden = [
        f"{path.relative_to(PACKAGE)}: {node.name} imports in its body"
        for path in modules()
        if not str(path.relative_to(PACKAGE)).startswith(EDGES)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(isinstance(each, ast.Import | ast.ImportFrom) for each in ast.walk(node))
    ]
    assert hidden == []


def test_what_a_run_decides_by_comes_from_its_effects() -> None:
    """Where agents run, nothing reads the clock or makes up an id by itself: what is done again takes the same way."""
    found = {
        str(path.relative_to(PACKAGE)): sorted({name for node in ast.walk(parsed(path)) for name in _chances(node)})
        for path in modules()
        if room_of(path) in PLAYED
    }
    assert {name: chances for name, chances in found.items() if chances} == TIME_AND_CHANCE


def _chances(node: ast.AST) -> Iterator[str]:
    """What a node imports of time and chance, and where it reads the system's randomness."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in CHANCES)
    elif isinstance(node, ast.ImportFrom):
        yield from (node.module for _ in node.names[:1] if node.module in CHANCES)
        yield from (alias.name for alias in node.names if alias.name == "new_id")
    elif isinstance(node, ast.Attribute) and node.attr == "urandom":
        yield node.attr


def test_every_module_is_of_readable_length() -> None:
    """Past 500 lines, something in a file wants a room of its own."""
    lines = {str(path.relative_to(PACKAGE)): len(path.read_text().splitlines()) for path in modules()}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


def test_every_room_says_what_it_may_import_and_where_to_begin_reading() -> None:
    """What stands in a room's docstring is true: the rooms that it names, and the files."""
    wrong: list[str] = []
    for path in sorted(PACKAGE.glob("*/__init__.py")):
        room, told = room_of(path), " ".join((ast.get_docstring(parsed(path)) or "").split())
        named = re.search(r"It imports (.+?)[.;] ", told)
        gone = [name for name in re.findall(r"`(\w+\.py)`", told) if not (path.parent / name).exists()]
        if named is None or "Begin with" not in told or gone:
            wrong.append(f"{room}: what it imports, and where to begin")
            continue
        if named[1].startswith("any other room"):
            continue
        rooms = re.findall(r"`(\w+)`", named[1])
        sources = "".join(each.read_text() for each in path.parent.rglob("*.py"))  # names that are loaded on use, too
        wrong += [f"{room} does not import {name}" for name in rooms if f"flowloom.{name}" not in sources]
        top = max(FLOOR_OF[name] for name in rooms)
        found = {name for each in path.parent.rglob("*.py") for name in imports(parsed(each))}
        used = {name.split(".")[1] for name in found if name.startswith("flowloom.")} - {room}
        wrong += [f"{room} imports {name}, too" for name in used if top < FLOOR_OF[name] < FLOOR_OF[room]]
    assert wrong == []


def test_every_room_has_a_floor() -> None:
    """A new room has to be given its place in the order of imports."""
    assert {room_of(path) for path in modules()} - {"__init__"} <= set(FLOOR_OF)


def lines_of_code(path: Path) -> int:
    """The lines that hold code: no blank line, no comment, no docstring."""
    said: set[int] = set()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            said.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(path.read_text().splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and at not in said for at, line in lines)


def test_the_engine_reads_in_an_afternoon() -> None:
    """What runs an agent stays within its lines of code; models, services, and what looks at it come beside it."""
    assert sum(lines_of_code(path) for path in modules() if room_of(path) in ENGINE) <= ENGINE_LINES


def test_what_stands_beside_the_engine_stays_small() -> None:
    """So do the processors that every agent has, and what all tools are made of."""
    paths = [PACKAGE / room / f"{name}.py" for room, names in BESIDE.items() for name in names.split()]
    assert sum(map(lines_of_code, paths)) <= BESIDE_LINES


def test_functions_of_the_engine_can_be_taken_in_at_a_glance() -> None:
    """No more functions than today are long, deep, or branch often."""
    past = [
        f"{path.relative_to(PACKAGE)}: {node.name} has {shape}"
        for path in modules()
        if room_of(path) in ENGINE
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any((shape := shape_of(node))[each] > most for each, most in LIMITS.items())
    ]
    assert len(past) <= PAST_LIMITS, "\n".join(past)


def shape_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, int]:
    """How many lines a function has, how deep it nests, and its cyclomatic complexity."""
    inner = list(ast.walk(function))
    complexity = 1 + sum(isinstance(node, BRANCHES) for node in inner)
    complexity += sum(len(node.values) - 1 for node in inner if isinstance(node, ast.BoolOp))
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    return {"lines": lines, "depth": depth_of(function), "complexity": complexity}


def depth_of(node: ast.AST) -> int:
    """How deep blocks nest; an `elif` is no deeper than its `if`, and functions within count for themselves."""
    deepest = 0
    for name, value in ast.iter_fields(node):
        children = cast(list[object], value) if isinstance(value, list) else [value]
        for child in children:
            if not isinstance(child, ast.AST) or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
                continue
            chained = isinstance(node, ast.If) and name == "orelse" and isinstance(child, ast.If) and len(children) == 1
            deepest = max(deepest, depth_of(child) + (isinstance(child, NESTING) and not chained))
    return deepest


def test_modules_import_each_other_in_no_circle() -> None:
    """There is no circle of imports, those for type checkers included."""
    assert [sorted(str(path.relative_to(PACKAGE)) for path in circle) for circle in circles()] == []


def circles() -> set[frozenset[Path]]:
    """The sets of modules each of which comes back to itself by what it imports, by way of all others of its set."""
    graph = {
        path: {found for name in imports(parsed(path)) if (found := _path_of(name))} - {path} for path in modules()
    }
    reached = {path: _reached(path, graph) for path in graph}
    found = {frozenset(each for each in reached[path] if path in reached[each]) for path in graph}
    return found - {frozenset()}


def _reached(start: Path, graph: dict[Path, set[Path]]) -> set[Path]:
    seen: set[Path] = set()
    waiting = [*graph[start]]
    while waiting:
        if (path := waiting.pop()) not in seen:
            seen.add(path)
            waiting.extend(graph[path])
    return seen


def test_google_genai_types_are_the_only_part_of_it_outside_the_adapter() -> None:
    """The client is loaded by the Gemini adapter alone."""
    for path in modules():
        if path.parent.name == "models" and path.stem.startswith("gemini"):
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("google.genai"):
                assert node.module == "google.genai", path
                assert [alias.name for alias in node.names] == ["types"], path


def test_the_public_names_are_sorted_and_exist() -> None:
    """`__all__` is in order, and every name in it can be had."""
    assert list(flowloom.__all__) == sorted(flowloom.__all__)
    for name in flowloom.__all__:
        assert getattr(flowloom, name) is not None


def test_type_checkers_see_the_names_that_run() -> None:
    """The stub beside the package names exactly what is loaded on first use, from the same places."""
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text())
    seen = {alias.name: node.module for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert sorted(seen) == flowloom.__all__
    for name, module in seen.items():
        assert vars(flowloom)["_home_of"][name] == module


def test_models_are_reached_into_in_one_place() -> None:
    """Past pydantic goes nothing but `replace` and `make` of `events/wire.py`, and what stands beside them."""
    found = {
        str(path.relative_to(PACKAGE)): {name for node in ast.walk(parsed(path)) for name in _reaches(node)}
        for path in modules()
        if path != PACKAGE / "events" / "wire.py"
    }
    assert {name: reaches for name, reaches in found.items() if reaches} == {k: set(v) for k, v in OWN_FIELDS.items()}


def _reaches(node: ast.AST) -> Iterator[str]:
    """How a node gets at the fields of an object behind its back."""
    if isinstance(node, ast.Name) and node.id == "vars":
        yield "vars"
    elif isinstance(node, ast.Attribute) and node.attr == "__dict__":
        yield "__dict__"
    elif isinstance(node, ast.Attribute) and ast.unparse(node) == "object.__new__":
        yield "object.__new__"
    elif isinstance(node, ast.Constant) and (node.value == "__dict__" or str(node.value).startswith("__pydantic_")):
        yield str(node.value)


def test_what_failed_is_tried_again_in_one_loop() -> None:
    """Tools, adapters and wrappers say what is tried again and when; `objects/retrying.py` alone waits in a loop."""
    rooms = {"models", "providers", "wrappers", "tools", "flow", "processors", "agents", "objects"}
    waits = {
        str(path.relative_to(PACKAGE))
        for path in modules()
        if room_of(path) in rooms
        for loop in ast.walk(parsed(path))
        if isinstance(loop, (ast.While, ast.For, ast.AsyncFor))
        for call in ast.walk(loop)
        if isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == "sleep"
    }
    assert waits == {"objects/retrying.py"}


def test_a_run_is_stopped_in_one_place() -> None:
    """Before a step, `play` asks whether the run is to stop; only the end of a run asks how it was stopped."""
    asked = [
        str(path.relative_to(PACKAGE))
        for path in modules()
        if room_of(path) in {"flow", "tools", "processors", "agents", "plugins"}
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr == "stop" and isinstance(node.ctx, ast.Load)
    ]
    assert set(asked) == {"flow/play.py", "flow/ending.py"}
    assert asked.count("flow/play.py") == 1
