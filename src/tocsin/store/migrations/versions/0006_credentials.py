"""Credentials: tokens and sessions in one table, with their parents; and the audit trail.

Tokens stay as they are. Sessions end: nobody knows by what they were got, so browsers log in again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables, and move the tokens."""
    _credentials()
    op.execute(
        "INSERT INTO credentials (id, kind, hash, account, name, csrf, created_us, expires_us, last_used_us, address) "
        "SELECT id, 'token', hash, account, name, '', created_us, expires_us, last_used_us, '' FROM api_tokens"
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "SELECT setval(pg_get_serial_sequence('credentials', 'id'), max(id)) FROM credentials HAVING count(*) > 0"
        )
    op.drop_table("api_tokens")
    op.drop_table("sessions")
    _audit()


def _credentials() -> None:
    op.create_table(
        "credentials",
        sa.Column("id", NUMBER),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.Column("account", NUMBER, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("csrf", sa.Text, nullable=False),
        sa.Column("parent", NUMBER),
        sa.Column("scopes", sa.Text),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("expires_us", sa.BigInteger),
        sa.Column("last_used_us", sa.BigInteger),
        sa.Column("address", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_credentials")),
        sa.UniqueConstraint("hash", name=op.f("uq_credentials_hash")),
        sa.CheckConstraint("kind IN ('token', 'session')", name=op.f("ck_credentials_kind")),
        sa.ForeignKeyConstraint(["account"], ["accounts.number"], name=op.f("fk_credentials_account")),
        sa.ForeignKeyConstraint(["parent"], ["credentials.id"], name=op.f("fk_credentials_parent")),
    )
    op.create_index(op.f("ix_credentials_account"), "credentials", ["account"])
    op.create_index(op.f("ix_credentials_parent"), "credentials", ["parent"])


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", NUMBER),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("account", sa.BigInteger),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("credential", sa.BigInteger),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("concerns", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit")),
    )
    op.create_index(op.f("ix_audit_account_id"), "audit", ["account", "id"])
    op.create_index(op.f("ix_audit_concerns_id"), "audit", ["concerns", "id"])
