"""Live push: who waits for what (hub.py), SSE and WebSockets (streams.py), webhooks (courier.py)."""
