"""What all that serves HTTP shares, without a framework: who may ask (`auth=`, `Principal`), from where (hosts and
origins), and how much (bodies, headers).

It imports `errors`; nothing else. Begin with `principal.py`.
"""

from flowloom.asgi.principal import Auth, Principal, RefusedError, token_auth

__all__ = ["Auth", "Principal", "RefusedError", "token_auth"]
