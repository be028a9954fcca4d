"""Every error that Tocsin raises on purpose.

    TocsinError
    ├── SchemaError              the schema or a change to it is wrong
    │   ├── UnknownName          UnknownDomain, UnknownAttribute, UnknownEventType, UnknownUnion
    │   ├── DuplicateName        a domain, attribute or event type of that name exists
    │   ├── AttributeInType      the event type has that attribute already
    │   └── BadDefinition        a definition contradicts itself, or a file is not a schema
    ├── BadValue                 a value is not in its domain
    ├── EventRejected            an event breaks the consistency rules; carries all its violations
    ├── LanguageError            an expression is wrong; shows the place
    │   ├── ParseError           it is not in the language
    │   ├── BindError            it is not about this schema
    │   ├── TooLarge             it exceeds a bound
    │   └── Meaningless          it can never hold, or always holds, and the caller asked to refuse that
    ├── FormulaFailed            a formula has no value for what it was asked about: division by zero, and the like
    ├── OperatorError            UnknownOperator, BadArgument
    ├── MatchError               UnknownSubscription, DuplicateSubscription, NotSupported
    ├── FileError                a file cannot be read as what it should be
    ├── NotInstalled             what was asked for is in a distribution or an extra that is not installed
    ├── StoreError               the store cannot be opened or used
    │   ├── WeakDurability       it would acknowledge what a power cut could lose
    │   ├── NeedsUpgrade         its tables are of another version
    │   ├── StoreFailed          the database refused or lost a statement: disk full, I/O error, connection gone
    │   ├── StoreDamaged         its content contradicts itself
    │   └── ClockJumped          the machine's clock is absurdly far ahead of the store's
    └── BrokerError              a request to the broker is refused; nothing of it was done
        ├── WrongTicket          the ticket does not belong to the subscription
        ├── AccountExists        there is an account of that name
        ├── SiteExists           there is, or was, a site of that name
        ├── UnknownSite          there is no such site
        ├── NotYourSite          the site is another account's
        ├── UnknownProposal      there is no such proposal, or it had its answer
        ├── UnknownNotification  there is no such notification, or it is another's
        ├── UnknownDeadLetter    there is no such dead letter, or it is another's
        ├── UnknownOffer         there is no such offer, or it is another's
        ├── LeaseError           LeaseOutOfBounds, LeaseEnded, StaleRenewal
        ├── LimitExceeded        QuotaExceeded (this owner's), Overloaded (everybody's)
        ├── IdempotencyConflict  the key was used with another body
        ├── CursorError          BadCursor, CursorExpired
        └── BatchRejected        some events of an all-or-nothing batch break the rules; carries them all

A message says what is wrong, where, and what would be right.
"""

from __future__ import annotations

import difflib
import itertools
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


class TocsinError(Exception):
    """Base of all errors that Tocsin raises on purpose."""


# --- schema -----------------------------------------------------------------------------------------------------------


class SchemaError(TocsinError):
    """The schema, or a change to it, is wrong."""


class UnknownName(SchemaError):
    """A name that the schema does not have; `nearest` are the names that it may have been meant for."""

    what = "name"

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        self.nearest = nearest(name, known)
        super().__init__(f"there is no {self.what} {name!r}{did_you_mean(self.nearest)}")


class UnknownDomain(UnknownName):
    what = "domain"


class UnknownAttribute(UnknownName):
    what = "attribute"


class UnknownEventType(UnknownName):
    what = "event type"


class UnknownUnion(UnknownName):
    what = "union"


class DuplicateName(SchemaError):
    """A domain, attribute or event type of that name exists already."""

    def __init__(self, what: str, name: str) -> None:
        self.what, self.name = what, name
        super().__init__(
            f"there is {'an' if what[0] in 'ae' else 'a'} {what} {name!r} already; nothing that exists can be redefined"
        )


