"""One agent, three tools, no data but the factors."""

from flowloom import LlmAgent

# How many metres, or kilograms, one of the unit is.
LENGTHS = {
    "mm": 0.001,
    "cm": 0.01,
    "m": 1.0,
    "km": 1000.0,
    "inch": 0.0254,
    "foot": 0.3048,
    "yard": 0.9144,
    "mile": 1609.344,
}
WEIGHTS = {"g": 0.001, "kg": 1.0, "ounce": 0.028349523125, "pound": 0.45359237, "stone": 6.35029318, "tonne": 1000.0}
SPELLINGS = {
    "feet": "foot",
    "inches": "inch",
    "metre": "m",
    "meter": "m",
    "kilometre": "km",
    "kilometer": "km",
    "gram": "g",
    "kilogram": "kg",
    "kilo": "kg",
    "lb": "pound",
    "oz": "ounce",
}


def convert_length(value: float, from_unit: str, to_unit: str) -> str:
    """Convert a length or distance: mm, cm, m, km, inches, feet, yards, miles."""
    return _convert(value, from_unit, to_unit, LENGTHS)


def convert_weight(value: float, from_unit: str, to_unit: str) -> str:
    """Convert a weight or mass: g, kg, ounces, pounds, stones, tonnes."""
    return _convert(value, from_unit, to_unit, WEIGHTS)


def convert_temperature(value: float, from_unit: str, to_unit: str) -> str:
    """Convert a temperature between degrees Celsius and Fahrenheit."""
    source, target = from_unit.strip().upper()[:1], to_unit.strip().upper()[:1]
    if {source, target} != {"C", "F"}:
        raise ValueError(f"{from_unit!r} to {to_unit!r} is no conversion between Celsius and Fahrenheit.")
    result = value * 9 / 5 + 32 if source == "C" else (value - 32) * 5 / 9
    return f"{value:g} °{source} is {result:g} °{target}."


def _convert(value: float, from_unit: str, to_unit: str, factors: dict[str, float]) -> str:
    source, target = _unit(from_unit, factors), _unit(to_unit, factors)
    return f"{value:g} {source} is {value * factors[source] / factors[target]:g} {target}."


def _unit(name: str, factors: dict[str, float]) -> str:
    wanted = name.strip().lower()
    singular = wanted.removesuffix("s")
    for spelled in (wanted, singular, SPELLINGS.get(wanted), SPELLINGS.get(singular)):
        if spelled in factors:
            return spelled
    raise ValueError(f"{name!r} is none of {', '.join(factors)}.")


root_agent = LlmAgent(
    name="unit_converter",
    model="gemini-2.5-flash",
    description="Converts lengths, weights and temperatures.",
    instruction="Convert what the user asks for. Give the result in one short sentence.",
    tools=[convert_length, convert_weight, convert_temperature],
)
