"""What an event log says of its calls: which of them wait for whom, and what was answered.

It imports `events`, `auth`, `models` and `errors`, and nothing of the engine.
Begin with `answers.py`: what an answer of a person is.
"""
