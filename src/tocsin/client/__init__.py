"""The client of a Tocsin service: `tocsin.Client` and `tocsin.AsyncClient`. It imports nothing of the server.

    with tocsin.Client("http://127.0.0.1:8080", token) as client:
        client.subscribe("item where price < 100")
        for notification in client.listen():
            print(notification.event)

calls.py      every request, described once        results.py   what comes back, typed
client.py     does them, waiting or awaited         transport.py    server-sent events, read line by line
transport.py    when a request is tried again         transport.py    what is refused
"""

# ruff: noqa: E402 - what is missing is said before anything needs it

from tocsin import plugins

plugins.require("client")

from tocsin.client.client import AsyncClient, Client
from tocsin.client.results import Batch, Estimate, Notification, NotificationPage, Receipt, Subscribed, Subscription
from tocsin.client.transport import ServiceRefused, ServiceUnreachable

__all__ = [
    "AsyncClient",
    "Batch",
    "Client",
    "Estimate",
    "Notification",
    "NotificationPage",
    "Receipt",
    "ServiceRefused",
    "ServiceUnreachable",
    "Subscribed",
    "Subscription",
]
