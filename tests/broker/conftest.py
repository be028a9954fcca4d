"""The databases that these tests run on."""

from tests.databases import place, postgres

__all__ = ["place", "postgres"]
