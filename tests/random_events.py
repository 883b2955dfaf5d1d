"""Events as no engine makes them, for laws that hold whatever comes."""

from __future__ import annotations

import kit
from google.genai import types
from hypothesis import strategies as st
from run_stream_kit import call_piece, thought, whole

from flowloom.events import NodeInfo

words = st.text("ab \n", max_size=4)
call_ids = st.sampled_from(["c1", "c2", "c3", "", None])
names = st.sampled_from(
    ["look", "add", "transfer_to_agent", "set_model_response"]
    + [f"adk_request_{kind}" for kind in ("confirmation", "input", "credential")]
)
values = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
objects = st.dictionaries(
    st.sampled_from(["error", "originalFunctionCall", "toolConfirmation", "message", "authConfig", "id", "oauth2"]),
    st.recursive(values, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2)),
    max_size=3,
)
leaves = st.fixed_dictionaries({"json_path": st.sampled_from(["$", "$.a"]), "string_value": words})
parts = st.one_of(
    words.map(kit.text),
    words.map(thought),
    st.builds(
        lambda call_id, name, args: types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args)),
        call_ids,
        st.none() | names,
        st.none() | objects,
    ),
    st.builds(
        lambda call_id, name, pieces, more: call_piece(call_id, name, *pieces, more=more),
        call_ids,
        st.none() | names,
        st.lists(leaves, max_size=2),
        st.booleans(),
    ),
    st.builds(
        lambda call_id, name, data, more: types.Part(
            function_response=types.FunctionResponse(id=call_id, name=name, response=data, will_continue=more)
        ),
        call_ids,
        st.none() | names,
        st.none() | objects,
        st.none() | st.booleans(),
    ),
    st.just(types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))),
)
metadata = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {},
        optional={
            "agent_tool_call_id": st.sampled_from(["c1", "c2"]) | values,
            "agent_tool_partial": st.booleans() | values,
            "run_ended": st.sampled_from(["failed", "limit", "cancelled", "?"]) | st.lists(values),
        },
    ),
)
actions = st.fixed_dictionaries(
    {},
    optional={
        "state_delta": st.just({"k": 1}),
        "artifact_delta": st.just({"f": 1}),
        "transfer_to_agent": st.sampled_from(["a", "b", "d"]),
        "end_of_agent": st.booleans(),
        "requested_tool_confirmations": st.just({"c1": {"hint": "?"}}),
        "requested_auth_configs": st.just({"c2": {}}),
        "rewind_before_invocation_id": st.sampled_from(["", "", "i1"]),
    },
)
any_event = st.builds(
    lambda author, said, fields: whole(author, *said, **fields),
    st.sampled_from(["a", "b", "d", "user", ""]),
    st.lists(parts, max_size=3),
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(["e1", "e2", "e3", "e4", ""]),
            "invocation_id": st.sampled_from(["i1", "i1", "i1", "i2", ""]),
            "branch": st.sampled_from([None, None, "p.a", "p.b", "p.a.q.d", ""]),
            "isolation_scope": st.sampled_from([None, None, "c1"]),
            "node_info": st.sampled_from([None, None, NodeInfo(path="w@1/a@1"), NodeInfo(path="w@1/a@2")]),
            "partial": st.sampled_from([None, False, True, True]),
            "custom_metadata": metadata,
            "actions": actions,
            "error_code": st.sampled_from([None, None, None, "LOST"]),
            "long_running_tool_ids": st.sampled_from([None, ["c1"], ["c3", "r1"]]),
            "usage_metadata": st.sampled_from([None, types.GenerateContentResponseUsageMetadata(prompt_token_count=1)]),
        }
    ),
)
statuses = st.sampled_from([None, "final", "paused", "limit", "cancelled", "failed"])
