"""Currency: converting amounts."""

from ..data import load


def convert_currency(amount: float, from_currency: str, to_currency: str) -> str:
    """Convert an amount of money from one currency to another: euros, dollars, pounds, kroner, yen, francs.

    Args:
        amount: How much money.
        from_currency: The currency of the amount, as a code (EUR) or a name (euros).
        to_currency: The currency to convert to.
    """
    source, target = _code(from_currency), _code(to_currency)
    rates = load("currencies")
    result = amount / rates[source]["per_eur"] * rates[target]["per_eur"]
    return f"{amount:,.2f} {source} are {result:,.2f} {target} at the desk's rate."


def _code(name: str) -> str:
    wanted = name.strip().casefold()
    for code, currency in load("currencies").items():
        if wanted in (code.casefold(), *currency["names"], *(f"{each}s" for each in currency["names"])):
            return code
    raise ValueError(f"The desk does not change {name!r}. It knows {', '.join(load('currencies'))}.")
