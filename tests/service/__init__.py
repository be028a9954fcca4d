"""Tests of the service: over ASGI in this process, and as a process of its own where it is killed."""
