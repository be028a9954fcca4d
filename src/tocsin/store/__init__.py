"""Tables, migrations and the seq: where everything acknowledged is. Start with store.py; the tables are in tables.py."""

# ruff: noqa: E402 - what is missing is said before anything needs it

from tocsin import plugins

plugins.require("broker")

from tocsin.store.store import Meta, Store, Transaction

__all__ = ["Meta", "Store", "Transaction"]
