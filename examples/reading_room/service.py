"""The library's REST API, in a thread of this process."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

SHELVES = {"novels": ["Emma", "Middlemarch"], "maps": ["Atlas of Rivers"]}
CARD = "card-of-ann"


class Library(BaseHTTPRequestHandler):
    """Answers requests; what is lent is the server's to remember."""

    lent: dict[str, int]

    def do_GET(self) -> None:
        """The books of a shelf."""
        asked = urlsplit(self.path)
        shelf = unquote(asked.path).removeprefix("/shelves/").removesuffix("/books")
        only_free = parse_qs(asked.query).get("onlyFree") == ["true"]
        books = [{"title": title, "free": title not in self.lent} for title in SHELVES.get(shelf, ())]
        self._answer(200, [book for book in books if book["free"] or not only_free])

    def do_POST(self) -> None:
        """A loan, for those who have a card."""
        loan = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["X-Library-Card"] != CARD:
            self._answer(403, {"detail": "no card"})
        elif loan["title"] in self.lent:
            self._answer(409, {"detail": "it is lent"})
        else:
            self.lent[loan["title"]] = loan.get("days", 14)
            self._answer(201, {"lent": loan["title"], "days": self.lent[loan["title"]]})

    def _answer(self, status: int, data: Any) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal is the agent's."""


@contextmanager
def open_library(port: int = 0) -> Iterator[int]:
    """A library with all its books, at a port of this machine; by default at any one that is free."""
    handler = type("OpenLibrary", (Library,), {"lent": {}})
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
