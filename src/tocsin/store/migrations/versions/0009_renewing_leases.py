"""Leases that are renewed by themselves, for as long as their owner's account lives."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; leases that are there end when they say."""
    op.add_column("leases", sa.Column("renews", sa.Integer, nullable=False, server_default="0"))
    where = sa.text("renews = 1")
    op.create_index("ix_leases_renews", "leases", ["end_us"], sqlite_where=where, postgresql_where=where)
