"""The first tables."""

import sqlalchemy as sa
from alembic import op

from tocsin.store.store import reach

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "meta",
        sa.Column("id", sa.Integer, sa.CheckConstraint("id = 1", name=op.f("ck_meta_one_row")), autoincrement=False),
        sa.Column("incarnation", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("now_us", sa.BigInteger, nullable=False),
        sa.Column("boot", sa.Text, nullable=False),
        sa.Column("boottime_us", sa.BigInteger, nullable=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("matching", sa.Text, nullable=False),
        sa.Column("matched_through", sa.BigInteger, nullable=False),
        sa.Column("horizon", sa.BigInteger, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.CheckConstraint("matching IN ('inline', 'pipeline')", name=op.f("ck_meta_matching")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_meta")),
    )
    op.create_table(
        "schema_versions",
        sa.Column("version", sa.Integer, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("change", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_schema_versions")),
        sa.UniqueConstraint("seq", name=op.f("uq_schema_versions_seq")),
    )
    op.create_table(
        "accounts",
        sa.Column("number", NUMBER),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("credentials", sa.Text),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("disabled_us", sa.BigInteger),
        sa.CheckConstraint("role IN ('member', 'admin')", name=op.f("ck_accounts_role")),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_accounts")),
        sa.UniqueConstraint("name", name=op.f("uq_accounts_name")),
    )
    reach("migration.mid-upgrade")
    _subscriptions()
    _events()


def _subscriptions() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("id", NUMBER, autoincrement=False),
        sa.Column("owner", NUMBER, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("tree", sa.LargeBinary, nullable=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("ticket_hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_subscriptions")),
        sa.ForeignKeyConstraint(["owner"], ["accounts.number"], name=op.f("fk_subscriptions_owner")),
    )
    op.create_table(
        "leases",
        sa.Column("subscription", NUMBER, autoincrement=False),
        sa.Column("owner", NUMBER, nullable=False),
        sa.Column("start_us", sa.BigInteger, nullable=False),
        sa.Column("end_us", sa.BigInteger, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("changed_seq", sa.BigInteger, nullable=False),
        sa.Column("deleted_seq", sa.BigInteger),
        sa.Column("deleted_by", sa.Text),
        sa.CheckConstraint("deleted_by IN ('owner', 'lease')", name=op.f("ck_leases_deleted_by")),
        sa.PrimaryKeyConstraint("subscription", name=op.f("pk_leases")),
        sa.ForeignKeyConstraint(["subscription"], ["subscriptions.id"], name=op.f("fk_leases_subscription")),
        sa.ForeignKeyConstraint(["owner"], ["accounts.number"], name=op.f("fk_leases_owner")),
    )
    op.create_index(op.f("ix_leases_changed_seq"), "leases", ["changed_seq"])
    op.create_index(op.f("ix_leases_owner_subscription"), "leases", ["owner", "subscription"])


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("seq", NUMBER, autoincrement=False),
        sa.Column("event_id", sa.LargeBinary, nullable=False),
        sa.Column("schema_version", sa.Integer, nullable=False),
        sa.Column("arrival_us", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_events")),
        sa.UniqueConstraint("event_id", name=op.f("uq_events_event_id")),
    )
    op.create_table(
        "notifications",
        sa.Column("bucket", sa.Integer, nullable=False),
        sa.Column("first_seq", sa.BigInteger, nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("last_seq", sa.BigInteger, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("bucket", "first_seq", "part", name=op.f("pk_notifications")),
    )
    op.create_table(
        "acknowledgements",
        sa.Column("owner", NUMBER, nullable=False),
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("subscription", sa.BigInteger, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("owner", "consumer", name=op.f("pk_acknowledgements")),
        sa.ForeignKeyConstraint(["owner"], ["accounts.number"], name=op.f("fk_acknowledgements_owner")),
    )
    op.create_table(
        "idempotency",
        sa.Column("publisher", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("body_hash", sa.LargeBinary, nullable=False),
        sa.Column("receipts", sa.LargeBinary, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("publisher", "key", name=op.f("pk_idempotency")),
    )
    op.create_index(op.f("ix_idempotency_seq"), "idempotency", ["seq"])
    op.create_table(
        "dead_letters",
        sa.Column("seq", NUMBER, autoincrement=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("publisher", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("violations", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_dead_letters")),
    )
    op.create_index(op.f("ix_dead_letters_publisher_seq"), "dead_letters", ["publisher", "seq"])
    op.create_table(
        "progress",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("through_seq", sa.BigInteger, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_progress")),
    )
