"""The HTTP server: the endpoints and event streams of google-adk, and our page; with the extra `server` (server spec).

It imports any other room but `cli` and `adk`; `import flowloom` never loads it. Begin with `application.py`, which
puts the routes together; `served.py` is what they share.
"""

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.server.application import app_of as app_of
    from flowloom.server.application import get_fast_api_app as get_fast_api_app
    from flowloom.server.application import serve as serve
    from flowloom.server.settings import ServerSettings as ServerSettings

__getattr__, __dir__ = loaded_on_use(
    __name__, homes_of(__name__, {"application": "app_of get_fast_api_app serve", "settings": "ServerSettings"})
)
__all__ = ["ServerSettings", "app_of", "get_fast_api_app", "serve"]
