"""What an event log says of its calls: which of them wait for whom, and what was answered.

It imports `models`, `events` and `errors`; nothing that runs agents. Begin with `ledger.py`: in what state each call
is.
"""
