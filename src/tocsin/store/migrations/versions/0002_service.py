"""What the service stands on: tokens, sessions, webhooks, deliveries; replaced and paused subscriptions; lease notices."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
ENDED, PAUSED = sa.text("deleted_seq IS NOT NULL"), sa.text("deleted_by = 'paused'")


def upgrade() -> None:
    """Make them."""
    op.add_column("accounts", sa.Column("quotas", sa.Text))
    _leases()
    _logins()
    _webhooks()


def _leases() -> None:
    endings = "deleted_by IN ('owner', 'lease', 'replaced', 'paused')"
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint(op.f("ck_leases_deleted_by"), "leases", type_="check")
        op.create_check_constraint(op.f("ck_leases_deleted_by"), "leases", endings)
    else:  # SQLite has no other way to change a constraint; checks are not among what is copied
        with op.batch_alter_table("leases", recreate="always") as leases:
            leases.create_check_constraint(op.f("ck_leases_deleted_by"), endings)
    op.create_index(
        op.f("ix_leases_deleted_seq"), "leases", ["deleted_seq"], sqlite_where=ENDED, postgresql_where=ENDED
    )
    op.create_index(op.f("ix_leases_paused"), "leases", ["owner"], sqlite_where=PAUSED, postgresql_where=PAUSED)
    op.create_table(
        "replacements",
        sa.Column("subscription", NUMBER, autoincrement=False),
        sa.Column("origin", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("subscription", name=op.f("pk_replacements")),
        sa.ForeignKeyConstraint(["subscription"], ["subscriptions.id"], name=op.f("fk_replacements_subscription")),
    )
    op.create_index(op.f("ix_replacements_origin_subscription"), "replacements", ["origin", "subscription"])
    op.create_table(
        "lease_notices",
        sa.Column("subscription", NUMBER, autoincrement=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("subscription", name=op.f("pk_lease_notices")),
    )


def _logins() -> None:
    op.create_table(
        "api_tokens",
        sa.Column("id", NUMBER),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("account", NUMBER, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("expires_us", sa.BigInteger),
        sa.Column("last_used_us", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_tokens")),
        sa.UniqueConstraint("hash", name=op.f("uq_api_tokens_hash")),
        sa.ForeignKeyConstraint(["account"], ["accounts.number"], name=op.f("fk_api_tokens_account")),
    )
    op.create_index(op.f("ix_api_tokens_account"), "api_tokens", ["account"])
    op.create_table(
        "sessions",
        sa.Column("hash", sa.LargeBinary),
        sa.Column("account", NUMBER, nullable=False),
        sa.Column("csrf", sa.Text, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("expires_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("hash", name=op.f("pk_sessions")),
        sa.ForeignKeyConstraint(["account"], ["accounts.number"], name=op.f("fk_sessions_account")),
    )
    op.create_index(op.f("ix_sessions_account"), "sessions", ["account"])


def _webhooks() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", NUMBER),
        sa.Column("account", NUMBER, nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("subscription", sa.BigInteger, nullable=False),
        sa.CheckConstraint("state IN ('active', 'disabled')", name=op.f("ck_webhooks_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
        sa.ForeignKeyConstraint(["account"], ["accounts.number"], name=op.f("fk_webhooks_account")),
    )
    op.create_index(op.f("ix_webhooks_account"), "webhooks", ["account"])
    op.create_table(
        "deliveries",
        sa.Column("webhook", NUMBER, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("subscription", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_us", sa.BigInteger, nullable=False),
        sa.Column("first_us", sa.BigInteger, nullable=False),
        sa.Column("last_error", sa.Text),
        sa.CheckConstraint("state IN ('waiting', 'delivered', 'given_up')", name=op.f("ck_deliveries_state")),
        sa.PrimaryKeyConstraint("webhook", "seq", "subscription", name=op.f("pk_deliveries")),
        sa.ForeignKeyConstraint(["webhook"], ["webhooks.id"], name=op.f("fk_deliveries_webhook")),
    )
    op.create_index(op.f("ix_deliveries_state_next_us"), "deliveries", ["state", "next_us"])
