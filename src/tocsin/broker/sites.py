"""Sites: what accounts publish as. Whose a site is, is looked up for every publish; its mapping is compiled once.

    broker.sites.add("Hammer & Sons", owner="ada", contact="ada@example.org")
    broker.publish({"event_type": "car", "price": 900}, publisher="ada", site="Hammer & Sons")

Events that are published as a site say so (schema/sources.py). With a mapping a site's documents are translated; each version
is kept, and the newest is used unless another is asked for.
"""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from tocsin.broker.changes import Change, ExtendSchema
from tocsin.broker.core import BrokerSettings, Commit, Core
from tocsin.documents.sites import Contact, HomePage, MappingView, SiteName, SiteView
from tocsin.errors import BadDefinition, NotYourSite, QuotaExceeded, UnknownSite
from tocsin.language.mapping import MOST_BYTES, MappingDocument, SiteMapping
from tocsin.schema import Schema
from tocsin.schema.sources import SOURCE_ATTRIBUTES, Provenance, has_sources, with_sources
from tocsin.store import accounts, sites
from tocsin.store.sites import Site, StoredMapping
from tocsin.store.store import instant

WhichMapping = int | Literal["newest", "none"]
_MOST_COMPILED = 200  # mappings in memory


@dataclass(frozen=True, slots=True)
class AddSite:
    """Store a site; with the first one events begin to tell where they come from."""

    name: str
    owner: str
    contact: str
    home_page: str

    def run(self, commit: Commit, settings: BrokerSettings) -> Site:
        number = accounts.ensure_accounts(commit.transaction, [self.owner])[self.owner]
        if sites.count_sites(commit.connection, number) >= settings.sites_per_owner:
            raise QuotaExceeded(f"an account has {settings.sites_per_owner} sites at most; end one first")
        told = has_sources(commit.schema)
        if not told:
            with_sources(commit.schema)  # raises where it cannot be, before anything is written
        added = sites.add_site(commit.transaction, number, self.name, self.contact, self.home_page)
        if not told:
            ExtendSchema(with_sources, f"the first site, {self.name}", self.owner).run(commit, settings)
        return added


@dataclass(frozen=True, slots=True)
class ChangeSite:
    """Store another contact and home page of a site, or end it."""

    name: str
    owner: str
    contact: str | None = None
    home_page: str | None = None
    ends: bool = False

    def run(self, commit: Commit, settings: BrokerSettings) -> Site | None:
        del settings
        site = _own(sites.find_site(commit.connection, self.name), self.name, self.owner)
        if self.ends:
            sites.end_site(commit.transaction, site.number)
            return None
        contact = site.contact if self.contact is None else self.contact
        home_page = site.home_page if self.home_page is None else self.home_page
        sites.change_site(commit.transaction, site.number, contact, home_page)
        return sites.find_site(commit.connection, self.name)


@dataclass(frozen=True, slots=True)
class StoreMapping:
    """Store a mapping as the next version of a site's, where it fits the schema."""

    name: str
    owner: str
    document: MappingDocument
    words: str

    def run(self, commit: Commit, settings: BrokerSettings) -> StoredMapping:
        del settings
        site = _own(sites.find_site(commit.connection, self.name), self.name, self.owner)
        before = sites.find_mapping(commit.connection, site.number)
        version = 1 if before is None else before.version + 1
        document = msgspec.structs.replace(self.document, site=self.name, version=version)
        check_mapping(document, commit.schema)
        text = msgspec.json.encode(document).decode()
        return sites.add_mapping(commit.transaction, site.number, text, self.owner, self.words)


def _own(site: Site | None, name: str, owner: str) -> Site:
    """Return a site of an owner; another's looks like none."""
    if site is None or site.owner_name != owner:
        raise UnknownSite(name)
    return site


def read_mapping(content: dict[str, Any]) -> MappingDocument:
    """Return the mapping of a JSON document; raises BadDefinition, which names the place."""
    if len(msgspec.json.encode(content)) > MOST_BYTES:
        raise BadDefinition(f"a mapping has at most {MOST_BYTES} bytes")
    try:
        return msgspec.convert({"site": "", "version": 1, **content} | {"site": "site"}, MappingDocument)
    except (msgspec.ValidationError, RecursionError) as error:
        raise BadDefinition(f"the mapping: {error}") from None


def check_mapping(document: MappingDocument, schema: Schema) -> SiteMapping:
    """Return a mapping over a schema; raises BadDefinition where it does not fit, or says itself where events come from."""
    for at, rule in enumerate(document.rules):
        for name in rule.targets:
            if schema.meaning(name) in SOURCE_ATTRIBUTES:
                raise BadDefinition(
                    f"rules[{at}]: {name} is said by the service; name the fields of the id and the link by `id` and `link`"
                )
    return SiteMapping(document, schema)


