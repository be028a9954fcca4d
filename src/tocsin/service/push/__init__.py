"""Live push: who waits for what (hub.py), SSE (event_stream.py), WebSockets (web_socket.py), webhooks."""
