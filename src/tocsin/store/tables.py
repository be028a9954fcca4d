"""The tables, the same on SQLite and PostgreSQL. migrations/ makes them; a test holds the two together.

    meta             one row: the seq, the clock's mark, how far matching and retention have come
    schema_versions  every version of the schema, whole
    accounts         who owns things, and may log in
    credentials      API tokens and sessions: secrets by which programs and browsers act for an account; hashed
    audit            who did what with accounts and their credentials
    sites            what accounts publish as: see sites.py
    site_mappings    every version of the sites' mappings, whole
    schema_proposals extensions of the schema that wait for an admin's yes, and those that had their answer
    subscriptions    what was asked, by whom; never changes
    leases           how long; beside subscriptions because renewals touch it and every start reads all of it
    replacements     which subscriptions go on under the id of an earlier one: see subscriptions.py
    lease_notices    which leases notice was given of
    events           the log
    notifications    matches, many to a row: see notifications.py
    acknowledgements how far each owner has read
    idempotency      what was answered to a key
    dead_letters     what could not be processed, and why
    progress         how far other readers of the log have come
    webhooks         addresses that notifications are pushed to
    deliveries       notifications on their way to a webhook, delivered, or given up
    lanes            of each webhook's subscriptions that something waits for: when the first of it is tried
    delivery_rules   digests and rates, by subscription
    offers           what events have beside their attributes: rules and dynamic attributes; see events.py
    seals            digests of stretches of the log, each over the one before: see seals.py
    computed_values  the dynamic attributes' values for those whom an offer reached, many to a row

Times are microseconds since 1970 on the store's clock, names ending in `_us`.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

HEAD = "0010"  # the newest migration
metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
ENDINGS = ("owner", "lease", "replaced", "paused")
_ENDED = "deleted_seq IS NOT NULL"
_PAUSED = "deleted_by = 'paused'"
_RENEWS = "renews = 1"
_WAITING = "state = 'waiting'"
_Number = BigInteger().with_variant(Integer(), "sqlite")  # SQLite: an INTEGER PRIMARY KEY is the row's own number

meta = Table(
    "meta",
    metadata,
    Column("id", Integer, CheckConstraint("id = 1", name="one_row"), primary_key=True, autoincrement=False),
    Column("incarnation", Text, nullable=False),  # changes when a backup is restored: cursors then are void
    Column("seq", BigInteger, nullable=False),  # the last one given
    Column("now_us", BigInteger, nullable=False),  # the last time used
    Column("boot", Text, nullable=False),
    Column("boottime_us", BigInteger, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("matching", Text, CheckConstraint("matching IN ('inline', 'pipeline')", name="matching"), nullable=False),
    Column("matched_through", BigInteger, nullable=False),  # every event up to this seq has its notifications
    Column("horizon", BigInteger, nullable=False),  # what is up to this seq may have been removed
    Column("created_us", BigInteger, nullable=False),
)

schema_versions = Table(
    "schema_versions",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, nullable=False, unique=True),
    Column("at_us", BigInteger, nullable=False),
    Column("change", Text, nullable=False),  # what was done, in words
    Column("document", Text, nullable=False),
)

accounts = Table(
    "accounts",
    metadata,
    Column("number", _Number, primary_key=True),
    Column("name", Text, nullable=False, unique=True),
    Column("role", Text, CheckConstraint("role IN ('member', 'admin')", name="role"), nullable=False),
    Column("credentials", Text),  # a password hash; none where no one can log in
    Column("created_us", BigInteger, nullable=False),
    Column("disabled_us", BigInteger),
    Column("quotas", Text),  # JSON: bounds of its own; none where the broker's settings hold
    Column("subscription_bytes", BigInteger, nullable=False, server_default="0"),  # prices of live and paused ones
    Column("extends_schema", Integer, nullable=False, server_default="0"),  # 1: a publisher, who is no admin
)

credentials = Table(
    "credentials",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("kind", Text, CheckConstraint("kind IN ('token', 'session')", name="kind"), nullable=False),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("account", _Number, ForeignKey(accounts.c.number), nullable=False),
    Column("name", Text, nullable=False),  # of a token: what it is for, in its owner's words
    Column("csrf", Text, nullable=False),  # of a session: what its forms carry along
    Column("parent", _Number, ForeignKey("credentials.id")),  # the token by which it was got; none: the password
    Column("scopes", Text),  # what it may do; none: whatever its account may
    Column("created_us", BigInteger, nullable=False),
    Column("expires_us", BigInteger),
    Column("last_used_us", BigInteger),
    Column("address", Text, nullable=False),  # where it was asked for
    Index(None, "account"),
    Index(None, "parent"),
)

audit = Table(
    "audit",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("at_us", BigInteger, nullable=False),
    Column("account", BigInteger),  # whose doing; none: the operator's, on the machine
    Column("who", Text, nullable=False),  # its name at the time
    Column("credential", BigInteger),
    Column("address", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", Text, nullable=False),  # what it was done to
    Column("concerns", BigInteger),  # the account that it was done to
    Index(None, "account", "id"),
    Index(None, "concerns", "id"),
)

sites = Table(
    "sites",
    metadata,
    Column("number", _Number, primary_key=True),
    Column("name", Text, nullable=False),
    Column("folded", Text, nullable=False, unique=True),  # names that look alike are one
    Column("owner", _Number, ForeignKey(accounts.c.number), nullable=False),
    Column("contact", Text, nullable=False),
    Column("home_page", Text, nullable=False),
    Column("created_us", BigInteger, nullable=False),
    Column("ended_us", BigInteger),  # its name is nobody else's after that
    Index(None, "owner"),
)

site_mappings = Table(
    "site_mappings",
    metadata,
    Column("site", _Number, ForeignKey(sites.c.number), nullable=False),
    Column("version", Integer, nullable=False),
    Column("document", Text, nullable=False),  # JSON
    Column("who", Text, nullable=False),
    Column("words", Text, nullable=False),  # why
    Column("at_us", BigInteger, nullable=False),
    PrimaryKeyConstraint("site", "version"),
)

schema_proposals = Table(
    "schema_proposals",
    metadata,
    Column("number", _Number, primary_key=True),
    Column("account", _Number, ForeignKey(accounts.c.number), nullable=False),
    Column("changes", Text, nullable=False),  # JSON: extensions, as they are asked for
    Column("words", Text, nullable=False),  # why
    Column("at_us", BigInteger, nullable=False),
    Column("state", Text, CheckConstraint("state IN ('waiting', 'accepted', 'refused')", name="state"), nullable=False),
    Column("decided_by", Text, nullable=False),
    Column("decided_us", BigInteger),
    Column("answer", Text, nullable=False),  # what was said to it
    Column("version", Integer),  # of the schema that has it
    Index(None, "account"),
)

subscriptions = Table(
    "subscriptions",
    metadata,
    Column("id", _Number, primary_key=True, autoincrement=False),  # the seq at which it was created
    Column("owner", _Number, ForeignKey(accounts.c.number), nullable=False),
    Column("text", Text, nullable=False),
    Column("tree", LargeBinary, nullable=False),  # the JSON tree: what is bound and indexed
    Column("schema_version", Integer, nullable=False),
    Column("ticket_hash", LargeBinary, nullable=False),
    Column("checksum", LargeBinary),  # of all of the above: see seals.py
)

leases = Table(
    "leases",
    metadata,
    Column("subscription", _Number, ForeignKey(subscriptions.c.id), primary_key=True, autoincrement=False),
    Column("owner", _Number, ForeignKey(accounts.c.number), nullable=False),
    Column("start_us", BigInteger, nullable=False),
    Column("end_us", BigInteger, nullable=False),
    Column("generation", Integer, nullable=False),  # counts renewals
    Column("changed_seq", BigInteger, nullable=False),  # of the last change to this row
    Column("deleted_seq", BigInteger),
    Column("deleted_by", Text, CheckConstraint(f"deleted_by IN {ENDINGS}", name="deleted_by")),
    Column("price", BigInteger, nullable=False, server_default="0"),  # in bytes of memory: see subscriptions.py
    Column("renews", Integer, nullable=False, server_default="0"),  # 1: by itself, while its owner's account lives
    Index(None, "changed_seq"),
    Index(None, "owner", "subscription"),
    # Of the few rows that they are about, so that subscribing does not pay for them:
    Index(None, "deleted_seq", sqlite_where=text(_ENDED), postgresql_where=text(_ENDED)),
    Index("ix_leases_paused", "owner", sqlite_where=text(_PAUSED), postgresql_where=text(_PAUSED)),
    Index("ix_leases_renews", "end_us", sqlite_where=text(_RENEWS), postgresql_where=text(_RENEWS)),
)

replacements = Table(
    "replacements",
    metadata,
    Column("subscription", _Number, ForeignKey(subscriptions.c.id), primary_key=True, autoincrement=False),
    Column("origin", BigInteger, nullable=False),  # the id of the first one, under which the owner knows it
    Index(None, "origin", "subscription"),
)

lease_notices = Table(
    "lease_notices",
    metadata,
    Column("subscription", _Number, primary_key=True, autoincrement=False),
    Column("generation", Integer, nullable=False),  # a renewed lease has another, so notice is given of it anew
)

events = Table(
    "events",
    metadata,
    Column("seq", _Number, primary_key=True, autoincrement=False),
    Column("event_id", LargeBinary, nullable=False, unique=True),
    Column("schema_version", Integer, nullable=False),
    Column("arrival_us", BigInteger, nullable=False),
    Column("body", LargeBinary, nullable=False),  # the admitted event as JSON
)

notifications = Table(
    "notifications",
    metadata,
    Column("bucket", Integer, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("part", Integer, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("count", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("bucket", "first_seq", "part"),
)

acknowledgements = Table(
    "acknowledgements",
    metadata,
    Column("owner", _Number, ForeignKey(accounts.c.number), nullable=False),
    Column("consumer", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("subscription", BigInteger, nullable=False),
    Column("at_us", BigInteger, nullable=False),
    PrimaryKeyConstraint("owner", "consumer"),
)

idempotency = Table(
    "idempotency",
    metadata,
    Column("publisher", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("body_hash", LargeBinary, nullable=False),
    Column("receipts", LargeBinary, nullable=False),
    Column("seq", BigInteger, nullable=False),
    PrimaryKeyConstraint("publisher", "key"),
    Index(None, "seq"),
)

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("seq", _Number, primary_key=True, autoincrement=False),
    Column("kind", Text, nullable=False),  # event, match, delivery
    Column("publisher", Text, nullable=False),  # whose it is; empty: nobody's, so the operator's
    Column("reason", Text, nullable=False),
    Column("violations", LargeBinary, nullable=False),  # JSON
    Column("body", LargeBinary, nullable=False),  # as it came
    Column("at_us", BigInteger, nullable=False),
    Column("site", Text, nullable=False, server_default=""),  # as which it was published
    Index(None, "publisher", "seq"),
)

progress = Table(
    "progress",
    metadata,
    Column("name", Text, primary_key=True),
    Column("through_seq", BigInteger, nullable=False),
    Column("at_us", BigInteger, nullable=False),
)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", _Number, primary_key=True),
    Column("account", _Number, ForeignKey(accounts.c.number), nullable=False),
    Column("url", Text, nullable=False),
    Column("secret", Text, nullable=False),  # signs what is sent, so it cannot be stored as a hash
    Column("state", Text, CheckConstraint("state IN ('active', 'disabled')", name="state"), nullable=False),
    Column("reason", Text),  # why it is disabled
    Column("created_us", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),  # deliveries were made of the notifications up to this position
    Column("subscription", BigInteger, nullable=False),
    Index(None, "account"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("webhook", _Number, ForeignKey(webhooks.c.id), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("subscription", BigInteger, nullable=False),
    Column(
        "state", Text, CheckConstraint("state IN ('waiting', 'delivered', 'given_up')", name="state"), nullable=False
    ),
    Column("attempts", Integer, nullable=False),
    Column("next_us", BigInteger, nullable=False),
    Column("first_us", BigInteger, nullable=False),  # when it was due for the first time
    Column("last_error", Text),
    Column(
        "lane", BigInteger, nullable=False, server_default="0"
    ),  # the id under which its owner knows the subscription
    PrimaryKeyConstraint("webhook", "seq", "subscription"),
    Index(
        "ix_deliveries_waiting", "webhook", "lane", "seq", sqlite_where=text(_WAITING), postgresql_where=text(_WAITING)
    ),
)

lanes = Table(
    "lanes",
    metadata,
    Column("webhook", _Number, ForeignKey(webhooks.c.id), nullable=False),
    Column("lane", BigInteger, nullable=False),
    Column("next_us", BigInteger, nullable=False),  # of the first delivery that waits in it
    PrimaryKeyConstraint("webhook", "lane"),
    Index(None, "next_us"),
)

delivery_rules = Table(
    "delivery_rules",
    metadata,
    Column("subscription", _Number, primary_key=True, autoincrement=False),  # the id under which its owner knows it
    Column("digest", Text, CheckConstraint("digest IN ('none', 'hour', 'day')", name="digest"), nullable=False),
    Column("most_per_hour", Integer),
)

offers = Table(
    "offers",
    metadata,
    Column("seq", _Number, primary_key=True, autoincrement=False),  # of its event
    Column("publisher", Text, nullable=False),
    Column("ends_us", BigInteger, nullable=False),  # until when new subscriptions find it; its arrival, where never
    Column("document", LargeBinary, nullable=False),  # JSON: event, rules, dynamic
    Index(None, "ends_us"),
    Index(None, "publisher", "seq"),
)

computed_values = Table(
    "computed_values",
    metadata,
    Column("seq", BigInteger, nullable=False),
    Column("bucket", Integer, nullable=False),  # of the subscriptions' owners, as in notifications
    Column("body", LargeBinary, nullable=False),
    PrimaryKeyConstraint("seq", "bucket"),
)

seals = Table(
    "seals",
    metadata,
    Column("through_seq", _Number, primary_key=True, autoincrement=False),
    Column("at_us", BigInteger, nullable=False),
    Column("events", LargeBinary, nullable=False),  # SHA-256 of what the stretch holds
    Column("notifications", LargeBinary, nullable=False),
    Column("subscriptions", LargeBinary, nullable=False),
    Column("head", LargeBinary, nullable=False),  # of these, and of the head before
)
