"""What the broker promises, a test each; docs/promises.md names them. On SQLite and on PostgreSQL."""
