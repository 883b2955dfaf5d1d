"""Hooks of mkdocs: a reference page for each room of the package, and the pages that are not in this folder.

Public is what a room has in its `__all__`, what `flowloom` itself exports, what a page's examples import, and every
error. A name stands on the page of the room that defines it, below the shortest path that it can be imported by.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_log = logging.getLogger("mkdocs.hooks.reference")

ROOT = Path(__file__).parents[1]
ELSEWHERE = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "LICENSE": "license.md",
    **{
        f"examples/{page.parent.name}/README.md": f"examples/{page.parent.name}.md"
        for page in ROOT.glob("examples/*/README.md")
    },
}
"""Files of the project that are pages of the site, and where."""
ORIGINS = {page: path for path, page in ELSEWHERE.items()}
LINK = re.compile(r"(\]\(|src(?:set)?=\")(?!https?://|#)([^)\s\"#]+)")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
IMPORT = re.compile(r"^from (flowloom[\w.]*) import (?:\(([^)]+)\)|(.+))$", re.MULTILINE)


def on_config(config: MkDocsConfig) -> None:
    """Add the reference to the navigation."""
    pages = {room: f"reference/{room}.md" for room in public_names()}
    assert config.nav is not None
    config.nav.append({"Reference": [{f"flowloom.{room}": page} for room, page in pages.items()]})


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages that are made, and those that are kept elsewhere."""
    for path, page in ELSEWHERE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=f"```text\n{text}```\n" if path == "LICENSE" else text))
    for room, names in public_names().items():
        for path, name in names.items():
            check_told(package()[path.removeprefix("flowloom.")], name)
        files.append(File.generated(config, f"reference/{room}.md", content=page_of(room, names)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Have links between files of the project lead to their pages."""
    here = page.file.src_uri
    origin = ORIGINS.get(here, f"docs/{here}")

    def link(found: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), found[2]))
        target = ELSEWHERE.get(path, path.removeprefix("docs/"))
        return found[1] + posixpath.relpath(target, posixpath.dirname(here) or ".")

    fences = FENCE.findall(markdown)
    told = [LINK.sub(link, text) for text in FENCE.split(markdown)]
    return "".join(text + fence for text, fence in zip(told, [*fences, ""], strict=True))


def check_told(found: griffe.Object | griffe.Alias, path: str) -> None:
    """Warn of classes, functions and methods without a docstring, those from the standard library's bases aside."""
    if found.is_alias or not (found.is_function or found.is_class):
        return
    if found.docstring is None:
        _log.warning("`%s` has no docstring.", path)
    if isinstance(found, griffe.Class) and not any(str(base).startswith(("list[", "dict[")) for base in found.bases):
        for name, member in found.members.items():
            if not name.startswith("_") and name != "model_post_init":
                check_told(member, f"{path}.{name}")


def page_of(room: str, names: dict[str, str]) -> str:
    """A room's docstring, and each of its public names."""
    docstring = package()[room].docstring
    shown = "\n\n".join(
        f"::: {path}\n    options:\n      heading: {name}\n      toc_label: {name.rpartition('.')[2]}"
        for path, name in sorted(names.items(), key=lambda item: item[1].rpartition(".")[2].lower())
    )
    return f"# flowloom.{room}\n\n{docstring.value if docstring else ''}\n\n{shown}\n"


def public_names() -> dict[str, dict[str, str]]:
    """For each room, where its public names are defined, and the shortest path that each can be imported by."""
    whole = package()
    paths = [f"flowloom.{name}" for name in exported(whole)]
    for room in whole.modules.values():
        paths += [f"{room.path}.{name}" for name in exported(room)]
    paths += [f"flowloom.errors.{name}" for name in whole["errors"].classes]
    for text in (page.read_text(encoding="utf-8") for page in [ROOT / "README.md", *ROOT.glob("docs/*.md")]):
        for module, several, one in IMPORT.findall(text):
            paths += [f"{module}.{name.split()[0]}" for name in (several or one).split(",") if name.strip()]
    rooms: dict[str, dict[str, str]] = {}
    for path in sorted(set(paths), key=lambda path: (path.count("."), path)):
        found = whole[path.removeprefix("flowloom.")]
        if not found.is_module:
            rooms.setdefault(found.canonical_path.split(".")[1], {}).setdefault(found.canonical_path, path)
    return dict(sorted(rooms.items()))


def exported(module: griffe.Module) -> list[str]:
    return [str(name) for name in module.exports or ()]


class Inherited(griffe.Extension):
    """What overrides a member without saying more is told of as the member is that it overrides."""

    def on_package(self, *, pkg: griffe.Module, **_: object) -> None:
        self._look_into(pkg)

    def _look_into(self, scope: griffe.Module | griffe.Class) -> None:
        for name, member in scope.members.items():
            if member.is_alias:
                continue
            if isinstance(member, griffe.Module | griffe.Class):
                self._look_into(member)
            elif isinstance(scope, griffe.Class) and member.docstring is None:
                above = (base.members.get(name) for base in scope.mro())
                member.docstring = next((each.docstring for each in above if each is not None and each.docstring), None)


_loaded: list[griffe.Module] = []


def package() -> griffe.Module:
    """The package as its source says; nothing of it is imported."""
    if not _loaded:
        found = griffe.load(
            "flowloom",
            search_paths=[ROOT],
            extensions=griffe.load_extensions(Inherited),
            resolve_aliases=True,
            resolve_external=False,
        )
        assert isinstance(found, griffe.Module)
        _loaded.append(found)
    return _loaded[0]
