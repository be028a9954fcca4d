"""Logs: a JSON object a line on standard error, with request ids and without secrets.

Nothing of a request is logged but its method, route, status and times: no bodies, headers or query strings. What still
looks like a secret, in whatever field, is replaced. Control characters cannot break a line: JSON escapes them.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

_SECRET_FIELDS = re.compile(r"password|secret|token|ticket|authorization|cookie|credential", re.IGNORECASE)
_SECRET_TEXTS = re.compile(
    r"(toc_|whsec_)[A-Za-z0-9_+/=-]{8,}"  # our tokens, and webhook secrets
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"  # a password in an address
    r"|(?i:bearer)\s+[A-Za-z0-9._~+/=-]+"
)
HIDDEN = "[hidden]"


def hide_secrets(_: object, __: str, entry: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Return the entry without secrets."""
    return {name: HIDDEN if _SECRET_FIELDS.search(name) else _hidden(value) for name, value in entry.items()}


def _hidden(value: Any) -> Any:
    if isinstance(value, str):
        return _SECRET_TEXTS.sub(HIDDEN, value)
    if isinstance(value, dict):
        return {name: HIDDEN if _SECRET_FIELDS.search(str(name)) else _hidden(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(one) for one in value]
    return value


def configure(level: str = "info") -> None:
    """Let structlog, and what uses the standard library's logging, write JSON to standard error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        hide_secrets,
    ]
    number = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer(ensure_ascii=True)],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(ensure_ascii=True),
            ],
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(number)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "httpx", "httpcore", "alembic"):
        logging.getLogger(name).handlers.clear()
        logging.getLogger(name).propagate = name not in ("uvicorn.access", "httpx", "httpcore")
