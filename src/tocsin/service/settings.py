"""Settings of the service, from the environment: TOCSIN_PORT=8080, or TOCSIN_STORE_FILE=/run/secrets/store for secrets.

Every setting is a field here; its variable is TOCSIN_ and the field's name in capitals. `…_FILE` names a file that
holds the value. docs/service.md lists them all; a test holds that.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from tocsin.errors import FileError, TocsinError, did_you_mean, nearest

PREFIX = "TOCSIN_"
# Variables of other parts of Tocsin, which are not settings of the service.
_OTHERS = frozenset({"CRASH_POINT", "HYPOTHESIS", "SLOW", "TOKEN", "URL"})

Count = Annotated[int, msgspec.Meta(ge=1)]
Port = Annotated[int, msgspec.Meta(ge=0, le=65535)]
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class BadSetting(TocsinError):
    """A setting of the service is wrong."""


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the service is told by its operator; sizes in bytes, times in seconds."""

    # where
    store: str = "tocsin.db"  # a path (SQLite) or postgresql://…
    schema: str = "auction"  # a file, or an example's name; used when the store is new
    host: str = "127.0.0.1"
    port: Port = 8080
    xml_port: Port | None = None  # of the thesis's plain TCP daemon; none: it is not started
    hosts: str | None = None  # names by which it is asked for, by commas; * for any; none: see docs/service.md
    trusted_proxies: str | None = None  # addresses, by commas, whose X-Forwarded-For and -Proto are believed
    tls_certificate: str | None = (
        None  # a file, with its chain: HTTPS, and TLS on the XML port; none: plain, for a proxy in front
    )
    tls_key: str | None = None  # the file of its key, where that is another
    public_url: str | None = None  # as users see it; its origin may open WebSockets and use sessions

    # who
    guests: Literal["none", "read", "publish"] = "read"
    registration: Literal["open", "closed"] = "open"
    schema_additions: Literal["at-once", "after-yes", "admins"] = (
        "at-once"  # by publishers: in force at once, after an admin's yes, or not at all
    )
    admin_token: str | None = None  # instead of the one that the first start prints
    secure_cookies: bool = False
    session_seconds: Seconds = 14 * 86400.0
    password_threads: Count = 2  # argon2 takes 64 MiB each
    audit_days: Seconds = 400.0  # for which the audit trail is kept

    # how much
    body_bytes: Count = 1 << 20
    batch_bytes: Count = 32 << 20
    subscriptions_per_account: Count = 100_000
    processor_seconds_per_account: Count = (
        1800  # in an hour, of matching its subscriptions: beyond it slowed, then paused
    )
    subscription_bytes_per_account: Count = 512 << 20  # of memory, by the price that each has
    tokens_per_account: Count = 50
    webhooks_per_account: Count = 10
    requests_per_minute: Count = 60_000  # of one account, or of one guest's address
    events_per_minute: Count = 6_000_000
    logins_per_minute: Count = 10  # of one name from one address, or by a browser that was logged in to it before
    registrations_per_hour: Count = 20  # of one address
    streams_per_account: Count = 10_000

    connections: Count | None = None  # none: as many as there are descriptors, less 100
    connections_per_address: Count | None = None  # none: half of them; proxies that are trusted have no bound
    header_seconds: Seconds = 10.0  # within which a request's headers come
    body_seconds: Seconds = 30.0  # within which its body comes, and 16 KiB more each second

    # push
    ping_seconds: Seconds = 15.0
    stalled_seconds: Seconds = 20.0  # a reader that takes nothing for so long is closed
    webhook_seconds: Seconds = 15.0  # for one attempt
    webhook_first_retry_seconds: Seconds = 5.0
    webhook_private: bool = False  # allow addresses that are not public; for tests and closed networks
    poll_seconds: Seconds = 0.05  # how often matches of the pipeline are looked for

    # how
    pipeline: Literal["inline", "spark"] = "inline"
    pipeline_checkpoint: str | None = None  # beside the store by default
    pipeline_master: str = "local[2]"
    engine: Literal["columnar", "definition"] = "columnar"
    operators: str | None = (
        None  # that subscriptions may call: installed, a TOML file, module:function; none: there are none
    )
    programs: str | None = None  # that offers may call: a TOML file; none: there are none
    reveal_subscribers: bool = False  # tell publishers which subscriptions an offer reached, not only how many
    reveal_counts: bool = False  # tell whoever tries an event out how many of others' subscriptions it would reach
    reveal_rules: bool = False  # tell subscribers what an offer's rules say
    threads: Count = 64  # requests that may be at the store at a time
    shutdown_seconds: Seconds = 10.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    docs: bool = True  # serve /docs and /openapi.json

    def __repr__(self) -> str:
        """Show what may be seen: no token, and no password in the store's address."""
        shown = {name: getattr(self, name) for name in self.__struct_fields__ if name not in ("admin_token", "store")}
        return f"ServiceSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    @property
    def allowed_hosts(self) -> frozenset[str] | None:
        """The names that a request may ask for; None: any.

        Where the operator names none, a service that listens on one address is asked for by that, or as public_url says:
        a page whose name was pointed at it is somebody else's.
        """
        if self.hosts is not None:
            named = frozenset(one.strip().lower() for one in self.hosts.split(",") if one.strip())
            return None if "*" in named else named
        if self.host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared, not bound
            return None
        own = {self.host.lower(), "localhost", "127.0.0.1", "::1"}
        if self.public_url is not None:
            own.add((urlsplit(self.public_url).hostname or "").lower())
        return frozenset(own)

    def tls(self) -> ssl.SSLContext | None:
        """Return how connections are encrypted, TLS 1.2 at least; None: they are not. Raises BadSetting."""
        if self.tls_certificate is None:
            if self.tls_key is not None:
                raise BadSetting("tls_key is the key of a certificate: set tls_certificate, too")
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.tls_certificate, self.tls_key)
        except (OSError, ssl.SSLError) as error:
            raise BadSetting(f"tls_certificate and tls_key do not fit: {error}") from None
        return context

    @property
    def proxies(self) -> list[str]:
        """The addresses whose word about the client is believed."""
        return [one.strip() for one in (self.trusted_proxies or "").split(",") if one.strip()]

    @property
    def origins(self) -> frozenset[str]:
        """The origins that may act with a session beside the request's own host."""
        if self.public_url is None:
            return frozenset()
        scheme, _, rest = self.public_url.partition("://")
        return frozenset({f"{scheme}://{rest.split('/')[0]}"})


def read_settings(environment: Mapping[str, str] | None = None, **given: object) -> ServiceSettings:
    """Return the settings of an environment; what is `given` and not None wins. Raises BadSetting."""
    known = set(ServiceSettings.__struct_fields__)
    found: dict[str, object] = {}
    for variable, value in sorted((os.environ if environment is None else environment).items()):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in _OTHERS:
            continue
        if name.endswith("_FILE") and name.removesuffix("_FILE").lower() in known:
            name, value = name.removesuffix("_FILE"), _content(variable, value)
        if name.lower() not in known:
            hint = did_you_mean(PREFIX + near.upper() for near in nearest(name.lower(), known))
            raise BadSetting(f"there is no setting {variable}{hint}")
        found[name.lower()] = value
    found |= {name: value for name, value in given.items() if value is not None}
    try:
        return msgspec.convert(found, ServiceSettings, strict=False)
    except msgspec.ValidationError as error:
        raise BadSetting(f"a setting is wrong: {error}") from None


def _content(variable: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise FileError(path, f"{variable}: {error.strerror or error}") from None
