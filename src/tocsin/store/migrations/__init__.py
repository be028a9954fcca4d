"""Alembic migrations, run by store/database.py on the connection that it passes in."""
