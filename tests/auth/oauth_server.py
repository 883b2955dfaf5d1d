"""An OAuth 2 and OpenID server on 127.0.0.1, with everything that a client can get wrong checked."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from joserfc import jwt
from models.wire_server import Reply, Seen, WireServer

CLIENT = "calendar-app"
CLIENT_SECRET = "client-secret-5309"
BACK = "http://127.0.0.1:1/back"
"""Where users are sent back to; nobody listens there."""


@dataclass(frozen=True)
class _Grant:
    """What a code stands for."""

    challenge: str | None
    redirect_uri: str
    nonce: str | None


class OAuthServer(WireServer):
    """Gives codes, tokens and refresh tokens, each once.

    What it shall do: `refuses` (the error code of the next token requests), `silent` (it takes them and says nothing),
    `garbled` (it answers with a page that quotes the request), `lifetime` of tokens in seconds, `public` (the client
    has no secret), `key` (with which the client signs, and its algorithm: it proves itself by nothing else),
    `document` (what the discovery document says besides the addresses).
    """

    def __init__(self) -> None:
        super().__init__()
        self.refuses: str | None = None
        self.silent = self.garbled = self.public = False
        self.lifetime: int | None = 3600
        self.key: tuple[Any, str] | None = None
        self.signed: list[tuple[dict[str, Any], dict[str, Any]]] = []
        """Headers and claims of what the client signed."""
        self.words: list[dict[str, str]] = []
        """The requests for the word for a user, by id tokens that are not `stale`; it says `word` with each."""
        self.word: dict[str, Any] = {
            "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag",
            "token_type": "N_A",
        }
        self.stale: set[str] = set()
        self.document: dict[str, Any] = {}
        self.issued: list[str] = []
        """All codes and tokens that were ever given."""
        self.verifiers: list[str] = []
        self._codes: dict[str, _Grant] = {}
        self._refresh: set[str] = set()

    # -- for the tests --------------------------------------------------------------------------

    def secrets(self) -> set[str]:
        """All that may be written down nowhere."""
        return {CLIENT_SECRET, *self.issued, *self.verifiers}

    def grants(self) -> list[str]:
        """The grant types of the token requests, in order."""
        return [_form(seen)["grant_type"] for seen in self.requests if seen.path == "/token"]

    def visit(self, auth_uri: str, *, deny: bool = False) -> str:
        """What a user's browser does with the address to consent at: returns the address it is sent back to."""
        parts = urlsplit(auth_uri)
        connection = http.client.HTTPConnection(parts.netloc)
        try:
            connection.request("GET", f"{parts.path}?{parts.query}{'&deny=1' if deny else ''}")
            response = connection.getresponse()
            response.read()
            assert response.status == 302, response.status
            location = response.getheader("location")
            assert location is not None
            return location
        finally:
            connection.close()

    # -- what it answers ------------------------------------------------------------------------

    def reply_to(self, seen: Seen) -> Reply:
        path, _, query = seen.path.partition("?")
        if path == "/authorize":
            return self._authorize({name: values[0] for name, values in parse_qs(query).items()})
        if path == "/token":
            return self._token(seen)
        if path == "/.well-known/openid-configuration":
            return _json(
                {
                    "issuer": self.url,
                    "authorization_endpoint": f"{self.url}/authorize",
                    "token_endpoint": f"{self.url}/token",
                    **self.document,
                }
            )
        return _json({"error": "not_found"}, 404)

    def _authorize(self, asked: dict[str, str]) -> Reply:
        if asked.get("client_id") != CLIENT or asked.get("response_type") != "code":
            return _json({"error": "invalid_client"}, 400)
        back = asked["redirect_uri"]
        given = {"state": asked["state"]}
        if "deny" in asked:
            given |= {"error": "access_denied", "error_description": "the user said no"}
        else:
            given["code"] = self._issue("code")
            assert asked.get("code_challenge_method", "S256") == "S256"
            self._codes[given["code"]] = _Grant(asked.get("code_challenge"), back, asked.get("nonce"))
        return Reply([b""], status=302, headers={"location": f"{back}?{urlencode(given)}"})

    def _token(self, seen: Seen) -> Reply:
        form = _form(seen)
        if "code_verifier" in form:
            self.verifiers.append(form["code_verifier"])
        if self.silent:
            return Reply(ending="silent")
        if self.garbled:
            return Reply([b"<html>cannot read " + seen.body + b"</html>"], content_type="text/html")
        if self.refuses:
            return _json({"error": self.refuses, "error_description": f"bad: {seen.body.decode()}"}, 400)
        if not self._knows_client(seen, form):
            return _json({"error": "invalid_client"}, 401)
        if form["grant_type"].endswith(":token-exchange"):
            self.words.append(form)
            if form["subject_token"] in self.stale:
                return _json({"error": "invalid_request"}, 400)
            return _json({"access_token": self._issue("word"), **self.word})
        nonce = None
        if form["grant_type"] == "authorization_code":
            grant = self._codes.pop(form["code"], None)
            if grant is None or grant.redirect_uri != form.get("redirect_uri") or not _proves(grant, form):
                return _json({"error": "invalid_grant"}, 400)
            nonce = grant.nonce
        elif form["grant_type"] == "refresh_token":
            if form["refresh_token"] not in self._refresh:
                return _json({"error": "invalid_grant"}, 400)
            self._refresh.remove(form["refresh_token"])
        tokens: dict[str, Any] = {"access_token": self._issue("access"), "token_type": "Bearer"}
        if self.lifetime is not None:
            tokens["expires_in"] = self.lifetime
        if form["grant_type"] != "client_credentials":
            tokens["refresh_token"] = self._issue("refresh")
            self._refresh.add(tokens["refresh_token"])
        if nonce is not None:
            tokens["id_token"] = self._id_token(nonce)
        return _json(tokens)

    def _knows_client(self, seen: Seen, form: dict[str, str]) -> bool:
        if self.public:
            return form.get("client_id") == CLIENT and "client_secret" not in form
        if self.key is not None:
            return self._has_signed(form, *self.key) and "client_secret" not in form
        given = form.get("client_id"), form.get("client_secret")
        for header in seen.header("authorization"):
            name, _, password = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
            given = name, password
        return given == (CLIENT, CLIENT_SECRET)

    def _has_signed(self, form: dict[str, str], key: Any, algorithm: str) -> bool:
        assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
        self.issued.append(form["client_assertion"])
        signed = jwt.decode(form["client_assertion"], key, algorithms=[algorithm])
        self.signed.append((signed.header, signed.claims))
        return signed.claims["iss"] == signed.claims["sub"] == CLIENT

    def _issue(self, kind: str) -> str:
        self.issued.append(f"{kind}-{hashlib.sha256(f'{self.url}{len(self.issued)}'.encode()).hexdigest()[:24]}")
        return self.issued[-1]

    def _id_token(self, nonce: str) -> str:
        claims = {"iss": self.url, "aud": CLIENT, "sub": "ann", "nonce": nonce, **self.document.get("claims", {})}
        pieces = [{"alg": "RS256"}, claims]
        encoded = [base64.urlsafe_b64encode(json.dumps(piece).encode()).decode().rstrip("=") for piece in pieces]
        self.issued.append(".".join([*encoded, "c2lnbmF0dXJl"]))
        return self.issued[-1]


def _form(seen: Seen) -> dict[str, str]:
    return dict(parse_qsl(seen.body.decode()))


def _json(value: Any, status: int = 200) -> Reply:
    return Reply([json.dumps(value).encode()], status=status)


def _proves(grant: _Grant, form: dict[str, str]) -> bool:
    if grant.challenge is None:
        return "code_verifier" not in form
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=") == grant.challenge
