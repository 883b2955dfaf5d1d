"""A FastAPI app of our own, whose document the toolset reads over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pytest
import uvicorn
from fastapi import FastAPI, File, Form, Header, HTTPException, Query, UploadFile
from fastapi.security import APIKeyHeader
from kit import Chat, agent
from pydantic import BaseModel
from starlette.responses import Response

from flowloom import OpenAPIToolset
from flowloom.testing import call

app = FastAPI(title="Pets")
_key = APIKeyHeader(name="X-Key")


class Toy(BaseModel):
    name: str
    inside: list[Toy] = []


class Pet(BaseModel):
    name: str
    kind: Literal["cat", "dog"] = "cat"
    toy: Toy | None = None


@app.get("/pets/{pet_id}")
async def get_pet(pet_id: int, tags: Annotated[list[str] | None, Query()] = None, x_trace_id: str = Header("")) -> Any:
    """Read a pet."""
    if pet_id == 404:
        raise HTTPException(404, "no such pet")
    return {"id": pet_id, "tags": tags, "trace": x_trace_id}


@app.post("/pets")
async def add_pet(pet: Pet) -> Pet:
    """Add a pet."""
    return pet


@app.post("/photos")
async def add_photo(photo: Annotated[UploadFile, File()], note: Annotated[str, Form()] = "") -> Any:
    """Add a photo."""
    return {"name": photo.filename, "size": len(await photo.read()), "note": note}


@app.delete("/pets/{pet_id}", status_code=204)
async def remove_pet(pet_id: int) -> Response:
    """Remove a pet."""
    return Response(status_code=204)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        pass
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


async def test_a_fastapi_app_is_read_and_called(url: str) -> None:
    """Its document of 3.1 with optional values, cycles, forms and errors."""
    toolset = OpenAPIToolset(spec_path=f"{url}/openapi.json", allow_private_network_access=True)
    wanted = {"name": "Tom", "toy": {"name": "box", "inside": [{"name": "mouse"}]}}
    steps = [
        call("get_pet_pets_pet_id_get", pet_id=7, tags=["a b", "ü"], x_trace_id="t"),
        call("get_pet_pets_pet_id_get", pet_id=7, tags=None),
        call("get_pet_pets_pet_id_get", pet_id=404),
        call("add_pet_pets_post", **wanted),
        call("add_photo_photos_post", photo="iVBORw0KGgo=", note="n"),
        call("remove_pet_pets_pet_id_delete", pet_id=7),
        call("add_pet_pets_post", name="Tom", kind="cow"),
    ]
    chat = Chat(agent("root", *steps, "done", tools=[toolset]))
    events = await chat.say("go")
    given = [event.get_function_responses()[0].response for event in events if event.get_function_responses()]
    assert given[0] == {"id": 7, "tags": ["a b", "ü"], "trace": "t"}
    assert given[1] == {"id": 7, "tags": None, "trace": ""}
    assert (given[2]["status"], given[2]["body"]) == (404, {"detail": "no such pet"})
    assert given[3] == {
        "kind": "cat",
        "name": "Tom",
        "toy": {"name": "box", "inside": [{"name": "mouse", "inside": []}]},
    }
    assert given[4] == {"name": "photo", "size": 8, "note": "n"}
    assert given[5] == {"result": None}
    assert "`kind`" in given[6]["error"]
    await chat.runner.close()
