"""Checkpoints: is this one whole, and is it the one that this store's pipeline has used so far?

The store remembers that a pipeline of a name has run, and the checkpoint's folder carries an id that the store knows
too. Where the checkpoint is gone, or is another's, that is said: the store's own marks (matched_through, idempotency
keys) keep anything from being stored twice, but a source from outside would be read again from its start.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path

from tocsin.errors import StoreError
from tocsin.store import Store
from tocsin.store.letters import read_progress, set_progress

HOLDS_NOTHING_BACK = 2**62  # as a progress: retention need not wait for a mere mark
_MARK = "tocsin.json"


class CheckpointLost(StoreError):
    """The pipeline has run before, and this checkpoint does not know of it."""

    def __init__(self, name: str, folder: str, what: str) -> None:
        self.name, self.folder = name, folder
        super().__init__(
            f"the pipeline {name!r} has run before, and its checkpoint {folder} {what}. Give it the right one; or, if it "
            "is lost, go on with --accept-lost-checkpoint: the source is then read from its start, and what the store "
            "has already is not stored again as long as its idempotency keys are kept"
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that may be used; `note` says what was noticed, if anything."""

    folder: str
    note: str | None = None


def claim_checkpoint(store: Store, name: str, folder: str, *, source_is_store: bool, accept_lost: bool) -> Checkpoint:
    """Return the checkpoint for a pipeline, marked as its own; raises CheckpointLost.

    Where the source is the store itself a lost checkpoint does no harm, since the store knows what it has matched:
    that is only noted.
    """
    with store.read() as connection:
        marks = {
            key: through for key, through in read_progress(connection).items() if key.startswith(f"pipeline:{name}:")
        }
    path = Path(folder)
    mark = _read_mark(path)
    known = {key.rsplit(":", 1)[1] for key in marks}
    note = None
    if known and mark not in known:
        what = "is empty" if mark is None else "is another pipeline's"
        if source_is_store:
            note = f"the checkpoint {folder} {what}; going on from what the store has matched"
        elif accept_lost:
            note = f"the checkpoint {folder} {what}; reading the source from its start"
        else:
            raise CheckpointLost(name, folder, what)
    if mark is None:
        mark = uuid.uuid4().hex[:12]
        path.mkdir(parents=True, exist_ok=True)
        (path / _MARK).write_text(json.dumps({"pipeline": name, "id": mark}) + "\n", encoding="utf-8")
    if mark not in known:
        with store.write() as transaction:
            set_progress(transaction, f"pipeline:{name}:{mark}", HOLDS_NOTHING_BACK)
    return Checkpoint(folder, note)


def _read_mark(path: Path) -> str | None:
    try:
        return str(json.loads((path / _MARK).read_text(encoding="utf-8"))["id"])
    except FileNotFoundError:
        return None
