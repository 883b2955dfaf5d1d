# made from table.py by tests/adk/stubs.py
