"""Who may ask a server, from where, and how much: over real sockets (server spec §8)."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from server.serving import Running, desk, serving
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from flowloom.asgi import Principal, RefusedError, token_auth
from flowloom.asgi.limits import JsonDepth
from flowloom.asgi.origins import Origins
from flowloom.asgi.protocol import RejectedError
from flowloom.errors import ConfigurationError
from flowloom.server import app_of

PAGE = "https://chat.example"
SESSIONS = "/apps/desk/users/ann/sessions"


@pytest.fixture(scope="module")
def listed() -> Iterator[Running]:
    """A server on loopback that knows two pages, and small bodies alone."""
    pages = [PAGE, r"regex:https://.*\.team\.example"]
    with serving(app_of(desk(), allow_origins=pages, max_body_bytes=5000)) as running:
        yield running


@pytest.fixture(scope="module")
def public() -> Iterator[Running]:
    """A server on a public address, with a hook: `ann` and `bob` are known by their names, `eve` may nothing."""

    async def auth(scope: Any) -> Principal | None:
        name = dict(scope["headers"]).get(b"x-name", b"").decode()
        if name == "eve":
            raise RefusedError("Eve may not.", status=403)
        return Principal(name, frozenset({name}), frozenset({"desk"})) if name in ("ann", "bob") else None

    with serving(app_of(desk(), host="0.0.0.0", auth=auth)) as running:
        yield running


def ask(
    server: Running,
    path: str = "/version",
    *headers: tuple[str, str],
    method: str = "GET",
    body: Any = None,
    host: str | None = None,
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and JSON of the answer to exactly these header lines."""
    place = urlsplit(server.url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    try:
        connection.putrequest(method, path, skip_host=host is not None, skip_accept_encoding=True)
        for value in [] if host is None else host.split("|"):
            connection.putheader("Host", value)
        for name, value in headers:
            connection.putheader(name, value)
        if isinstance(body, bytes):
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body, encode_chunked=not isinstance(body, bytes | None))
        answer = connection.getresponse()
        text = answer.read()
        told = {name.lower(): value for name, value in answer.getheaders()}
        is_json = told.get("content-type", "").startswith("application/json")
        return answer.status, told, json.loads(text) if is_json else text.decode()
    finally:
        connection.close()


def refused(server: Running, path: str, **headers: str) -> int:
    """The HTTP status with which a WebSocket is refused before it is accepted."""
    with pytest.raises(InvalidStatus) as caught, connect(f"ws{server.url[4:]}{path}", additional_headers=headers):
        pass
    return caught.value.response.status_code


class TestHosts:
    @pytest.mark.parametrize("host", ["127.0.0.1", "localhost:99", "LOCALHOST.", "[::1]:8000", "127.8.9.1:1"])
    def test_loopback_is_known(self, server: Running, host: str) -> None:
        """Every name of this machine is one of the server's."""
        assert ask(server, host=host)[0] == 200

    @pytest.mark.parametrize(
        "host", ["evil.example", "127.0.0.1.evil.example", "127.0.0.1:80.evil.example", "a@localhost", "10.0.0.1", "::"]
    )
    @pytest.mark.parametrize("path", ["/version", "/health", SESSIONS])
    def test_other_names_are_refused(self, server: Running, host: str, path: str) -> None:
        """A name that was pointed at this machine reads nothing."""
        status, headers, body = ask(server, path, host=host)
        assert (status, body["code"]) == (403, "host_not_allowed")
        assert headers["content-type"] == "application/json"
        assert "access-control-allow-origin" not in headers

    @pytest.mark.parametrize("host", ["localhost, evil.example", "localhost,localhost"])
    def test_several_hosts_are_refused(self, public: Running, server: Running, host: str) -> None:
        """Two values of `Host` are smuggling, on any address."""
        for each in (server, public):
            assert ask(each, host=host)[2]["code"] == "host_not_allowed"

    def test_several_lines_of_hosts_are_refused(self, server: Running) -> None:
        """So are two lines; some servers of HTTP refuse them before the guard sees them."""
        assert ask(server, host="localhost|evil.example")[0] in (400, 403)
        scope = {"headers": [(b"host", b"localhost"), (b"host", b"localhost")]}
        with pytest.raises(RejectedError, match="several"):
            Origins([], "0.0.0.0").check_host(scope)

    def test_the_host_of_a_listed_origin_is_known(self, listed: Running) -> None:
        """A proxy on this machine passes on the name that its page has; a pattern names no host."""
        assert ask(listed, host="chat.example")[0] == 200
        assert ask(listed, host="a.team.example")[0] == 403

    def test_a_public_address_has_any_name(self, public: Running) -> None:
        """Bound to more than loopback, a server does not know its names."""
        assert ask(public, "/health", host="chat.example")[0] == 200

    def test_forwarded_names_do_not_count(self, server: Running) -> None:
        """A page may set these headers itself."""
        assert ask(server, "/version", ("X-Forwarded-Host", "localhost"), host="evil.example")[0] == 403


