"""Delivery rules: digests and rates, by subscription."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "delivery_rules",
        sa.Column("subscription", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("most_per_hour", sa.Integer),
        sa.PrimaryKeyConstraint("subscription", name=op.f("pk_delivery_rules")),
        sa.CheckConstraint("digest IN ('none', 'hour', 'day')", name=op.f("ck_delivery_rules_digest")),
    )
