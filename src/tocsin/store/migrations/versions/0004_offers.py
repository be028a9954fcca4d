"""Offers: events with rules and dynamic attributes, and the values that were computed for those whom they reached."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    number = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "offers",
        sa.Column("seq", number, autoincrement=False),
        sa.Column("publisher", sa.Text, nullable=False),
        sa.Column("ends_us", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_offers")),
    )
    op.create_index(op.f("ix_offers_ends_us"), "offers", ["ends_us"])
    op.create_index(op.f("ix_offers_publisher_seq"), "offers", ["publisher", "seq"])
    op.create_table(
        "computed_values",
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("bucket", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("seq", "bucket", name=op.f("pk_computed_values")),
    )
