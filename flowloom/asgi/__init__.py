"""What everything that serves HTTP shares, without a framework: which callers (`auth=`, `Principal`), hosts and origins
may ask, and how large bodies and headers may be.

It imports `errors`; nothing else. Begin with `guard.py`, the middleware.
"""

from flowloom.asgi.guard import PRINCIPAL, Guard, GuardRules
from flowloom.asgi.principal import Auth, Principal, RefusedError, token_auth

__all__ = ["PRINCIPAL", "Auth", "Guard", "GuardRules", "Principal", "RefusedError", "token_auth"]
