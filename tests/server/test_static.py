"""The files of the page over a socket (server spec §8, §12)."""

from __future__ import annotations

import gzip
import re

import httpx
import pytest
from server.serving import Running, desk, serving

from flowloom.server import app_of
from flowloom.server.static import page_files


@pytest.mark.parametrize(
    "path",
    [
        *("/ui/", "/ui/desk", "/ui/desk/ann", "/ui/desk/ann/s1", "/ui/desk/a%2Fb/s1", "/ui/index.html"),
        *("/ui/desk/ui/s1", "/ui/ui/ui/", "/ui/desk/ann/ui", "/%75i/desk/ann/s1"),
    ],
)
def test_the_page_is_served_for_each_of_its_addresses(server: Running, path: str) -> None:
    """A deep link gives the page, whose files are named relative to it, whatever the app and the user are named."""
    answer = server.client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    named = re.findall(r'(?:src|href)="([^"]+)"', answer.text)
    found = [str(httpx.URL(server.url + path).join(name)) for name in named if name.endswith((".js", ".css"))]
    assert {server.client.get(file).headers["content-type"].partition(";")[0] for file in found} == {
        "text/css",
        "text/javascript",
    }


@pytest.mark.parametrize("prefix", ["ui", "chat", "chat/ui"])
@pytest.mark.parametrize("path", ["/ui/", "/ui/desk/ann/s1", "/ui/desk/ui/s1"])
def test_the_page_finds_its_files_below_a_prefix(prefix: str, path: str) -> None:
    """Whatever it is, and, where that can be told, whether the proxy has taken it off or not."""
    with serving(app_of(desk(), url_prefix=prefix)) as running:
        client = httpx.Client(base_url=running.url.removesuffix(f"/{prefix}"), trust_env=False)
        for address in (f"/{prefix}{path}", *((path,) if prefix != "ui" else ())):
            main = re.findall(r'src="([^"]*main\.js)"', client.get(address).text)[0]
            found = client.get(str(httpx.URL(f"{running.url.removesuffix(f'/{prefix}')}{address}").join(main)))
            assert found.headers["content-type"].startswith("text/javascript")
        client.close()


def test_the_policy_of_the_page_lets_nothing_in_from_elsewhere(server: Running) -> None:
    """The CSP has no `unsafe-*` and no foreign host; no type is guessed; no other page may frame it."""
    headers = server.client.get("/ui/").headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'self'; img-src 'self' data: blob:")
    assert "frame-ancestors 'none'; base-uri 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"


def test_the_page_has_nothing_inline(server: Running) -> None:
    """The policy would stop an inline script, style or handler."""
    text = server.client.get("/ui/").text
    assert re.findall(r"<script(?![^>]*src=)|<style|style=|\son\w+=", text) == []


@pytest.mark.parametrize(
    "path",
    [
        "/ui/nothing.js",
        "/ui/vendor/nothing.js",
        "/ui/.env",
        "/ui/vendor/.git",
        "/ui/%2e%2e/static.py",
        "/ui/a/..%2f..%2fserved.py",
    ],
)
def test_what_is_no_file_of_the_page_is_not_found(server: Running, path: str) -> None:
    """Neither a missing file, nor a dot file, nor what lies outside is served."""
    assert server.client.get(path).status_code == 404


def test_a_folder_of_the_page_is_not_listed(server: Running) -> None:
    """The address of a folder is that of an app like any other."""
    assert "preact" not in server.client.get("/ui/vendor/").text.replace("modulepreload", "").split("<body>")[1]


@pytest.mark.parametrize("path", ["/", "/dev-ui", "/ui"])
def test_the_root_leads_to_the_page(server: Running, path: str) -> None:
    """A browser that knows only the address of the server finds the page."""
    answer = server.client.get(path)
    assert (answer.status_code, answer.headers["location"]) == (307, "/ui/")


def test_a_file_that_did_not_change_is_not_sent_again(server: Running) -> None:
    """A page that is loaded again costs only questions."""
    etag = server.client.get("/ui/main.js").headers["etag"]
    assert server.client.get("/ui/main.js", headers={"if-none-match": etag}).status_code == 304


def test_the_whole_page_is_small() -> None:
    """All files, compressed one by one, are at most 200 kB."""
    assert sum(len(gzip.compress(file.body)) for file in page_files().values()) <= 200_000


def test_no_module_of_the_page_is_long() -> None:
    """A module of more than 500 lines has something in it that wants one of its own."""
    own = {path: file.body.count(b"\n") for path, file in page_files().items() if not path.startswith("vendor/")}
    assert {path: lines for path, lines in own.items() if lines > 500} == {}


def test_all_imports_of_the_page_are_its_own_files() -> None:
    """No module imports by a bare name, or from elsewhere."""
    for path, file in page_files().items():
        folder = path.rpartition("/")[0]
        for name in (
            re.findall(r'(?:\bfrom ?|^import )"([^"\s]+)"', file.body.decode(), re.MULTILINE)
            if path.endswith(".js")
            else ()
        ):
            assert name.startswith("./"), (path, name)
            assert (f"{folder}/{name[2:]}" if folder else name[2:]) in page_files(), (path, name)


def test_a_server_without_the_page_has_none() -> None:
    """`api_server` serves the API alone."""
    with serving(app_of(desk(), dev=False)) as running:
        assert [running.client.get(path).status_code for path in ("/", "/ui/", "/ui/main.js", "/dev-ui")] == [404] * 4
