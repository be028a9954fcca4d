"""The AsyncAPI 3 document: what is pushed, where OpenAPI has no words for it."""

from __future__ import annotations

from typing import Any

from tocsin import __version__
from tocsin.service.models.notifications import NotificationTold


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
