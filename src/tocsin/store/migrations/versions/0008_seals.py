"""Seals: digests of stretches of the log, each over the one before; checksums of subscriptions."""

import hashlib

import msgspec
import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ROWS = 10_000


def upgrade() -> None:
    """Make the table, and the checksums of what is there."""
    op.create_table(
        "seals",
        sa.Column("through_seq", NUMBER, autoincrement=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("events", sa.LargeBinary, nullable=False),
        sa.Column("notifications", sa.LargeBinary, nullable=False),
        sa.Column("subscriptions", sa.LargeBinary, nullable=False),
        sa.Column("head", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("through_seq", name=op.f("pk_seals")),
    )
    op.add_column("subscriptions", sa.Column("checksum", sa.LargeBinary))
    _checksums(op.get_bind())


def downgrade() -> None:
    """Forget the seals and the checksums: an upgrade computes these anew, and seals what comes then."""
    op.drop_column("subscriptions", "checksum")
    op.drop_table("seals")


def _checksums(connection: sa.Connection) -> None:
    after = -1
    table = sa.table("subscriptions", *map(sa.column, ("id", "owner", "text", "tree", "schema_version", "ticket_hash")))
    change = sa.text("UPDATE subscriptions SET checksum = :checksum WHERE id = :id")
    while rows := connection.execute(sa.select(table).where(table.c.id > after).order_by(table.c.id).limit(ROWS)).all():
        digests = [hashlib.sha256(msgspec.msgpack.encode(tuple(row))).digest()[:16] for row in rows]
        facts = [{"id": row.id, "checksum": digest} for row, digest in zip(rows, digests, strict=True)]
        connection.execute(change, facts)
        after = rows[-1].id
