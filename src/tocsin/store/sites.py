"""Sites: sources of data that accounts publish as, with the versions of their mappings.

A site's name is nobody else's, also after the site has ended: events that were published as it stay in the log, and who
asked about it is not to hear of another. Names that only look alike are the same name.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, select, update

from tocsin.errors import SiteExists
from tocsin.store.store import Transaction
from tocsin.store.tables import accounts, site_mappings, sites


@dataclass(frozen=True, slots=True)
class Site:
    """A site as it stands; `owner_name` is the account's that publishes as it."""

    number: int
    name: str
    owner: int
    owner_name: str
    contact: str
    home_page: str
    created_us: int
    ended_us: int | None


@dataclass(frozen=True, slots=True)
class StoredMapping:
    """One version of a site's mapping, as JSON; who stored it, when and why."""

    version: int
    document: str
    who: str
    words: str
    at_us: int


def folded(name: str) -> str:
    """Return what names that look alike have in common: case, width and spaces do not tell them apart."""
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def add_site(transaction: Transaction, owner: int, name: str, contact: str, home_page: str) -> Site:
    """Store a site; raises SiteExists, also where one of that name has ended."""
    taken = select(sites.c.number).where(sites.c.folded == folded(name))
    if transaction.connection.execute(taken).first() is not None:
        raise SiteExists(name)
    row = {"name": name, "folded": folded(name), "owner": owner, "contact": contact, "home_page": home_page}
    transaction.connection.execute(insert(sites).values(**row, created_us=transaction.now_us))
    transaction.keep_time()
    made = find_site(transaction.connection, name)
    if made is None:
        raise AssertionError(f"site {name} was inserted")
    return made


def find_site(connection: Connection, name: str) -> Site | None:
    """Return the site of exactly that name, unless it has ended."""
    query = _joined().where(sites.c.folded == folded(name), sites.c.name == name, sites.c.ended_us.is_(None))
    row = connection.execute(query).first()
    return None if row is None else Site(*row)


def list_sites(connection: Connection, after: str, limit: int, owner: int | None = None) -> list[Site]:
    """Return sites by name, those that come after a name; of one owner, or of all."""
    query = _joined().where(sites.c.ended_us.is_(None), sites.c.name > after).order_by(sites.c.name).limit(limit)
    if owner is not None:
        query = query.where(sites.c.owner == owner)
    return [Site(*row) for row in connection.execute(query)]


def count_sites(connection: Connection, owner: int) -> int:
    """Return how many sites an account has."""
    query = select(func.count()).where(sites.c.owner == owner, sites.c.ended_us.is_(None))
    return int(connection.execute(query).scalar_one())


def change_site(transaction: Transaction, number: int, contact: str, home_page: str) -> None:
    """Store another contact and home page; events that are published from now on have them."""
    chosen = update(sites).where(sites.c.number == number)
    transaction.connection.execute(chosen.values(contact=contact, home_page=home_page))
    transaction.keep_time()


def end_site(transaction: Transaction, number: int) -> None:
    """Let nobody publish as a site any more; how to reach its owner is forgotten."""
    chosen = update(sites).where(sites.c.number == number)
    transaction.connection.execute(chosen.values(contact="", home_page="", ended_us=transaction.now_us))
    transaction.keep_time()


def end_sites_of(transaction: Transaction, owner: int) -> None:
    """End all sites of an account."""
    for site in list_sites(transaction.connection, "", 1_000_000, owner):
        end_site(transaction, site.number)


def _joined() -> Select[Any]:
    columns = sites.c
    return select(
        columns.number, columns.name, columns.owner, accounts.c.name.label("owner_name"), columns.contact,
        columns.home_page, columns.created_us, columns.ended_us,
    ).join(accounts, accounts.c.number == columns.owner)  # fmt: skip


# --- Mappings ---------------------------------------------------------------------------------------------------------


def add_mapping(transaction: Transaction, site: int, document: str, who: str, words: str) -> StoredMapping:
    """Store a mapping of a site as its next version."""
    newest = select(func.max(site_mappings.c.version)).where(site_mappings.c.site == site)
    version = int(transaction.connection.execute(newest).scalar() or 0) + 1
    added = StoredMapping(version, document, who, words, transaction.now_us)
    transaction.insert_rows(site_mappings, [(site, version, document, who, words, transaction.now_us)])
    transaction.keep_time()
    return added


def find_mapping(connection: Connection, site: int, version: int | None = None) -> StoredMapping | None:
    """Return a version of a site's mapping; the newest where none is named."""
    query = select(site_mappings).where(site_mappings.c.site == site).order_by(site_mappings.c.version.desc()).limit(1)
    if version is not None:
        query = query.where(site_mappings.c.version == version)
    row = connection.execute(query).first()
    return None if row is None else _mapping(row)


def list_mappings(connection: Connection, site: int) -> list[StoredMapping]:
    """Return all versions of a site's mapping, oldest first."""
    query = select(site_mappings).where(site_mappings.c.site == site).order_by(site_mappings.c.version)
    return [_mapping(row) for row in connection.execute(query)]


def _mapping(row: Row[tuple[object, ...]]) -> StoredMapping:
    return StoredMapping(row.version, row.document, row.who, row.words, row.at_us)
