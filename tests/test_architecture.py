"""The rules of the house that a machine can read off the source."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import flowloom

PACKAGE = Path(flowloom.__file__).parent

# From the ground up; a module may import its own room and the rooms on lower floors.
FLOORS: list[set[str]] = [
    {"errors", "notebook", "observer", "service"},
    {"guard", "settings", "extras"},
    {"events"},
    {"sql", "auth"},
    {"models"},
    {"log"},
    {"views"},
    {"sessions", "artifacts", "memory"},
    {"context"},
    {"telemetry", "compaction"},
    {"tools"},
    {"converters", "wrappers"},
    {"processors"},
    {"flow"},
    {"agents"},
    {"plugins"},
    {"apps", "message", "pending", "sync"},
    {"routing", "run_result"},
    {"invocation"},
    {"run_stream"},
    {"run_handle"},
    {"runner"},
    {"explanation"},
    {"profile"},
    {"human"},
    {"cli", "server", "durable", "testing"},
    {"pytest_plugin", "__main__"},
]
FLOOR_OF = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
# Rooms of optional extras may import them where they are used; Jinja2 is loaded by the first template or page.
EDGES = ("cli/", "__init__.py", "models/registry.py", "processors/template.py", "views/page.py")
CIRCULAR = {"flow"}
"""The rooms whose modules name each other's types, still."""
PLAYED = {"flow", "context", "log", "processors", "tools", "agents", "auth", "routing", "invocation", "runner"}
"""The rooms that a run goes through."""
CHANCES = ("time", "datetime", "uuid", "random", "secrets", "flowloom.events.clock")
TIME_AND_CHANCE = {
    "auth/access.py": ["urandom"],  # the secret of a process, by which it knows its own requests
    "auth/exchange.py": [
        "flowloom.events.clock"
    ],  # an exchange with a server is the effect of the tool that asks for it
    "auth/service.py": ["urandom"],
    "context/effects.py": ["flowloom.events.clock", "new_id"],  # the effects themselves
    "context/ending.py": ["time"],  # for how long a cancelled run is waited for
    "context/invocation.py": ["new_id"],  # the session of a context that is made by hand
    "flow/assembly.py": ["time"],  # what processors cost
    "flow/observed.py": ["time"],
    "processors/code_process.py": ["secrets"],  # names of folders that the code cannot know
}
MAX_LINES = 500
ENGINE_LINES = 10355
# What comes beside the engine: models, stores and services, what looks at the engine, and what holds on to a run of it.
NO_ENGINE = (
    "models",
    "auth",
    "sql",
    "compaction",
    "telemetry",
    "artifacts",
    "memory",
    "sessions/adk_",
    "sessions/admission.py",
    "sessions/codec.py",
    "sessions/effective_log.py",
    "sessions/in_memory.py",
    "sessions/leases.py",
    "sessions/postgres.py",
    "sessions/session_cache.py",
    "sessions/shared_list.py",
    "sessions/sql",
    "processors/auth.py",
    "processors/code_executors.py",
    "processors/code_process.py",
    "processors/compaction.py",
    "processors/context_cache.py",
    "processors/outline.py",
    "processors/planners.py",
    "processors/token_count.py",
    "processors/window.py",
    "tools/authenticated.py",
    "tools/credential_request.py",
    "pending",
    "run_handle",
    "run_result",
    "run_stream",
    "sync",
    "testing",
    "cli",
    "views",
    "flow/assembly.py",
    "explanation",
    "profile",
    "converters",
    "wrappers",
    "human",
    "events/handlers.py",
    "events/parsed.py",
    "events/sse.py",
    "events/store.py",
    "events/legacy.py",
    "events/event_json.py",
    "events/json_reader.py",
    "events/json_schema",
    "events/session_events.py",
    "events/sse_decoder.py",
    "events/store_records.py",
    "events/shown.py",
    "extras",
    "guard",
    "notebook",
    "pytest_plugin",
    "__main__",
)
NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)


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


def without_type_checking(tree: ast.Module) -> ast.Module:
    """The module without its `if TYPE_CHECKING` blocks, which import nothing when it runs."""
    body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING")
    ]
    return ast.Module(body=body, type_ignores=[])


def test_every_module_imports_its_own_floor_and_below_only() -> None:
    """Imports run downwards."""
    wrong = [
        f"{path.relative_to(PACKAGE)} imports {name}"
        for path in modules()
        if (room := room_of(path)) != "__init__"
        for name in imports(without_type_checking(parsed(path)))
        if name.startswith("flowloom.") and (other := name.split(".")[1]) != room and FLOOR_OF[other] >= FLOOR_OF[room]
    ]
    assert wrong == []


def test_no_modules_import_each_other() -> None:
    """No circle, however long, and be it of types only: each module can be read after those that it names."""
    graph: dict[Path, set[Path]] = {}
    for path in modules():
        found = {other for name in imports(parsed(path)) if (other := _path_of(name))} - {path}
        graph[path] = {other for other in found if not {room_of(path), room_of(other)} <= CIRCULAR}
    TopologicalSorter(graph).prepare()


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


def test_every_room_has_a_floor() -> None:
    """A new room has to be given its place in the order of imports."""
    assert {room_of(path) for path in modules()} - {"__init__"} <= set(FLOOR_OF)


def lines_of_code(path: Path) -> int:
    """The lines that hold code: no blank line, no comment, no docstring."""
    source = path.read_text()
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            code.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(code)


def test_the_engine_reads_in_an_afternoon() -> None:
    """What runs an agent stays under 10,084 lines of code; models, services, and what looks at it come beside it."""
    engine = [path for path in modules() if not str(path.relative_to(PACKAGE)).startswith(NO_ENGINE)]
    assert sum(map(lines_of_code, engine)) < ENGINE_LINES


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
        assert flowloom._home_of[name] == module
