"""Tables, migrations and the seq: where everything acknowledged is. Start with store.py; the tables are in tables.py."""

from tocsin.store.store import Store
from tocsin.store.transaction import Meta, Transaction

__all__ = ["Meta", "Store", "Transaction"]
