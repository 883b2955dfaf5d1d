"""Models that are copied and made without validation (`events/wire.py`)."""

from __future__ import annotations

from google.genai import types
from pydantic import PrivateAttr

from flowloom import Event
from flowloom.events.wire import WireModel, make, replace


class Noted(WireModel):
    """A type with everything that pydantic keeps beside the fields."""

    name: str
    _kind: str = PrivateAttr(default="plain")
    _notes: dict[str, str] = PrivateAttr(default_factory=dict)


def test_a_copy_has_the_other_values_and_the_original_its_own() -> None:
    event = Event(author="root", branch="a", unknown="kept")  # type: ignore[call-arg]
    copied = replace(event, branch=None)
    assert (copied.author, copied.branch, event.branch) == ("root", None, "a")
    assert type(copied) is Event
    assert copied.model_extra == {"unknown": "kept"}
    assert copied.model_extra is not event.model_extra


def test_what_a_copy_is_given_beside_its_fields_is_its_own() -> None:
    event = Event(author="root")
    copied = replace(event)
    copied.extra_field = "of the copy"  # type: ignore[attr-defined]
    assert event.model_extra == {}


def test_what_is_made_equals_what_is_validated() -> None:
    values = {"id": "e1", "timestamp": 1.0, "author": "root"}
    made = make(Event, **values)
    assert made == Event(**values)
    assert made == make(Event, values)
    assert made.to_wire() == Event(**values).to_wire()


def test_defaults_that_may_be_changed_are_no_two_models_own() -> None:
    one, other = make(Event), make(Event)
    assert one.id != other.id
    one.actions.state_delta["key"] = "value"
    assert other.actions.state_delta == {}


def test_private_attributes_are_those_of_each_model() -> None:
    one, other = make(Noted, name="one"), make(Noted, name="other")
    one._notes["a"] = "note"
    assert (other._kind, other._notes) == ("plain", {})


def test_types_of_google_genai_are_made_too() -> None:
    part = make(types.Part, text="hello")
    assert part == types.Part(text="hello")
    assert part.model_extra is None
