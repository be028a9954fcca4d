"""What Alembic runs: the migrations, on the connection and in the transaction of store/database.py."""

from alembic import context

from tocsin.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=True)
context.run_migrations()
