"""Tocsin: content-based publish/subscribe. Who wants to know about this event?"""

__version__ = "0.1.0"