class AttributeInType(SchemaError):
    """The event type has the attribute already."""

    def __init__(self, event_type: str, attribute: str) -> None:
        self.event_type, self.attribute = event_type, attribute
        super().__init__(f"event type {event_type!r} has the attribute {attribute!r} already")


class BadDefinition(SchemaError):
    """A definition contradicts itself, or a document does not describe a schema."""


class BadValue(TocsinError):
    """A value is not in its domain."""

    def __init__(self, value: object, domain: str, right: str) -> None:
        self.value, self.domain, self.right = value, domain, right
        super().__init__(f"{shown(value)} is not {right}")


# --- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which an event breaks the rules.

    `rule` is one of: not an object, no event type, unknown event type, unknown attribute, missing mandatory attribute,
    several values for a unique attribute, no value, bad value, too large, reserved attribute.
    """

    rule: str
    attribute: str | None
    message: str

    def __str__(self) -> str:
        return self.message


class EventRejected(TocsinError):
    """An event breaks the consistency rules; `violations` are all of them, not just the first."""

    def __init__(self, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__("; ".join(map(str, self.violations)))


# --- language ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of an expression's text: characters start .. end, counted from 0."""

    start: int
    end: int


class LanguageError(TocsinError):
    """An expression is wrong. Where it came as text, the message shows the line and marks the place."""

    def __init__(self, message: str, *, text: str | None = None, span: Span | None = None) -> None:
        self.message, self.text, self.span = message, text, span
        super().__init__(message)

    def __str__(self) -> str:
        if self.text is None or self.span is None:
            return self.message
        return point_at(self.text, self.span, self.message)

    def at(self, text: str) -> LanguageError:
        """Return this error with the text that its span refers to."""
        self.text = text
        return self


class ParseError(LanguageError):
    """The text, tree or bulk form is not in the language."""


class BindError(LanguageError):
    """The expression is well formed but not about this schema."""


class TooLarge(LanguageError):
    """The expression exceeds a bound on its size, depth or number of conjunctions."""


class Meaningless(LanguageError):
    """The expression can never hold, or always holds, and the caller asked to refuse such."""


