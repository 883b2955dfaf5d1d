"""What all rooms share: how objects are made, shown and closed, names loaded when used, and the loop that retries.

It imports `extras` and `errors`, and every room may import it. Begin with `settings.py`: the base of what users put
together by its fields.
"""
