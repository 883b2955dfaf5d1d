"""What all that serves HTTP shares, without a framework: who may ask (`auth=`, `Principal`), from where (hosts and
origins), and how much (bodies, headers).

It imports `errors`; nothing else. Begin with `guard.py`, the middleware.
"""

from flowloom.asgi.guard import PRINCIPAL, Guard, GuardRules
from flowloom.asgi.principal import Auth, Principal, RefusedError, token_auth

__all__ = ["PRINCIPAL", "Auth", "Guard", "GuardRules", "Principal", "RefusedError", "token_auth"]