class Sites:
    """The sites of a store. Safe to share among threads."""

    def __init__(self, core: Core, take: Callable[[Change], Any]) -> None:
        self._core, self._take = core, take
        self._lock = threading.Lock()
        self._compiled: dict[tuple[int, int], SiteMapping] = {}

    def add(self, name: str, *, owner: str, contact: str = "", home_page: str = "") -> SiteView:
        """Make a site of an account; raises SiteExists, QuotaExceeded, BadDefinition, SchemaError."""
        _checked({"name": name, "contact": contact, "home_page": home_page})
        if name != name.strip() or not name.isprintable():
            raise BadDefinition("a site's name is printable, and has no spaces around it")
        return self._view(self._take(AddSite(name, owner, contact, home_page)))

    def change(self, name: str, *, owner: str, contact: str | None = None, home_page: str | None = None) -> SiteView:
        """Say of a site of an account how to reach it; events that come from now on tell so. Raises UnknownSite."""
        given = {"contact": contact, "home_page": home_page}
        _checked({key: value for key, value in given.items() if value is not None})
        return self._view(self._take(ChangeSite(name, owner, contact, home_page)))

    def end(self, name: str, *, owner: str) -> None:
        """Let nobody publish as a site of an account any more; raises UnknownSite. Its name stays taken."""
        self._take(ChangeSite(name, owner, ends=True))

    def get(self, name: str, *, owner: str | None = None) -> SiteView:
        """Return a site, of anybody, or of one owner; raises UnknownSite."""
        with self._core.store.read() as connection:
            found = sites.find_site(connection, name)
        if found is None or (owner is not None and found.owner_name != owner):
            raise UnknownSite(name)
        return self._view(found)

    def list(self, *, owner: str | None = None, after: str = "", limit: int = 100) -> builtins.list[SiteView]:
        """Return sites by name; of one owner, or of all."""
        with self._core.store.read() as connection:
            number = None if owner is None else accounts.find_account(connection, owner)
            if owner is not None and number is None:
                return []
            found = sites.list_sites(connection, after, limit, number)
        return [self._view(site) for site in found]

    def _view(self, site: Site) -> SiteView:
        with self._core.store.read() as connection:
            newest = sites.find_mapping(connection, site.number)
        return SiteView(
            site.name, site.owner_name, site.contact, site.home_page, instant(site.created_us),
            None if newest is None else newest.version,
        )  # fmt: skip

    # --- mappings -----------------------------------------------------------------------------------------------------

    def set_mapping(self, name: str, mapping: MappingDocument, *, owner: str, words: str = "") -> MappingView:
        """Store a mapping as the next version of a site's; raises UnknownSite, and BadDefinition where it does not fit."""
        return _mapping_view(name, self._take(StoreMapping(name, owner, mapping, words)))

    def mappings(self, name: str, *, owner: str) -> builtins.list[MappingView]:
        """Return all versions of a site's mapping, oldest first; raises UnknownSite."""
        with self._core.store.read() as connection:
            site = _own(sites.find_site(connection, name), name, owner)
            return [_mapping_view(name, one) for one in sites.list_mappings(connection, site.number)]

    def mapping(self, name: str, version: int | None = None, *, owner: str) -> MappingView:
        """Return a version of a site's mapping, the newest by default; raises UnknownSite."""
        with self._core.store.read() as connection:
            site = _own(sites.find_site(connection, name), name, owner)
            found = sites.find_mapping(connection, site.number, version)
        if found is None:
            raise UnknownSite(name, "there is no such version of the mapping of the site")
        return _mapping_view(name, found)

    # --- publishing as a site -----------------------------------------------------------------------------------------

    def opened(self, name: str, publisher: str, which: WhichMapping) -> tuple[Provenance, SiteMapping | None]:
        """Return what publishing as a site needs; raises UnknownSite, NotYourSite."""
        with self._core.store.read() as connection:
            site = sites.find_site(connection, name)
            if site is None:
                raise UnknownSite(name)
            if site.owner_name != publisher:
                raise NotYourSite(name)
            version = None if which == "newest" else which
            found = None if version == "none" else sites.find_mapping(connection, site.number, version)
        if found is None and isinstance(which, int):
            raise UnknownSite(name, f"there is no version {which} of the mapping of the site")
        mapping = None if found is None else self._compile(site.number, found)
        return Provenance(site.name, publisher, site.contact), mapping

    def _compile(self, site: int, found: StoredMapping) -> SiteMapping:
        key = (site, found.version)
        with self._lock:
            compiled = self._compiled.get(key)
        if compiled is None:
            compiled = SiteMapping(msgspec.json.decode(found.document, type=MappingDocument), self._core.schema)
            with self._lock:
                if len(self._compiled) >= _MOST_COMPILED:
                    self._compiled.pop(next(iter(self._compiled)))
                self._compiled[key] = compiled
        return compiled


_FIELDS = {"name": SiteName, "contact": Contact, "home_page": HomePage}
_WANTED = {
    "name": "a site's name is 1 to 100 characters long, without /",
    "contact": "a contact is at most 200 characters long, in one line",
    "home_page": "a home page is an address such as https://example.org/",
}


def _checked(given: dict[str, str]) -> None:
    for name, value in given.items():
        try:
            msgspec.convert(value, _FIELDS[name])
        except msgspec.ValidationError:
            raise BadDefinition(_WANTED[name]) from None


def _mapping_view(name: str, one: StoredMapping) -> MappingView:
    return MappingView(name, one.version, one.who, one.words, instant(one.at_us), msgspec.json.decode(one.document))
