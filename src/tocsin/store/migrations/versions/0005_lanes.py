"""Lanes: the deliveries of one subscription to one webhook go one after the other, so what is due is found by lane."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
WAITING = sa.text("state = 'waiting'")


def upgrade() -> None:
    """Make them, for what is waiting."""
    op.add_column("deliveries", sa.Column("lane", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(
        "UPDATE deliveries SET lane = coalesce("
        "(SELECT origin FROM replacements WHERE replacements.subscription = deliveries.subscription), subscription)"
    )
    op.drop_index(op.f("ix_deliveries_state_next_us"), "deliveries")
    op.create_index(
        op.f("ix_deliveries_waiting"), "deliveries", ["webhook", "lane", "seq"],
        sqlite_where=WAITING, postgresql_where=WAITING,
    )  # fmt: skip
    op.create_table(
        "lanes",
        sa.Column("webhook", NUMBER, nullable=False),
        sa.Column("lane", sa.BigInteger, nullable=False),
        sa.Column("next_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("webhook", "lane", name=op.f("pk_lanes")),
        sa.ForeignKeyConstraint(["webhook"], ["webhooks.id"], name=op.f("fk_lanes_webhook")),
    )
    op.create_index(op.f("ix_lanes_next_us"), "lanes", ["next_us"])
    op.execute(
        "INSERT INTO lanes (webhook, lane, next_us) "
        "SELECT webhook, lane, min(next_us) FROM deliveries WHERE state = 'waiting' GROUP BY webhook, lane"
    )
