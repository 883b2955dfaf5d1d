"""What classes of all rooms share: how they are made, show themselves and are closed, and names loaded when used.

It imports `extras` and `errors`, and every room may import it. Begin with `settings.py`: the base of what users put
together by its fields.
"""
