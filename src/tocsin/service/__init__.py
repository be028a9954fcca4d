"""The broker over HTTP: accounts, subscriptions, events, live push, operations. Start with app.py; docs/service.md.

app.py        puts it together         settings.py   what the operator says      service.py   what handlers share
edge.py       around every request     routing.py    who asks, and what it takes identities.py who they are
routes/       a module a resource      streams.py    SSE and WebSockets          courier.py   webhooks
"""

from tocsin import plugins

plugins.require("service")