class TestOrigins:
    def test_its_own_origin(self, server: Running) -> None:
        """The server's own page may write."""
        assert ask(server, SESSIONS, ("Origin", server.url), method="POST")[0] == 200

    @pytest.mark.parametrize(
        "origin",
        ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "", "file://", "chat.example"],
    )
    @pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
    def test_foreign_origins_are_refused(self, server: Running, origin: str, method: str) -> None:
        """Another page neither reads nor writes, and learns nothing by CORS."""
        asking = [("Origin", origin), ("Access-Control-Request-Method", "POST")]
        status, headers, body = ask(server, SESSIONS, *asking, method=method)
        assert (status, body["code"]) == (403, "origin_not_allowed")
        assert not [name for name in headers if name.startswith("access-control")]

    def test_two_origins_are_refused(self, listed: Running) -> None:
        """A browser sends one."""
        assert ask(listed, "/version", ("Origin", PAGE), ("Origin", PAGE))[0] == 403

    def test_a_rebound_page_on_loopback(self, server: Running) -> None:
        """On loopback a foreign name is refused even where it is what proxies are said to have been asked for."""
        headers = [("Origin", "https://evil.example"), ("X-Forwarded-Host", "evil.example")]
        assert ask(server, "/version", *headers, ("X-Forwarded-Proto", "https"))[0] == 403

    @pytest.mark.parametrize(
        "headers",
        [
            {"Forwarded": 'for=1.2.3.4;proto=https;host="chat.example"'},
            {"Forwarded": "host=chat.example;proto=https, for=10.0.0.1;host=inner"},
            {"X-Forwarded-Host": "chat.example", "X-Forwarded-Proto": "https"},
            {"X-Forwarded-Host": "chat.example:443, inner", "X-Forwarded-Proto": "https, http"},
            {"Forwarded": "for=1.2.3.4", "X-Forwarded-Host": "Chat.Example", "X-Forwarded-Proto": "HTTPS"},
        ],
    )
    def test_behind_a_proxy(self, public: Running, headers: dict[str, str]) -> None:
        """The own origin is the one that the proxy was asked at."""
        assert ask(public, "/health", ("Origin", PAGE), *headers.items())[0] == 200
        assert ask(public, "/health", ("Origin", "http://chat.example"), *headers.items())[0] == 403

    def test_no_origin(self, server: Running) -> None:
        """What is no browser sends none."""
        assert ask(server)[0] == 200


