"""Operations of REST APIs as tools, from OpenAPI documents (protocols spec §3). Needs the extra `openapi`.

Its libraries are loaded with the first document and the first request, by `document.py` and `clients.py` alone. From
the document to the tool: `document.py` reads, `schemas.py` and `operations.py` make of it what a model is told,
`toolset.py` gives the tools. From a call to its result (`rest_api_tool.py`): `security.py`, `sending.py` with
`styles.py` and `bodies.py`, `answers.py`.

It imports what `flowloom.protocols` may. Begin with `toolset.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.protocols.openapi.rest_api_tool import OperationEndpoint, RestApiTool
    from flowloom.protocols.openapi.toolset import OpenAPIToolset

_HOMES = {"rest_api_tool": "OperationEndpoint RestApiTool", "toolset": "OpenAPIToolset"}

__all__ = ["OpenAPIToolset", "OperationEndpoint", "RestApiTool"]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
