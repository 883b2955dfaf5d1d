"""JSON schemas as validators of what models, tools and people give.

It imports `errors` alone. Begin with `validator.py`: a schema becomes parts, each of which says what fits it; then
`words.py`. `keywords.py` is for those that only look at a schema.
"""
