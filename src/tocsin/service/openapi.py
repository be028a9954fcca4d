"""The OpenAPI 3.1 document: what the framework derives, and what every operation has in common.

Which refusals an operation can give follows from the route-by-role table and from its parameters; they are added here
once instead of at every route.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from tocsin.service.access import UNSAFE, rule_of
from tocsin.service.models.base import Problem
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
