"""Sites, whose data are published as theirs, and their mappings; who may extend the schema, and what waits for a yes."""

import sqlalchemy as sa
from alembic import op

from tocsin.errors import StoreError

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the tables; nobody has a site yet, and nobody but admins extends the schema."""
    op.create_table(
        "sites",
        sa.Column("number", NUMBER),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("folded", sa.Text, nullable=False),
        sa.Column("owner", NUMBER, nullable=False),
        sa.Column("contact", sa.Text, nullable=False),
        sa.Column("home_page", sa.Text, nullable=False),
        sa.Column("created_us", sa.BigInteger, nullable=False),
        sa.Column("ended_us", sa.BigInteger),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_sites")),
        sa.UniqueConstraint("folded", name=op.f("uq_sites_folded")),
        sa.ForeignKeyConstraint(["owner"], ["accounts.number"], name=op.f("fk_sites_owner")),
    )
    op.create_index("ix_sites_owner", "sites", ["owner"])
    op.create_table(
        "site_mappings",
        sa.Column("site", NUMBER, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("words", sa.Text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("site", "version", name=op.f("pk_site_mappings")),
        sa.ForeignKeyConstraint(["site"], ["sites.number"], name=op.f("fk_site_mappings_site")),
    )
    op.create_table(
        "schema_proposals",
        sa.Column("number", NUMBER),
        sa.Column("account", NUMBER, nullable=False),
        sa.Column("changes", sa.Text, nullable=False),
        sa.Column("words", sa.Text, nullable=False),
        sa.Column("at_us", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("decided_by", sa.Text, nullable=False),
        sa.Column("decided_us", sa.BigInteger),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("version", sa.Integer),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_schema_proposals")),
        sa.ForeignKeyConstraint(["account"], ["accounts.number"], name=op.f("fk_schema_proposals_account")),
        sa.CheckConstraint("state IN ('waiting', 'accepted', 'refused')", name=op.f("ck_schema_proposals_state")),
    )
    op.create_index("ix_schema_proposals_account", "schema_proposals", ["account"])
    op.add_column("accounts", sa.Column("extends_schema", sa.Integer, nullable=False, server_default="0"))
    op.add_column("dead_letters", sa.Column("site", sa.Text, nullable=False, server_default=""))


def downgrade() -> None:
    """Go back where nothing is lost that the older tables cannot hold; publishers become members."""
    for table, what in (("sites", "sites"), ("schema_proposals", "proposals to extend the schema")):
        count = op.get_bind().execute(sa.text(f"SELECT count(*) FROM {table}")).scalar_one()  # noqa: S608 - no value of anybody's
        if count:
            raise StoreError(
                f"the store has {count} {what}, which version 0009 cannot hold; restore the backup of before the upgrade, "
                f"or empty the table {table} if they may be lost"
            )
    op.drop_column("dead_letters", "site")
    op.drop_column("accounts", "extends_schema")
    op.drop_table("schema_proposals")
    op.drop_table("site_mappings")
    op.drop_table("sites")
