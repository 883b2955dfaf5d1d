"""Climate: what the weather is usually like."""

from typing import Literal, get_args

from ..data import known_city, load

Spring = Literal["March", "April", "May"]
Summer = Literal["June", "July", "August"]
Autumn = Literal["September", "October", "November"]
Month = Literal["January", "February", Spring, Summer, Autumn, "December"]
_MONTHS: tuple[str, ...] = get_args(Month)


def get_climate(city: str, month: Month | None = None) -> str:
    """Tell the usual weather in a city: temperature, how warm or cold it is, rain and sun; by month or all year.

    Args:
        city: The city.
        month: The month; without one, the best month is named.
    """
    city = known_city(city)
    climate = load("climate")[city]
    if month is None:
        # warm, but not hot, and dry
        best = min(range(12), key=lambda i: abs(climate["high_c"][i] - 24) + climate["rain_days"][i])
        return f"{city} is most pleasant in {_MONTHS[best]}: {_told(climate, best)}."
    return f"In {month}, {city} has {_told(climate, _MONTHS.index(month))}."


def _told(climate: dict[str, list[int]], month: int) -> str:
    return f"highs of {climate['high_c'][month]} °C and {climate['rain_days'][month]} days of rain"
