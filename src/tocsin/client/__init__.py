"""The client of a Tocsin service: `tocsin.Client` and `tocsin.AsyncClient`. It imports nothing of the server.

    with tocsin.Client("http://127.0.0.1:8080", token) as client:
        client.subscribe("item where price < 100")
        for notification in client.listen():
            print(notification.event)

calls.py      every request, described once; what comes back is in tocsin.documents
client.py     does them, waiting or awaited
connectors.py Kafka, NATS, Redis and PostgreSQL: events from there, notifications to there
transport.py  server-sent events, read line by line; when a request is tried again; what is raised
"""

# ruff: noqa: E402 - what is missing is said before anything needs it

from tocsin import plugins

plugins.require("client")

from tocsin.client.client import AsyncClient, Client
from tocsin.client.transport import ServiceRefused, ServiceUnreachable

__all__ = ["AsyncClient", "Client", "ServiceRefused", "ServiceUnreachable"]
