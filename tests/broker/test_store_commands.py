"""`tocsin db` and `tocsin index`, as they are typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.broker.market import car, open_broker, seqs_of
from tests.clocks import ManualClock
from tocsin.cli import db
from tocsin.errors import StoreError
from tocsin.store.tables import HEAD


@pytest.fixture
def store(tmp_path: Path) -> str:
    path = str(tmp_path / "store.db")
    with open_broker(path, ManualClock(), engine="columnar") as broker:
        receipts = broker.subscribe_all([f"car where price < {limit}" for limit in range(20)], owner="ada")
        broker.publish(car(3))
        broker.unsubscribe_all(receipts[:3])
    return path


def run(app: Any, *arguments: str, code: int = 0) -> Any:
    """Return what the command prints as JSON."""
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return json.loads(result.output)


def test_db_commands(store: str, tmp_path: Path) -> None:
    assert run(db.app, "upgrade", store) == {"before": HEAD, "after": HEAD}
    assert run(db.app, "check", store)["problems"] == []
    seq = run(db.app, "backup", store, str(tmp_path / "b"))["seq"]
    assert run(db.app, "restore", str(tmp_path / "new.db"), str(tmp_path / "b"))["seq"] == seq
    with open_broker(str(tmp_path / "new.db"), ManualClock()) as broker:
        assert len(seqs_of(broker, "ada")) == 16
    assert "all is well" in CliRunner().invoke(db.app, ["check", store]).output
    with pytest.raises(StoreError):
        run(db.app, "check", str(tmp_path / "absent.db"))


def test_index_commands(store: str) -> None:
    assert run(db.index_app, "check", store)["problems"] == []
    assert run(db.index_app, "stats", store)["subscriptions"] == 17
    assert run(db.index_app, "merge", store)["tiers"] == [17]
    (Path(f"{store}.index") / "manifest.json").unlink()
    assert "no index" in run(db.index_app, "check", store, code=1)["problems"][0]
    assert run(db.index_app, "build", store)["subscriptions"] == 17
    assert run(db.index_app, "check", store)["problems"] == []


def test_index_check_finds_what_is_missing_and_what_is_too_much(store: str) -> None:
    from sqlalchemy import text

    from tocsin.store import Store

    opened = Store.open(store, machine=ManualClock())
    with opened.write() as transaction:
        transaction.connection.execute(text("UPDATE leases SET deleted_seq = NULL, deleted_by = NULL"))
        transaction.connection.execute(text("DELETE FROM leases WHERE subscription > 15"))
    opened.close()
    missing, surplus = run(db.index_app, "check", store, code=1)["problems"]
    assert "3 live subscriptions are not in it" in missing
    assert "that the store does not have" in surplus


def test_index_is_not_rebuilt_under_a_running_broker(store: str) -> None:
    with open_broker(store, ManualClock(), engine="columnar") as broker:
        broker.save_index()
        for command in ("build", "merge"):
            with pytest.raises(StoreError, match="open"):
                run(db.index_app, command, store)