class FormulaFailed(TocsinError):
    """A formula has no value for the values that it was given; `reason` says why in a few words."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class OperatorError(TocsinError):
    """An operator cannot be used as asked."""


class UnknownOperator(OperatorError):
    """A name under which no operator is installed; `nearest` are those that it may have been meant for."""

    def __init__(self, name: str, known: Iterable[str] = ()) -> None:
        self.name = name
        self.nearest = nearest(name, known)
        super().__init__(f"there is no operator {name!r}{did_you_mean(self.nearest)}")


class BadArgument(OperatorError):
    """An argument with which an operator cannot work, seen when the subscription is made: a region not on the map."""


# --- matching and files -----------------------------------------------------------------------------------------------


class MatchError(TocsinError):
    """A matcher was used wrongly."""


class UnknownSubscription(MatchError):
    def __init__(self, id: object) -> None:
        self.id = id
        super().__init__(f"there is no subscription {id!r}")


class DuplicateSubscription(MatchError):
    def __init__(self, id: object) -> None:
        self.id = id
        super().__init__(f"there is a subscription {id!r} already; remove it first")


class NotSupported(MatchError):
    """The engine does not have the capability that the subscription or the call needs."""


class FileError(TocsinError):
    """A file, or a line of one, cannot be read as what it should be."""

    def __init__(self, path: str, message: str, *, line: int | None = None) -> None:
        self.path, self.line, self.message = path, line, message
        place = path if line is None else f"{path}:{line}"
        super().__init__(f"{place}: {message}")


class NotInstalled(TocsinError, ImportError):
    """What was asked for is in a distribution, or an extra, that is not installed; `install` is its name for pip."""

    def __init__(self, what: str, install: str) -> None:
        self.what, self.install = what, install
        shown = f"'{install}'" if "[" in install else install  # shells read brackets
        super().__init__(f"{what} is not installed here; to have it: pip install {shown}")


# --- store ------------------------------------------------------------------------------------------------------------


class StoreError(TocsinError):
    """The store cannot be opened or used."""


class WeakDurability(StoreError):
    """The database is set so that what it acknowledged may be lost; Tocsin does not open it."""


class NeedsUpgrade(StoreError):
    """The tables are of another version than this code."""

    def __init__(self, found: str | None, wanted: str) -> None:
        self.found, self.wanted = found, wanted
        super().__init__(
            f"the store's tables are at version {found or 'none'}, and {wanted} is needed: tocsin db upgrade"
        )


class StoreFailed(StoreError):
    """The database could not do what was asked: disk full, I/O error, connection lost, busy for too long.

    Nothing was acknowledged. Where the failure came during a commit the outcome is unknown: ask again with the same
    idempotency key.
    """


class StoreDamaged(StoreError):
    """The content of the store contradicts itself."""


class ClockJumped(StoreError):
    """The machine's clock is so far ahead of the store's that every lease would end; see broker settings."""

    def __init__(self, ahead_seconds: float, limit_seconds: float) -> None:
        self.ahead_seconds, self.limit_seconds = ahead_seconds, limit_seconds
        super().__init__(
            f"the machine's clock is {ahead_seconds / 86400:.1f} days ahead of the last time in the store, more than "
            f"{limit_seconds / 86400:.0f}; correct the clock, or open with accept_clock=True if it is right"
        )


# --- broker -----------------------------------------------------------------------------------------------------------


class BrokerError(TocsinError):
    """A request to the broker is refused; nothing of it was done."""


class WrongTicket(BrokerError):
    """The ticket does not belong to the subscription, or there is no such subscription: the two look the same."""

    def __init__(self) -> None:
        super().__init__("the ticket does not belong to a subscription of that id")


class AccountExists(BrokerError):
    """There is an account of that name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is an account {name!r} already; choose another name")


class SiteExists(BrokerError):
    """There is a site of that name, or there was one."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is a site {name!r} already, or there was one; choose another name")


class UnknownSite(BrokerError):
    """There is no site of that name, or no such version of its mapping."""

    def __init__(self, name: str, what: str = "there is no site") -> None:
        self.name = name
        super().__init__(f"{what} {shown(name)}")


class NotYourSite(BrokerError):
    """The site is another account's."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"the site {shown(name)} is another account's; its owner publishes as it")


class UnknownProposal(BrokerError):
    """No such proposal to extend the schema waits for an answer."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"no proposal {number} waits for an answer")


class UnknownNotification(BrokerError):
    """No such notification is kept, or it is another's."""

    def __init__(self, seq: int, subscription: int) -> None:
        self.seq, self.subscription = seq, subscription
        super().__init__(f"there is no notification of event {seq} for subscription {subscription}")


class UnknownOffer(BrokerError):
    """No such offer is kept, or it is another's."""

    def __init__(self, seq: int | str) -> None:
        self.seq = seq
        super().__init__(f"there is no offer {seq}")


class UnknownDeadLetter(BrokerError):
    """No such dead letter is kept, or it is another's, or it is no event."""

    def __init__(self, seq: int) -> None:
        self.seq = seq
        super().__init__(f"there is no dead letter {seq} with an event to publish again")


class LeaseError(BrokerError):
    """A lease cannot be what was asked."""


class LeaseOutOfBounds(LeaseError):
    """A lease shorter or longer than the broker grants."""

    def __init__(self, seconds: float, least: float, most: float) -> None:
        self.seconds, self.least, self.most = seconds, least, most
        super().__init__(f"a lease of {seconds:g} seconds; it may be {least:g} to {most:g}")


class LeaseEnded(LeaseError):
    """The subscription is over: its lease ended or it was unsubscribed. Subscribe again."""

    def __init__(self, id: object, how: str) -> None:
        self.id, self.how = id, how
        super().__init__(f"subscription {id} is over ({how}); subscribe again")


