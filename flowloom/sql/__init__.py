"""SQL databases: works that run in threads of their own, in transactions, on SQLite or PostgreSQL.

It imports `extras`, `errors` and `objects`. Begin with `database.py`: what a database of either kind does.
"""

from flowloom.sql.database import Connection, Cursor, Database, Dialect
from flowloom.sql.migrations import Schema

__all__ = ["Connection", "Cursor", "Database", "Dialect", "Schema"]
