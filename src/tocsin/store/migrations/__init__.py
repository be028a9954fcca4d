"""Alembic migrations, run by store/upgrade.py on the connection that it passes in."""