class StaleRenewal(LeaseError):
    """The lease was renewed since the renewal was made out; carries how it stands now."""

    def __init__(self, id: object, generation: int, current: int, lease_end_us: int) -> None:
        self.id, self.generation, self.current, self.lease_end_us = id, generation, current, lease_end_us
        super().__init__(f"the lease of subscription {id} is at generation {current}; the renewal is for {generation}")


class LimitExceeded(BrokerError):
    """A bound was reached; `retry_after_seconds` says when it may be worth asking again."""

    retry_after_seconds: float = 1.0


class QuotaExceeded(LimitExceeded):
    """A bound on what one owner or publisher may have or send."""


class Slowed(QuotaExceeded):
    """An account costs more processor time than it may, and may add nothing until that has run off."""

    def __init__(self, message: str, retry_after_seconds: float) -> None:
        self.retry_after_seconds = retry_after_seconds
        super().__init__(message)


class Overloaded(LimitExceeded):
    """Too much is waiting for the store; nothing of the request was done."""


class IdempotencyConflict(BrokerError):
    """The idempotency key was used before, with another body."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"the idempotency key {shown(key)} was used before with other events")


class CursorError(BrokerError):
    """A cursor cannot be followed."""


class BadCursor(CursorError):
    """A text that is no cursor of this broker."""


class CursorExpired(CursorError):
    """What lies behind the cursor is no longer kept; `oldest` is the cursor of the oldest that is."""

    def __init__(self, message: str, oldest: str) -> None:
        self.oldest = oldest
        super().__init__(message)


class ExpressionsRejected(BrokerError):
    """Some of many subscriptions are wrong, and none was stored; `errors` are those found, by position."""

    def __init__(self, errors: dict[int, TocsinError]) -> None:
        self.errors = errors
        super().__init__(f"{len(errors)} subscriptions are wrong, and none was stored")


class BatchRejected(BrokerError):
    """Some events of an all-or-nothing batch break the rules; `violations` are all of them, by position."""

    def __init__(self, violations: dict[int, tuple[Violation, ...]]) -> None:
        self.violations = violations
        listed = "; ".join(f"event {at}: {', '.join(map(str, found))}" for at, found in list(violations.items())[:5])
        more = "" if len(violations) <= 5 else f"; and {len(violations) - 5} more"
        super().__init__(f"{len(violations)} of the events break the rules, none was published: {listed}{more}")


# --- wording ----------------------------------------------------------------------------------------------------------


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to three known names that look like `name`, best first."""
    if len(name) > 100:
        return ()
    by_folded = {other.casefold(): other for other in itertools.islice(known, 1000)}  # a bound on what an error costs
    close = difflib.get_close_matches(name.casefold(), by_folded, n=3, cutoff=0.6)
    return tuple(by_folded[folded] for folded in close)


def did_you_mean(names: Iterable[str]) -> str:
    """Return '; did you mean a, b?' or nothing."""
    listed = ", ".join(names)
    return f"; did you mean {listed}?" if listed else ""


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, in their order."""
    return [name for name, count in Counter(names).items() if count > 1]


def shown(value: object, limit: int = 60) -> str:
    """Return the value as it should stand in a message: quoted, and cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write integers of thousands of digits
        name = type(value).__name__
        text = f"{'an' if name[0] in 'aeiou' else 'a'} {name} too long to show"
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def point_at(text: str, span: Span, message: str, width: int = 100) -> str:
    """Return the line of `text` that holds the span, with a mark below the place and the message beside it."""
    start = min(span.start, len(text))
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", start)
    line = text[line_start : len(text) if line_end < 0 else line_end]
    column = start - line_start
    if len(line) > width:  # keep the place in sight
        cut = max(0, column - width // 2)
        line, column = line[cut : cut + width], column - cut
    length = max(1, min(span.end - span.start, len(line) - column))
    return f"{line}\n{' ' * column}{'^' * length} {message}"
