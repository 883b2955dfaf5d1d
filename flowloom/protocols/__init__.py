"""Tools from elsewhere, and agents for others: what speaks a protocol (protocols spec).

Each protocol is a folder and an extra of its own; its library is loaded when something is connected, and in a thread
(`loading.py`). What all toolsets from elsewhere do alike stands here, once:

- `names.py`: what a tool from outside is called; which names it may not have.
- `words.py`: descriptions without control and invisible characters.
- `schema.py`: the schema of a tool's arguments, and their check against it.
- `files.py`: files that come with a result.
- `results.py`: how much of a result a model is given; the rest is kept as a file of the session.
- `unavailable.py`: what becomes of a run whose toolset cannot be listed, and the state that a toolset reports.
- `addresses.py`: addresses as they may be shown, and when two of them are of one origin.
- `targets.py`, `guarded.py`: which hosts may be reached, and HTTP connections that reach no others.

It imports `context`, `telemetry`, `tools`, `processors`, `agents`, `run_stream`, `runner` and the rooms below. Begin
with `names.py`, then the folder of a protocol.
"""
