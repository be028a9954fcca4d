"""The OpenAPI 3.1 document: what the framework derives, and what every operation has in common.

Which refusals an operation can give follows from the route-by-role table and from its parameters; they are added here
once instead of at every route.

The AsyncAPI 3 document: what is pushed, where OpenAPI has no words for it.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from tocsin import __version__
from tocsin.service.access import UNSAFE, rule_of
from tocsin.service.models.base import Problem
from tocsin.service.models.notifications import NotificationTold
from tocsin.service.problems import PROBLEM

_WORDS = {
    400: "The request cannot be read",
    401: "No credential, or one that is not good",
    403: "Not allowed",
    404: "There is no such thing, or it is another's",
    413: "The body is too large",
    415: "The body is compressed in a way that is not taken here",
    422: "The request is not valid",
    429: "Too often, or a quota is used up; Retry-After says when again",
    503: "The store, or the service as a whole, cannot take it now; nothing was done",
}


def describe(app: FastAPI) -> None:
    """Let the app describe itself completely."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    parts = document.setdefault("components", {})
    parts.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
    parts["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "tocsin_session"},
    }
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            _complete(path, method.upper(), operation)
    return document


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    needs = rule_of(method, path).needs
    answers = operation["responses"]
    statuses = {400, 413, 415, 422, 429, 503}
    if needs != "anyone":
        statuses |= {401}
        operation["security"] = [{"token": []}, {"session": []}, *([{}] if needs not in ("member", "admin") else [])]
    if needs != "anyone" or method in UNSAFE:
        statuses |= {403}
    if "{" in path or path == "/v1/schema/view":
        statuses |= {404}
    for status in statuses:
        answers.setdefault(str(status), {"description": _WORDS[status]})
    for status, answer in answers.items():
        if int(status) >= 400 and not (path == "/readyz" and status == "503"):
            answer["content"] = {PROBLEM: {"schema": {"$ref": "#/components/schemas/Problem"}}}
            if path == "/v1/xml":  # what the request itself does wrong is a REPLY, as the thesis's daemon has it
                answer["content"]["application/xml"] = {"schema": {"type": "string"}}
    operation["responses"] = dict(sorted(answers.items()))


# The AsyncAPI 3 document.


def asyncapi_document() -> dict[str, Any]:
    """Return the description of streams, WebSockets and webhooks."""
    notification = NotificationTold.model_json_schema()
    digest = {
        "type": "object",
        "properties": {
            "subscription": {"type": "integer"},
            "count": {"type": "integer"},
            "notifications": {"type": "array", "items": notification},
        },
    }
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Tocsin push", "version": __version__},
        "channels": {
            "stream": {
                "address": "/v1/notifications/stream",
                "description": "Server-sent events; resume with Last-Event-ID.",
                "messages": {"notification": {"$ref": "#/components/messages/notification"}},
            },
            "live": {
                "address": "/v1/notifications/live",
                "description": "WebSocket; JSON texts.",
                "messages": {
                    "notification": {"$ref": "#/components/messages/notification"},
                    "acknowledge": {"$ref": "#/components/messages/acknowledge"},
                },
            },
            "webhook": {
                "address": None,
                "description": "POST to an address of the account's choice, signed as Standard Webhooks has it.",
                "messages": {
                    "notification": {"$ref": "#/components/messages/webhook_notification"},
                    "digest": {"$ref": "#/components/messages/webhook_digest"},
                },
            },
        },
        "operations": {
            "sendToStream": {"action": "send", "channel": {"$ref": "#/channels/stream"}},
            "sendToSocket": {"action": "send", "channel": {"$ref": "#/channels/live"}},
            "receiveFromSocket": {"action": "receive", "channel": {"$ref": "#/channels/live"}},
            "sendToWebhook": {"action": "send", "channel": {"$ref": "#/channels/webhook"}},
        },
        "components": {
            "messages": {
                "notification": {"name": "notification", "payload": notification},
                "acknowledge": {
                    "name": "acknowledge",
                    "payload": {
                        "type": "object",
                        "properties": {"type": {"const": "acknowledge"}, "cursor": {"type": "string"}},
                        "required": ["type", "cursor"],
                        "additionalProperties": False,
                    },
                },
                "webhook_notification": {"name": "tocsin.notification", "payload": _webhook(notification)},
                "webhook_digest": {"name": "tocsin.digest", "payload": _webhook(digest)},
            }
        },
    }


def _webhook(data: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            "type": {"type": "string"},
            "timestamp": {"type": "string", "format": "date-time"},
            "data": data,
        },
        "required": ["type", "timestamp", "data"],
    }
