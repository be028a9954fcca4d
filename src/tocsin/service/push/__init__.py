"""Live push: who waits for what (hub.py), SSE (streams.py), WebSockets (streams.py), webhooks."""
