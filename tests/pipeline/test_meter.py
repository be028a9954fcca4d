"""The meter, the status file, the metrics and the checkpoint's mark, without Spark."""

import json
from pathlib import Path

import pytest

from tests.broker.market import SCHEMA as MARKET
from tocsin.pipeline.ingest import IncomingEvent, ingest, occurrence_keys
from tocsin.pipeline.meter import RATE_SECONDS, BatchReport, Meter, _Prometheus
from tocsin.pipeline.run import CheckpointLost, claim_checkpoint, prepare_store
from tocsin.store import Store


def test_the_status_file_has_the_figures(tmp_path: Path) -> None:
    meter = Meter(tmp_path / "status.json")
    meter.set_state("running")
    meter.record(BatchReport("match", 1, 10, 25, 1, 0.2, through_seq=40, lag=3, latencies_ms=(10.0, 30.0)))
    found = json.loads((tmp_path / "status.json").read_text())
    assert (found["state"], found["events"], found["matches"], found["dead_letters"]) == ("running", 10, 25, 1)
    assert (found["lag"], found["through_seq"], found["latency_p50_ms"]) == (3, 40, 20.0)


def test_prometheus_reads_the_same_figures() -> None:
    from prometheus_client import generate_latest

    meter = Meter()
    meter.record(BatchReport("match", 1, 10, 25, 1, 0.2, lag=3))
    text = generate_latest(_Prometheus(meter).registry).decode()
    assert "tocsin_pipeline_events_total 10.0" in text
    assert "tocsin_pipeline_lag_seqs 3.0" in text


def test_a_lost_checkpoint_is_noticed(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "t.db")
    first = claim_checkpoint(store, "main", str(tmp_path / "a"), source_is_store=False, accept_lost=False)
    assert first.note is None
    assert claim_checkpoint(store, "main", str(tmp_path / "a"), source_is_store=False, accept_lost=False).note is None
    with pytest.raises(CheckpointLost):
        claim_checkpoint(store, "main", str(tmp_path / "b"), source_is_store=False, accept_lost=False)
    assert claim_checkpoint(store, "main", str(tmp_path / "b"), source_is_store=True, accept_lost=False).note
    assert claim_checkpoint(store, "other", str(tmp_path / "c"), source_is_store=False, accept_lost=False).note is None
    store.close()


def test_an_event_for_an_unknown_version_of_the_schema_is_a_dead_letter_after_waiting(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "t.db")
    prepare_store(store, MARKET, matching=True)
    late = IncomingEvent("k1", "{}", schema_version=99)
    assert ingest(store, "main", [late], wait_for_schema_seconds=0.3).dead_letters == 1
    assert ingest(store, "main", [late]).repeated == 1
    store.close()


def test_keys_of_equal_rows_differ_and_do_not_depend_on_the_order() -> None:
    keys = occurrence_keys(["f", "f", "g"], ["x", "x", "x"])
    assert len(set(keys)) == 3
    assert sorted(occurrence_keys(["g", "f", "f"], ["x", "x", "x"])) == sorted(keys)


def test_percentiles_are_of_the_last_seconds_not_of_so_many_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("tocsin.pipeline.meter.time.monotonic", lambda: now)
    meter = Meter()
    meter.record(BatchReport("match", 1, 2, 2, 0, 0.1, latencies_ms=(9000.0, 9000.0)))
    now += RATE_SECONDS + 1
    assert meter.figures().latency_p99_ms is None
    meter.record(BatchReport("match", 2, 1, 1, 0, 0.1, latencies_ms=(10.0,)))
    assert meter.figures().latency_p99_ms == 10.0