class TestCors:
    @pytest.mark.parametrize("origin", [PAGE, "https://a.team.example"])
    def test_listed_pages_read_answers(self, listed: Running, origin: str) -> None:
        """A listed page reads answers and refusals, with its cookies."""
        for path, status in (("/version", 200), ("/nothing", 404)):
            answered, headers, _ = ask(listed, path, ("Origin", origin))
            assert answered == status
            assert headers["access-control-allow-origin"] == origin
            assert headers["access-control-allow-credentials"] == "true"
            assert headers["vary"] == "Origin"

    @pytest.mark.parametrize(
        "origin", ["https://a.team.example.evil.example", "xhttps://a.team.example", "https://team.example"]
    )
    def test_a_pattern_matches_as_a_whole(self, listed: Running, origin: str) -> None:
        """What only begins like a listed origin is foreign."""
        assert ask(listed, "/version", ("Origin", origin))[0] == 403

    def test_a_preflight(self, listed: Running) -> None:
        """A browser is told that a listed page may do what it asks for; nobody need be known for that."""
        asked = [("Origin", PAGE), ("Access-Control-Request-Method", "PATCH")]
        status, headers, body = ask(
            listed, SESSIONS, *asked, ("Access-Control-Request-Headers", "authorization,x-odd"), method="OPTIONS"
        )
        assert (status, body) == (200, "OK")
        assert headers["access-control-allow-origin"] == PAGE
        assert headers["access-control-allow-credentials"] == "true"
        assert headers["access-control-allow-headers"] == "authorization,x-odd"
        assert "PATCH" in headers["access-control-allow-methods"]

    def test_all_pages(self, caplog: pytest.LogCaptureFixture) -> None:
        """`*` lets every page and every host in, says so at the start, and still refuses `null`."""
        app = app_of(desk(), allow_origins=["*"])
        assert "every web page" in caplog.text
        with serving(app) as running:
            status, headers, _ = ask(running, "/version", ("Origin", "https://any.example"), host="any.example")
            assert (status, headers["access-control-allow-origin"]) == (200, "https://any.example")
            assert ask(running, "/version", ("Origin", "null"))[0] == 403

    @pytest.mark.parametrize("origin", ["chat.example", "https://chat.example/page", "regex:(", "https://", ""])
    def test_wrong_origins_do_not_start(self, origin: str) -> None:
        """What can match no origin is told when the server is made."""
        with pytest.raises(ConfigurationError, match="allow_origins"):
            app_of(desk(), allow_origins=[origin])


