"""The pipeline's crash points: where tests kill the driver or a worker. See store/transaction.py, which they extend."""

from __future__ import annotations

from tocsin.store.transaction import reach

POINTS = (
    "pipeline.after-offsets",  # Spark has logged the batch's offsets; nothing of it is done
    "pipeline.mid-match",  # a worker has the batch's events and the subscriptions
    "pipeline.before-sink",  # the matches are in the driver, nothing is stored
    "pipeline.before-sink-commit",  # everything is written to the store, nothing is committed
    "pipeline.after-sink",  # the store has committed, Spark has not
)

__all__ = ["POINTS", "reach"]
