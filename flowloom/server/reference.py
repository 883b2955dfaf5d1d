"""The reference of the API at /docs and /redoc: made from the OpenAPI document, without a script (server spec §2)."""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

router = APIRouter(include_in_schema=False)

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
details { border: 1px solid #8886; border-radius: 6px; margin: .5rem 0; padding: .5rem .8rem }
summary { cursor: pointer } summary code { font-weight: 600 } pre { overflow: auto; background: #8882; padding: .6rem }
.m { display: inline-block; min-width: 4.5rem }
td, th { text-align: left; padding: .1rem 1rem .1rem 0; vertical-align: top }
"""
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_CSP = f"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; style-src 'sha256-{_DIGEST}'"


@router.get("/docs")
@router.get("/redoc")
async def reference(request: Request) -> Response:
    """The operations of the API, one below the other."""
    document: dict[str, Any] = request.app.openapi()
    schemas: dict[str, Any] = document.get("components", {}).get("schemas", {})
    operations = [
        _operation(method, path, operation, schemas)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    title = escape(document["info"]["title"])
    page = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f'</head><body><h1>{title}</h1><p>The same for programs: <a href="openapi.json">openapi.json</a>.</p>'
        f"{''.join(operations)}</body></html>"
    )
    return HTMLResponse(page, headers={"Content-Security-Policy": _CSP, "X-Content-Type-Options": "nosniff"})


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(each['name'])}</code></td><td>{escape(each['in'])}</td>"
        f"<td>{'required' if each.get('required') else ''}</td></tr>"
        for each in operation.get("parameters", ())
    ]
    content: dict[str, Any] = operation.get("requestBody", {}).get("content", {})
    bodies = [_schema(each.get("schema", {}), schemas) for each in content.values()]
    told = escape(operation.get("description") or operation.get("summary") or "")
    return (
        f'<details><summary><span class="m">{method.upper()}</span> <code>{escape(path)}</code></summary><p>{told}</p>'
        + (f"<table>{''.join(rows)}</table>" if rows else "")
        + "".join(f"<p>Body:</p><pre>{escape(body)}</pre>" for body in bodies)
        + "</details>"
    )


def _schema(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The JSON schema of a body, with that of the model which it names."""
    options = [schema, *schema.get("anyOf", ())]
    named = [schemas[each["$ref"].rpartition("/")[2]] for each in options if "$ref" in each]
    return json.dumps(named[0] if named else schema, indent=2, ensure_ascii=False)