class TestWebSockets:
    @pytest.mark.parametrize("headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}])
    def test_foreign_ones_are_refused_before_they_are_accepted(self, server: Running, headers: dict[str, str]) -> None:
        """A WebSocket is no way around the rules."""
        assert refused(server, "/run_live?app_name=desk&user_id=ann&session_id=s", **headers) == 403

    def test_a_rebound_host_is_refused(self, server: Running) -> None:
        """Nor around the check of hosts."""
        key = ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
        headers = [("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Version", "13"), key]
        assert ask(server, "/run_live?app_name=desk", *headers, host="evil.example")[0] == 403

    def test_unknown_people_are_refused(self, public: Running) -> None:
        """Nor around `auth`."""
        assert refused(public, "/run_live?app_name=desk&user_id=ann&session_id=s") == 403
        assert refused(public, "/run_live?app_name=desk&user_id=ann&session_id=s", **{"x-name": "eve"}) == 403


class TestWhoAsks:
    def test_nobody_is_refused(self, public: Running) -> None:
        """Nobody known is 401, who is known and may not is 403."""
        status, headers, body = ask(public, SESSIONS)
        assert (status, body["code"], headers["www-authenticate"]) == (401, "unauthorized", "Bearer")
        assert ask(public, SESSIONS, ("x-name", "eve"))[::2] == (403, {"detail": "Eve may not.", "code": "forbidden"})

    def test_what_is_anothers_is_not_there(self, public: Running) -> None:
        """Another's sessions are 404, as if there were none."""
        assert ask(public, SESSIONS, ("x-name", "ann"))[::2] == (200, [])
        assert ask(public, SESSIONS, ("x-name", "bob"))[0] == 404

    @pytest.mark.parametrize("path", ["/health", "/"])
    def test_open_paths(self, public: Running, path: str) -> None:
        """Whether the server lives is for all, and so are the files of the page."""
        assert ask(public, path)[0] != 401

    @pytest.mark.parametrize("path", ["/health/x", "/healthy", "//health/../version", "/list-apps", "/openapi.json"])
    def test_other_paths_are_not_open(self, public: Running, path: str) -> None:
        """An open path opens itself alone."""
        assert ask(public, path)[0] == 401

    def test_a_token(self) -> None:
        """One bearer token opens all; below a prefix, too."""
        with serving(app_of(desk(), auth=token_auth("s3cret"), url_prefix="/p")) as running:
            assert ask(running, "/version", ("Authorization", "Bearer s3cret"))[0] == 200
            for path in ("/health", "/p/health"):
                assert ask(running, path)[0] == 200
            for wrong in ("Bearer s3cre", "Basic s3cret", "s3cret", "Bearer", "Bearer s3crét"):
                assert ask(running, "/p/version", ("Authorization", wrong))[0] == 401

    @pytest.mark.parametrize("token", ["", "schlüssel", "€", "s3cret\n", " s3cret", "s3\x00"])
    def test_a_token_that_no_header_carries_is_refused(self, token: str) -> None:
        """Else no request would ever be answered, and it would not be told why."""
        with pytest.raises(ConfigurationError, match="token"):
            token_auth(token)

    def test_a_public_address_needs_it(self) -> None:
        """A server that everybody could use does not start, unless that is said."""
        for host in ("0.0.0.0", "192.168.1.4", "::", "example.com", ""):
            with pytest.raises(ConfigurationError, match="allow_unauthenticated"):
                app_of(desk(), host=host)
        app_of(desk(), host="0.0.0.0", allow_unauthenticated=True)
        app_of(desk(), host="::1")


class TestLimits:
    def test_a_body_that_says_it_is_too_large(self, listed: Running) -> None:
        """It is refused before it is read."""
        status, _, body = ask(listed, SESSIONS, method="POST", body=b"[" + b" " * 5000 + b"]")
        assert (status, body["code"]) == (413, "too_large")

    def test_a_body_that_grows_too_large(self, listed: Running) -> None:
        """It is refused while it is read, though its length was not told."""
        pieces = (b" " * 1000 for _ in range(20))
        chunked = ("Transfer-Encoding", "chunked")
        status, _, body = ask(
            listed, SESSIONS, chunked, ("Content-Type", "application/json"), method="POST", body=pieces
        )
        assert (status, body["code"]) == (413, "too_large")

    def test_much_more_than_a_socket_holds(self, listed: Running) -> None:
        """A client that is still sending reads the answer."""
        assert ask(listed, SESSIONS, method="POST", body=b" " * 20_000_000)[0] == 413

    def test_a_body_that_fits(self, listed: Running) -> None:
        """What is not too large passes."""
        body = json.dumps({"state": {"text": "x" * 4900}}).encode()
        assert ask(listed, SESSIONS, ("Content-Type", "application/json"), method="POST", body=body)[0] == 200

    def test_header_lines(self, server: Running) -> None:
        """100 header lines are read, more are not."""
        lines = [(f"x-{number}", "1") for number in range(99)]  # and `Host`
        assert ask(server, "/version", *lines)[0] == 200
        status, _, body = ask(server, "/version", *lines, ("x-99", "1"))
        assert (status, body["code"]) == (431, "too_large")

    def test_a_head_without_an_end(self, server: Running) -> None:
        """It is refused when it is too long, wherever it goes on and on; nothing of it is kept."""
        host, port = server.url.removeprefix("http://").split(":")
        for begun in (b"GET /version HTTP/1.1\r\nHost: localhost\r\nx-long: ", b"GET /"):
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(begun)
                time.sleep(0.02)  # so that it comes in pieces
                for _ in range(8):
                    connection.sendall(b"x" * 10_000)
                    time.sleep(0.005)
                answer = connection.recv(1000)
                assert answer.startswith(b"HTTP/1.1 431 ")
                assert json.loads(answer.partition(b"\r\n\r\n")[2])["code"] == "too_large"
                assert connection.recv(1000) == b""
        assert ask(server, "/version")[0] == 200

    def test_a_request_names_its_host(self, server: Running) -> None:
        """As HTTP/1.1 has it; one of HTTP/1.0 need not."""
        host, port = server.url.removeprefix("http://").split(":")
        for version, status in ((b"1.1", b"400"), (b"1.0", b"200")):
            with socket.create_connection((host, int(port)), timeout=60) as connection:
                connection.sendall(b"GET /version HTTP/" + version + b"\r\n\r\n")
                assert connection.recv(1000).split()[1] == status

    def test_deep_json(self, server: Running) -> None:
        """200 levels are read, more are not, and none is an error of the server."""
        for levels, status in ((200, 200), (201, 413), (100_000, 413)):
            body = b'{"unknown":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"
            answer = ask(server, SESSIONS, ("Content-Type", "application/json"), method="POST", body=body)
            assert answer[0] == status, answer

    @pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
    def test_the_depth_of_pieces(self, size: int) -> None:
        """Brackets within strings are none, wherever a text is cut."""
        text = rb'{"a\"[[[":["\\",{"b":"]\\\"{{"}],"c\\":[[]]}'
        depth = JsonDepth()
        assert max(depth.feed(text[at : at + size]) for at in range(0, len(text), size)) == 3
        assert depth.feed(b"") == 0
