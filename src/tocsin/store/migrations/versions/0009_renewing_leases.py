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


def downgrade() -> None:
    """Let what would renew itself last for the longest that there is, a year: nobody renews it any more."""
    year_us = 366 * 86400 * 1_000_000
    op.execute(
        f"UPDATE leases SET end_us = (SELECT now_us + {year_us} FROM meta) "  # noqa: S608 - no value of anybody's
        "WHERE renews = 1 AND (deleted_seq IS NULL OR deleted_by = 'paused')"
    )
    op.drop_index("ix_leases_renews", "leases")
    op.drop_column("leases", "renews")
