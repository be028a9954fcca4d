"""The OpenAPI 3.1 document, derived from the routes: their parameters, and the structs of tocsin.documents.

Which refusals an operation can give follows from the route-by-role table and from its parameters; they are added here
once instead of at every route.

The AsyncAPI 3 document: what is pushed, where OpenAPI has no words for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from starlette.routing import BaseRoute

from tocsin import __version__
from tocsin.documents import ProblemDocument
from tocsin.documents.events import Notification
from tocsin.documents.subscriptions import LeaseNotice, PauseNotice
from tocsin.service.problems import PROBLEM
from tocsin.service.routing import HEADERS, JSON, UNSAFE, ApiRoute, rule_of

_WORDS = {
    400: "The request cannot be read",
    401: "No credential, or one that is not good",
    403: "Not allowed",
    404: "There is no such thing, or it is another's",
    413: "The body is too large",
    415: "The body is of a kind, or compressed in a way, that is not taken here",
    422: "The request is not valid",
    429: "Too often, or a quota is used up; Retry-After says when again",
    503: "The store, or the service as a whole, cannot take it now; nothing was done",
}


_REFERENCE = "#/components/schemas/{name}"
_PLAIN = str.maketrans("", "", "{}.")


def openapi_document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Return the document of all routes that are shown."""
    shown = [route for route in routes if isinstance(route, ApiRoute) and route.described.shown]
    schemas = _Schemas([ProblemDocument, *(kind for route in shown for kind in _documents(route))])
    paths: dict[str, Any] = {}
    for route in shown:
        method = next(iter(route.methods or ()))
        paths.setdefault(route.path, {})[method.lower()] = _operation(method, route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tocsin", "summary": "Who wants to know about this event?", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "tocsin_session"},
            },
        },
    }


class _Schemas:
    """JSON Schema of types, with structs as components."""

    def __init__(self, kinds: Sequence[Any]) -> None:
        wanted = list(dict.fromkeys(kinds))
        found, self.components = msgspec.json.schema_components(wanted, ref_template=_REFERENCE)
        self._found = dict(zip(wanted, found, strict=True))
        for one in self.components.values():
            one["description"] = inspect.cleandoc(one.get("description", ""))

    def of(self, kind: Any) -> Any:
        """Return the schema of a type, or of several of which it is one."""
        if isinstance(kind, tuple):
            return {"anyOf": [self._found[one] for one in kind]}
        return self._found[kind]


def _documents(route: ApiRoute) -> Iterable[Any]:
    """Return the documents that a route takes and gives."""
    others = [one[1] for one in route.described.responses.values() if isinstance(one, tuple)]
    for answer in (route.described.answer, *others, route.parameters.body):
        yield from answer if isinstance(answer, tuple) else () if answer is None else (answer,)


def _operation(method: str, route: ApiRoute, schemas: _Schemas) -> dict[str, Any]:
    described, takes = route.described, route.parameters
    operation: dict[str, Any] = {
        "tags": [route.tag],
        "summary": described.summary,
        "description": inspect.getdoc(route.handler) or "",
        "operationId": f"{route.handler.__name__}_{route.path.strip('/').replace('/', '_').translate(_PLAIN)}",
    }
    if takes.struct is not None:
        operation["parameters"] = _parameters(route)
    if described.body is not None:
        content = {media: {"schema": schema} for media, schema in described.body.items()}
        operation["requestBody"] = {"required": True, "content": content}
    elif takes.body is not None:
        content = {JSON: {"schema": schemas.of(takes.body)}}
        operation["requestBody"] = {"required": takes.body_is_required, "content": content}
    operation["responses"] = _responses(method, route, schemas)
    needs = rule_of(method, route.path).needs
    if needs != "anyone":
        operation["security"] = [{"token": []}, {"session": []}, *([{}] if needs not in ("member", "admin") else [])]
    return operation


def _parameters(route: ApiRoute) -> list[dict[str, Any]]:
    takes = route.parameters
    assert takes.struct is not None
    _, components = msgspec.json.schema_components([takes.struct], ref_template=_REFERENCE)
    schema = components[takes.struct.__name__]
    found = []
    for name, place in takes.place.items():
        own = dict(schema["properties"][name])
        if "anyOf" in own:  # what is not given is not there, rather than null
            own |= next(one for one in own.pop("anyOf") if one != {"type": "null"})
        if own.get("default", ...) is None:
            del own["default"]
        named = HEADERS[name] if place == "header" else name
        about = {"description": own.pop("description")} if "description" in own else {}
        required = place == "path" or name in schema["required"]
        found.append({"name": named, "in": place, "required": required, "schema": own, **about})
    return found


def _responses(method: str, route: ApiRoute, schemas: _Schemas) -> dict[str, Any]:
    described, path = route.described, route.path
    whole = described.media or ({} if described.answer is None else {JSON: schemas.of(described.answer)})
    content = {"content": {media: {"schema": schema} for media, schema in whole.items()}} if whole else {}
    answers: dict[int, Any] = {
        described.status: {"description": "Done" if described.status == 204 else "The answer", **content}
    }
    for status, words in described.responses.items():
        if isinstance(words, tuple):
            answers[status] = {"description": words[0], "content": {JSON: {"schema": schemas.of(words[1])}}}
        else:
            answers[status] = {"description": words, **content}
    needs = rule_of(method, path).needs
    statuses = {400, 413, 415, 422, 429, 503}
    if needs != "anyone":
        statuses |= {401}
    if needs != "anyone" or method in UNSAFE:
        statuses |= {403}
    if "{" in path or path == "/v1/schema/view":
        statuses |= {404}
    for status in statuses:
        answers.setdefault(status, {"description": _WORDS[status]})
    for status, answer in answers.items():
        if status >= 400 and not (path == "/readyz" and status == 503):
            answer["content"] = {PROBLEM: {"schema": schemas.of(ProblemDocument)}}
            if path == "/v1/xml":  # what the request itself does wrong is a REPLY, as the thesis's daemon has it
                answer["content"]["application/xml"] = {"schema": {"type": "string"}}
    return {str(status): answers[status] for status in sorted(answers)}


# The AsyncAPI 3 document.


def asyncapi_document() -> dict[str, Any]:
    """Return the description of streams, WebSockets and webhooks."""
    _, parts = msgspec.json.schema_components([Notification, LeaseNotice, PauseNotice])
    notification = parts["Notification"]
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
                "messages": {
                    "notification": {"$ref": "#/components/messages/notification"},
                    "lease": {"$ref": "#/components/messages/lease"},
                    "paused": {"$ref": "#/components/messages/paused"},
                },
            },
            "live": {
                "address": "/v1/notifications/live",
                "description": "WebSocket; JSON texts.",
                "messages": {
                    "notification": {"$ref": "#/components/messages/notification"},
                    "lease": {"$ref": "#/components/messages/lease"},
                    "paused": {"$ref": "#/components/messages/paused"},
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
                "lease": {"name": "lease", "payload": parts["LeaseNotice"]},
                "paused": {"name": "paused", "payload": parts["PauseNotice"]},
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
