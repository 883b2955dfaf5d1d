"""Raw servers over HTTP, without the SDK: one of MCP's streamable HTTP, and beside it an authorization server."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class Http:
    """What the server was told to do, and what it has received."""

    def __init__(self, **told: Any) -> None:
        self.told = told
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.sessions: set[str] = set()
        self.challenges: dict[str, str] = {}
        self.lock = threading.Lock()

    def received(self, method: str) -> list[dict[str, Any]]:
        return [each for each in self.requests if (each.get("body") or {}).get("method") == method]

    def token_of(self, headers: Any) -> str:
        return str(headers.get("authorization") or "").removeprefix("Bearer ")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    http: Http

    def log_message(self, *_: Any) -> None:
        return

    def answer(self, status: int, body: Any = None, **headers: str) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def note(self, body: Any = None) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.http.requests.append({"verb": self.command, "path": self.path, "headers": headers, "body": body})

    def do_DELETE(self) -> None:
        self.note()
        self.answer(200)

    def do_GET(self) -> None:
        self.note()
        base = self.http.url.rpartition("/mcp")[0]
        path = urlsplit(self.path).path
        if path == "/.well-known/oauth-protected-resource/mcp" and not self.http.told.get("older"):
            said = {"resource": self.http.url, "authorization_servers": [base], "scopes_supported": ["read"]}
            self.answer(200, {**said, **self.http.told.get("resource", {})})
        elif path == "/.well-known/oauth-authorization-server":
            served = {
                "issuer": base,
                "authorization_endpoint": f"{base}/authorize",
                "token_endpoint": f"{base}/token",
                "registration_endpoint": f"{base}/register",
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["none"],
            }
            self.answer(200, {**served, **self.http.told.get("server", {})})
        else:
            self.answer(405)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = urlsplit(self.path).path
        if path == "/register":
            self.note(json.loads(raw))
            self.answer(201, {"client_id": "client-1", **self.http.told.get("client", {})})
        elif path == "/token":
            given = {name: values[0] for name, values in parse_qs(raw.decode()).items()}
            self.note(given)
            verifier = hashlib.sha256(given.get("code_verifier", "").encode()).digest()
            fits = self.http.challenges.get("challenge") == base64.urlsafe_b64encode(verifier).decode().rstrip("=")
            tokens = self.http.told.get("tokens")
            token = tokens.pop(0) if tokens else "token-of-ann-1234567890"
            granted = {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
            fits = fits or given["grant_type"] in self.http.told.get("grants", ())  # of no code, so no verifier is sent
            self.answer(200 if fits else 400, granted if fits else {"error": "invalid_grant"})
        else:
            body = json.loads(raw)
            self.note(body)
            self.take(body)

    def take(self, body: dict[str, Any]) -> None:
        http, told = self.http, self.http.told
        method, number = body.get("method"), body.get("id")
        if told.get("status"):
            self.answer(told["status"], **told.get("headers", {}))
            return
        if method == "tools/call" and told.get("after"):  # the token that was taken is so no longer
            told["token"] = "another-token"
        if "token" in told and http.token_of(self.headers) not in (told["token"], told.get("wide")):
            base = http.url.rpartition("/mcp")[0]
            challenge = f'Bearer resource_metadata="{base}/.well-known/oauth-protected-resource/mcp"'
            self.answer(401, **({} if told.get("mute") else {"WWW_Authenticate": challenge}))
            return
        if number is None:
            self.answer(202)
            return
        if method == "initialize":
            session = f"session-{len(http.sessions)}"
            http.sessions.add(session)
            result = {
                "protocolVersion": body["params"]["protocolVersion"],
                "capabilities": {"tools": {"listChanged": not told.get("forgetful")}},
                "serverInfo": {"name": "raw", "version": "1"},
            }
            self.answer(200, {"jsonrpc": "2.0", "id": number, "result": result}, Mcp_Session_Id=session)
            return
        if method == "server/discover":
            self.answer(200, {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}})
            return
        if self.headers.get("mcp-session-id") not in http.sessions:
            self.answer(404)
            return
        if method == "tools/list":
            tools = [{"name": "who", "inputSchema": {"type": "object"}, "annotations": told.get("hints", {})}]
            self.answer(200, {"jsonrpc": "2.0", "id": number, "result": {"tools": tools}})
            return
        if "wide" in told and http.token_of(self.headers) != told["wide"]:
            base = http.url.rpartition("/mcp")[0]
            metadata = f'resource_metadata="{base}/.well-known/oauth-protected-resource/mcp"'
            self.answer(403, WWW_Authenticate=f'Bearer error="insufficient_scope", scope="write", {metadata}')
            return
        if http.told.get("busy"):
            http.told["busy"] -= 1
            self.answer(429, Retry_After="0")
            return
        text = told.get("says") or self.headers.get("x-user") or http.token_of(self.headers) or "nobody"
        content = [{"type": "text", "text": text}]
        self.answer(200, {"jsonrpc": "2.0", "id": number, "result": {"content": content}})


@contextmanager
def served(**told: Any) -> Iterator[Http]:
    """A server at an address of this machine, that does as it is `told`."""
    http = Http(**told)
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"http": http}))
    server.daemon_threads = True
    http.url = f"http://127.0.0.1:{server.server_address[1]}/mcp"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield http
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
