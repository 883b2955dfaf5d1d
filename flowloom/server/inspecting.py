"""What the page asks for to show how a session came about (server spec §12, helpers). Development server only.

D = `/dev/apps/{a}/users/{u}/sessions/{s}`, S = `/apps/{a}/users/{u}/sessions`. What comes from `Assembly.to_dict` and
`WaitingRequest.to_dict` has their snake_case keys; all else is camelCase. Times are epoch seconds. Problems are
`{"detail", "code"}`.

| request | answer |
|---|---|
| GET `D/events/{e}/request` | the keys of `Assembly.to_dict` (`agent`, `step`, `request`, `sections`: `[{path, by,
  value}]`, `steps`: `[{name, microseconds, changes: [{path, kind, before, after}], events}]`, `halted_by`, …), and
  `event_id`, `invocation_id`, `previous_event_id` (str or null: that of the agent's call before), `difference` from it
  (or null):
  `{differences: [{path, by, kind: added|removed|changed, before, after}], prefix_broken_by: path or null,
  contents_kept, older_contents}`. 404 `request_not_found`: no model call of this server process led to the event |
| POST `D/explain` `{newMessage?, agent?}` | the same keys, `event_id` null, the difference from the last call. Nothing
  is sent or stored. 400 `invalid_message`, 400 `cannot_explain` (what a run would raise before it asks the model) |
| GET `D/trace` | `[{traceId, spanId, parentSpanId (hex; null), name, kind: agent|model|tool|processor|other, startTime,
  endTime, microseconds, invocationId, eventId, agent, error: {type, message} or null, attributes}]` in the order of
  their starts; finished spans only; `[]` if there are none |
| POST `S/{id}/fork` `{throughEventId?, sessionId?}` | the new Session, with its events up to that one (all without it).
  404 `session_not_found`, `event_not_found`; 409 `session_exists` |
| GET `S?limit=&after=&q=` | `[Session]`, the latest first, `events` empty, each with `lastWords` (text or absent);
  `after`: the id of the last one of the page before; a page shorter than `limit` (1 to 1,000; 50) is the last. `q` is
  looked for in ids, names and texts, by every word of it, without case |
| GET `S/{id}?afterEventId=&beforeEventId=&limit=` | Session with the events after that one (the first `limit` of them),
  or before it, or, without either, with the last `limit`. 404 `event_not_found` |
| GET `/dev/models/requests` | `[WaitingRequest.to_dict()]`, the oldest first |
| GET `/dev/models/requests/stream` | SSE: `event: came` with `data:` `WaitingRequest.to_dict()` (those that wait
  first), `event: ended` with `{id, state: answered|cancelled|timed out}` |
| POST `/dev/models/requests/{id}/answer` | `{"parts": [Part]}`, or `{"error": {code?, message, retryable?},
  "parts"?: what was said before it}` → 200 `{id, state: "answered"}`. 404 `request_not_found`; 409 `request_over` with
  `state`; 422 `unfit_answer` with `tool`, `field` (str or null) and `detail` as text: the request goes on waiting |
"""
