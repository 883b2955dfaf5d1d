"""Parameters on the wire: every place and style arrives as the tables of the specification show."""

from __future__ import annotations

from typing import Any

import pytest
from protocols.openapi.service import BOTH, Service, call, get, post

from flowloom.errors import ToolArgumentsError

BLUE: dict[str, Any] = {"string": "blue", "empty": "", "array": ["blue", "black", "brown"]}
BLUE["object"] = {"R": 100, "G": 200, "B": 150}

# OpenAPI 3.1.1, "Style Examples", for a parameter named `color`
TABLE = [
    ("path", "matrix", False, "empty", ";color"),
    ("path", "matrix", False, "string", ";color=blue"),
    ("path", "matrix", False, "array", ";color=blue,black,brown"),
    ("path", "matrix", False, "object", ";color=R,100,G,200,B,150"),
    ("path", "matrix", True, "string", ";color=blue"),
    ("path", "matrix", True, "array", ";color=blue;color=black;color=brown"),
    ("path", "matrix", True, "object", ";R=100;G=200;B=150"),
    ("path", "label", False, "string", ".blue"),
    ("path", "label", False, "array", ".blue,black,brown"),
    ("path", "label", False, "object", ".R,100,G,200,B,150"),
    ("path", "label", True, "array", ".blue.black.brown"),
    ("path", "label", True, "object", ".R=100.G=200.B=150"),
    ("path", "simple", False, "string", "blue"),
    ("path", "simple", False, "array", "blue,black,brown"),
    ("path", "simple", False, "object", "R,100,G,200,B,150"),
    ("path", "simple", True, "array", "blue,black,brown"),
    ("path", "simple", True, "object", "R=100,G=200,B=150"),
    ("query", "form", False, "empty", "color="),
    ("query", "form", False, "string", "color=blue"),
    ("query", "form", False, "array", "color=blue,black,brown"),
    ("query", "form", False, "object", "color=R,100,G,200,B,150"),
    ("query", "form", True, "empty", "color="),
    ("query", "form", True, "array", "color=blue&color=black&color=brown"),
    ("query", "form", True, "object", "R=100&G=200&B=150"),
    ("query", "spaceDelimited", False, "array", "color=blue%20black%20brown"),
    ("query", "spaceDelimited", False, "object", "color=R%20100%20G%20200%20B%20150"),
    ("query", "pipeDelimited", False, "array", "color=blue%7Cblack%7Cbrown"),
    ("query", "pipeDelimited", False, "object", "color=R%7C100%7CG%7C200%7CB%7C150"),
    ("query", "deepObject", True, "object", "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
    ("header", "simple", False, "string", "blue"),
    ("header", "simple", False, "array", "blue,black,brown"),
    ("header", "simple", False, "object", "R,100,G,200,B,150"),
    ("header", "simple", True, "object", "R=100,G=200,B=150"),
    ("cookie", "form", False, "string", "color=blue"),
    ("cookie", "form", False, "array", "color=blue,black,brown"),
    ("cookie", "form", False, "object", "color=R,100,G,200,B,150"),
]


@BOTH
@pytest.mark.parametrize(("place", "style", "explode", "kind", "wire"), TABLE)
async def test_a_parameter_arrives_as_the_table_shows(
    service: Service, place: str, style: str, explode: bool, kind: str, wire: str
) -> None:
    """For each place, style and kind of value."""
    parameter = {"name": "color", "in": place, "style": style, "explode": explode, "required": True, "schema": {}}
    path = "/x/{color}/y" if place == "path" else "/x"
    toolset = service.toolset({path: get(parameter)})
    await call(toolset, color=BLUE[kind])
    received = service.last
    found = {"path": received.path[3:-2], "query": received.query, "header": received.header("color")}
    assert found.get(place, received.header("cookie")) == wire
    await toolset.close()


@BOTH
@pytest.mark.parametrize(
    ("place", "value", "wire"),
    [
        ("path", {"R": 1}, "/x/R,1"),
        ("query", ["a", "b"], "/x?p=a&p=b"),
        ("query", {"R": 1}, "/x?R=1"),
    ],
)
async def test_styles_have_the_defaults_of_their_place(service: Service, place: str, value: Any, wire: str) -> None:
    """`simple` without explode in paths, `form` with it in queries."""
    path = "/x/{p}" if place == "path" else "/x"
    toolset = service.toolset({path: get({"name": "p", "in": place, "required": True, "schema": {}})})
    await call(toolset, p=value)
    assert service.last.target == wire
    await toolset.close()


@pytest.mark.parametrize(
    ("value", "wire"),
    [
        (True, "true"),
        (False, "false"),
        (3, "3"),
        (2.5, "2.5"),
        ("a b&c=d/é?#+%", "a%20b%26c%3Dd%2F%C3%A9%3F%23%2B%25"),
        ("~-._", "~-._"),
        ("💧", "%F0%9F%92%A7"),
        (["a,b", "c d"], "a%2Cb&p=c%20d"),
    ],
)
async def test_values_are_written_as_text_and_percent_encoded(service: Service, value: Any, wire: str) -> None:
    """Booleans are `true` and `false`; all that is not unreserved is encoded."""
    toolset = service.toolset({"/x": get({"name": "p", "in": "query", "schema": {}})})
    await call(toolset, p=value)
    assert service.last.query == f"p={wire}"
    await toolset.close()


async def test_a_whole_number_is_written_as_one(service: Service) -> None:
    """`2.0` for an integer is sent as `2`."""
    toolset = service.toolset({"/x": get({"name": "p", "in": "query", "schema": {"type": "integer"}})})
    await call(toolset, p=2.0)
    assert service.last.query == "p=2"
    await toolset.close()


async def test_reserved_characters_stay_where_they_are_allowed(service: Service) -> None:
    """But for those that would end the value, and with what is encoded already."""
    toolset = service.toolset({"/x": get({"name": "p", "in": "query", "allowReserved": True, "schema": {}})})
    await call(toolset, p="a/b:c?d=e,f;g@h!$'()*&i#j+k[l]m%20n%zz o")
    assert service.last.query == "p=a/b:c?d=e,f;g@h!$'()*%26i%23j%2Bk%5Bl%5Dm%20n%25zz%20o"
    await toolset.close()


@BOTH
@pytest.mark.parametrize("place", ["path", "query", "header", "cookie"])
async def test_a_parameter_with_content_is_written_as_json(service: Service, place: str) -> None:
    """What the document has under `content: application/json` is JSON, encoded as its place wants it."""
    parameter = {"name": "p", "in": place, "required": True, "content": {"application/json": {"schema": {}}}}
    toolset = service.toolset({"/x/{p}" if place == "path" else "/x": get(parameter)})
    await call(toolset, p={"a": [1, "é"]})
    encoded = "%7B%22a%22%3A%5B1%2C%22%C3%A9%22%5D%7D"
    header = '{"a":[1,"\\u00e9"]}'
    told = {"path": service.last.path, "query": service.last.query, "header": service.last.header("p")}
    wanted = {"path": f"/x/{encoded}", "query": f"p={encoded}", "header": header}
    assert told.get(place, service.last.header("cookie")) == wanted.get(place, f"p={encoded}")
    await toolset.close()


@BOTH
async def test_a_deep_object_goes_as_deep_as_it_is(service: Service) -> None:
    """Objects within get more brackets, lists repeat their name."""
    toolset = service.toolset({"/x": get({"name": "f", "in": "query", "style": "deepObject", "schema": {}})})
    await call(toolset, f={"a": {"b c": 1}, "l": [1, 2], "n": None})
    assert service.last.query == "f%5Ba%5D%5Bb%20c%5D=1&f%5Bl%5D=1&f%5Bl%5D=2"
    await toolset.close()


@pytest.mark.parametrize("value", [".", "..", "a/../b", "..\\x", "../../admin", ["..", "b"], {"k": ".."}, ""])
async def test_a_path_leads_nowhere_else(service: Service, value: Any) -> None:
    """A value may not be a step of a path, nor empty."""
    toolset = service.toolset({"/x/{p}": get({"name": "p", "in": "path", "required": True, "schema": {}})})
    with pytest.raises(ToolArgumentsError, match="`p`"):
        await call(toolset, p=value)
    assert service.received == []
    await toolset.close()


async def test_a_style_cannot_make_a_step(service: Service) -> None:
    """An empty value in style `label` would be a `.` by itself."""
    parameter = {"name": "p", "in": "path", "style": "label", "required": True, "schema": {}}
    toolset = service.toolset({"/x/{p}": get(parameter), "/x/{p}/y": get(parameter, operationId="two")})
    for name in ("op", "two"):
        assert "leads elsewhere" in (await call(toolset, name, p=""))["error"]
    assert service.received == []
    await toolset.close()


async def test_a_header_may_have_any_letters(service: Service) -> None:
    """As UTF-8; in cookies they are percent-encoded."""
    where = ({"name": name, "in": name, "schema": {}} for name in ("header", "cookie"))
    toolset = service.toolset({"/x": get(*where)})
    await call(toolset, header="é 💧", cookie="é; x=1")
    assert (service.last.header("header") or "").encode("latin-1").decode() == "é 💧"
    assert service.last.header("cookie") == "cookie=%C3%A9%3B%20x%3D1"
    await toolset.close()


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb", "a\0b", ["ok", "a\nb"]])
async def test_a_header_stays_one_line(service: Service, value: Any) -> None:
    """A value with a line end is refused."""
    toolset = service.toolset({"/x": get({"name": "X-A", "in": "header", "schema": {}})})
    with pytest.raises(ToolArgumentsError, match="x_a"):
        await call(toolset, x_a=value)
    assert service.received == []
    await toolset.close()


async def test_headers_that_are_not_for_parameters_are_ignored(service: Service) -> None:
    """Accept, Content-Type, Authorization, and those that say where a request goes."""
    names = ["Accept", "content-type", "Authorization", "Host", "Content-Length", "Transfer-Encoding", "Cookie"]
    toolset = service.toolset({"/x": get(*({"name": name, "in": "header", "schema": {}} for name in names))})
    (tool,) = await toolset.get_tools()
    assert tool.declaration is not None
    assert tool.declaration.parameters_json_schema is None


async def test_what_is_left_out_is_not_sent(service: Service) -> None:
    """Optional arguments and defaults are not sent, null neither unless the schema has it."""
    query = {"in": "query"}
    toolset = service.toolset(
        {
            "/x": get(
                {"name": "a", **query, "schema": {"type": "string", "default": "d"}},
                {"name": "b", **query, "schema": {"type": "string"}},
                {"name": "c", **query, "schema": {"type": ["string", "null"]}},
                {"name": "d", **query, "required": True, "schema": {"type": "integer", "default": 7}},
                {"name": "e", **query, "content": {"application/json": {"schema": {"type": ["string", "null"]}}}},
            )
        }
    )
    await call(toolset, b=None, c=None, e=None)
    assert service.last.query == "d=7&e=null"
    await toolset.close()


async def test_one_name_in_four_places_is_four_arguments(service: Service) -> None:
    """Path, query, header and body each get their own."""
    paths = {
        "/x/{id}": {
            "put": {
                "operationId": "op",
                "parameters": [
                    {"name": "id", "in": "header", "schema": {"type": "string"}},
                    {"name": "id", "in": "query", "schema": {"type": "string"}},
                    {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
                ],
                "requestBody": {
                    "content": {
                        "application/json": {"schema": {"type": "object", "properties": {"id": {"type": "string"}}}}
                    }
                },
            }
        }
    }
    toolset = service.toolset(paths)
    await call(toolset, id="p", id_query="q", id_header="h", id_body="b")
    received = service.last
    assert (received.target, received.header("id"), received.body) == ("/x/p?id=q", "h", b'{"id":"b"}')
    await toolset.close()


async def test_parameters_of_the_path_are_inherited_and_overridden(service: Service) -> None:
    """By name and place; a header's name in any case."""
    item = {
        "parameters": [
            {"name": "q", "in": "query", "schema": {"type": "string"}},
            {"name": "X-A", "in": "header", "schema": {"type": "string"}},
            {"name": "kept", "in": "query", "schema": {"type": "boolean"}},
        ],
        **get(
            {"name": "q", "in": "query", "schema": {"type": "integer"}},
            {"name": "x-a", "in": "header", "required": True, "schema": {"type": "string"}},
        ),
    }
    toolset = service.toolset({"/x": item})
    (tool,) = await toolset.get_tools()
    assert tool.declaration is not None
    schema = tool.declaration.parameters_json_schema
    assert {name: each["type"] for name, each in schema["properties"].items()} == {
        "q": "integer",
        "x_a": "string",
        "kept": "boolean",
    }
    assert schema["required"] == ["x_a"]


async def test_names_are_kept_if_that_is_wanted(service: Service) -> None:
    """With `preserve_property_names`, as far as a model can take them."""
    paths = {
        "/x": {
            "post": {
                "operationId": "createThing",
                "parameters": [{"name": "X-Request-ID", "in": "header", "schema": {}}, {"name": "a[b]", "in": "query"}],
                **{
                    k: v
                    for k, v in post({"application/json": {"schema": {"properties": {"aB": {}}}}})["post"].items()
                    if k == "requestBody"
                },
            }
        }
    }
    toolset = service.toolset(paths, preserve_property_names=True)
    await call(toolset, "createThing", **{"X-Request-ID": "1", "a_b_": "2", "aB": 3})
    assert service.last.header("x-request-id") == "1"
    assert (service.last.query, service.last.body) == ("a%5Bb%5D=2", b'{"aB":3}')
    await toolset.close()


async def test_a_path_has_no_place_for_null(service: Service) -> None:
    """Even where the schema has it: nothing is sent."""
    schema = {"type": ["string", "null"]}
    toolset = service.toolset({"/x/{id}": get({"name": "id", "in": "path", "required": True, "schema": schema})})
    with pytest.raises(ToolArgumentsError, match="`id` is empty"):
        await call(toolset, id=None)
    assert service.received == []
    await toolset.close()
