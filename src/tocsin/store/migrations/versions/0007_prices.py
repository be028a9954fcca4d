"""Prices: what each subscription takes in memory, in bytes, so that quotas count size and not only number."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Give every subscription its price, as store/subscriptions.py computes it."""
    op.add_column("leases", sa.Column("price", sa.BigInteger, nullable=False, server_default="0"))
    as_text = "convert_from(s.tree, 'UTF8')" if op.get_bind().dialect.name == "postgresql" else "CAST(s.tree AS TEXT)"
    size = "octet_length(s.tree)" if op.get_bind().dialect.name == "postgresql" else "length(s.tree)"
    commas = f"(length({as_text}) - length(replace({as_text}, ',', '')))"
    op.execute(
        f"UPDATE leases SET price = (SELECT 256 + {size} + 200 * {commas} "  # noqa: S608 - no value of anybody's
        "FROM subscriptions s WHERE s.id = leases.subscription)"
    )
    op.add_column("accounts", sa.Column("subscription_bytes", sa.BigInteger, nullable=False, server_default="0"))
    op.execute(
        "UPDATE accounts SET subscription_bytes = coalesce((SELECT sum(price) FROM leases "
        "WHERE leases.owner = accounts.number AND (deleted_seq IS NULL OR deleted_by = 'paused')), 0)"
    )


def downgrade() -> None:
    """Forget the prices."""
    op.drop_column("accounts", "subscription_bytes")
    op.drop_column("leases", "price")
