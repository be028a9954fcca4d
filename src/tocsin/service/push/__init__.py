"""Live push: who waits for what (streams.py), SSE and WebSockets (streams.py), webhooks (courier.py)."""
