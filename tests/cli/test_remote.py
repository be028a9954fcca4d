"""The commands that speak to a service, and subscriptions as code, as a user types them."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner, Result

from tests.service.live import Live, serving
from tests.service.world import PASSWORD
from tocsin.cli.app import app
from tocsin.cli.remote import credentials_file
from tocsin.client import ServiceRefused
from tocsin.errors import FileError, SchemaError, TocsinError
from tocsin.schema.examples import load_example
from tocsin.store import accounts


def run(*arguments: str, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(app, arguments, input=stdin)
    if isinstance(result.exception, TocsinError):
        raise result.exception
    return result


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """Give a service; the commands know where it is, and act for ada."""
    with capture_logs(), serving(tmp_path) as found:  # the service logs to the output that is looked at
        monkeypatch.setenv("TOCSIN_URL", found.url)
        monkeypatch.setenv("TOCSIN_TOKEN", found.tokens["ada"])
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        yield found


def test_a_new_user_logs_in_subscribes_publishes_listens_and_asks_why(
    live: Live, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("TOCSIN_TOKEN")
    with pytest.raises(TocsinError, match="tocsin login NAME"):
        run("subscribe", "car where price < 100")
    run("login", "cyd", "--register", "--password-stdin", stdin=PASSWORD + "\n")
    assert stat.S_IMODE(credentials_file().stat().st_mode) == 0o600
    subscription = int(run("subscribe", "car where price < 100").stdout)
    events = tmp_path / "events.jsonl"
    events.write_text('{"event_type": "car", "price": 5}\n\n{"event_type": "car", "price": 500}\n')
    assert run("publish", str(events)).stdout == "2 accepted, 0 rejected\n"
    told = json.loads(run("listen", "--count", "1").stdout)
    assert (told["subscription"], told["event"]["price"]) == (subscription, 5)
    assert "✓ price < 100   (price is 5)" in run("why", told["cursor"]).stdout
    assert json.loads(run("why", told["cursor"], "--json").stdout)["matched"] is True
    run("unsubscribe", str(subscription))
    assert run("export").stdout == ""


def test_a_service_over_the_dynamic_schema_takes_any_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with capture_logs(), serving(tmp_path, schema=load_example("dynamic")) as found:
        monkeypatch.setenv("TOCSIN_URL", found.url)
        monkeypatch.setenv("TOCSIN_TOKEN", found.tokens["ada"])
        run("subscribe", "price < 1300 and brand in ('mini', 'cooper')")
        run("publish", stdin='{"brand": "mini", "price": "1100"}\n{"brand": 3, "price": [1]}\n')
        told = json.loads(run("listen", "--count", "1").stdout)
        assert told["event"] == {"event_type": "event", "brand": "mini", "price": "1100"}
        with pytest.raises(ServiceRefused, match="items is of no declared type"):
            run("subscribe", "some items (qty > 3)")


def test_a_refused_expression_is_marked_where_it_is_wrong(live: Live) -> None:
    with pytest.raises(ServiceRefused) as refused:
        run("subscribe", "car where prise < 3")
    _, line, mark = str(refused.value).split("\n")
    assert line == "car where prise < 3"
    assert mark.startswith("          ^^^^^ ")


def test_publish_translates_a_sites_documents_by_its_mapping(live: Live, tmp_path: Path) -> None:
    mapping, documents = tmp_path / "site.toml", tmp_path / "cars.csv"
    mapping.write_text('site = "s"\nevent_type = "car"\nrules = [{ from = "Preis", to = "price", scale = 0.01 }]\n')
    documents.write_text("Preis\n1250\nviel\n")
    result = run("publish", str(documents), "--mapping", str(mapping))
    assert (result.exit_code, result.stdout) == (1, "1 accepted, 1 rejected\n")
    assert "from Preis" in result.stderr


def test_a_site_publishes_its_documents_by_its_stored_mapping(live: Live, tmp_path: Path) -> None:
    mapping, documents = tmp_path / "site.toml", tmp_path / "cars.csv"
    mapping.write_text(
        'site = "s"\nevent_type = "car"\nid = "nr"\nrules = [{ from = "Preis", to = "price", scale = 0.01 }]\n'
    )
    documents.write_text("nr,Preis\n17,1250\n18,viel\n")
    run("site", "add", "Hammer & Sons", "--contact", "ada@example.org")
    run("subscribe", "car where source.site = 'Hammer & Sons'")
    assert run("site", "mapping", "Hammer & Sons", str(mapping), "--words", "the first").stdout == "version 1\n"
    result = run("publish", str(documents), "--site", "Hammer & Sons")
    assert (result.exit_code, result.stdout) == (1, "1 accepted, 1 rejected\n")
    assert "event 2: price, from Preis" in result.stderr
    result = run(
        "publish", str(documents), "--site", "Hammer & Sons", "--mapping", str(mapping)
    )  # this one, not the stored
    assert result.stdout == "1 accepted, 1 rejected\n"
    told = [json.loads(line)["event"] for line in run("listen", "--count", "2").stdout.splitlines()]
    assert [one["source.key"] for one in told] == ["Hammer & Sons/17"] * 2
    assert told[0] == told[1]
    assert "the first" in run("site", "mapping", "Hammer & Sons", "--history").stdout
    assert "scale = 0.01" in run("site", "mapping", "Hammer & Sons").stdout
    run("site", "change", "Hammer & Sons", "--home-page", "https://example.org/")
    assert "https://example.org/  mapping 1" in run("site", "list", "--own").stdout
    run("site", "end", "Hammer & Sons")
    assert run("site", "list").stdout == ""


def test_a_site_joins_by_its_samples_and_publishes_them(live: Live, tmp_path: Path) -> None:
    samples = tmp_path / "cars.csv"
    samples.write_text("Price,Doors,Model\n12.5,4,Mini One\n13,2,Cooper\n")
    run("site", "add", "Oldtimers")
    proposed = run("site", "join", "Oldtimers", str(samples), "--type", "car").stdout
    assert '"doors"' in proposed
    with pytest.raises(ServiceRefused, match="role publisher"):
        run("site", "join", "Oldtimers", str(samples), "--type", "car", "--yes")
    with live.broker.store.write() as turn:
        accounts.change_account(turn, accounts.find_account(turn.connection, "ada") or 0, role="publisher")
    live.service.identities.forget()
    run("site", "join", "Oldtimers", str(samples), "--type", "car", "--yes")
    run("subscribe", "car where doors = 4 and source.site = 'Oldtimers'")
    assert run("publish", str(samples), "--site", "Oldtimers").stdout == "2 accepted, 0 rejected\n"
    told = json.loads(run("listen", "--count", "1").stdout)["event"]
    assert (told["price"], told["doors"], told["model"]) == (12.5, 4, "Mini One")


def test_publish_reads_standard_input_and_says_what_was_bad(live: Live) -> None:
    result = run("publish", "--json", stdin='{"event_type": "car", "price": 5}\n{"event_type": "car", "price": "x"}\n')
    assert json.loads(result.stdout) == {"accepted": 1, "rejected": 1}
    assert result.exit_code == 1
    assert result.stderr == "event 2: price: 'x' is not a number\n"


def test_publish_tells_the_first_reasons_and_how_many_more_there_are(live: Live) -> None:
    good, bad = '{"event_type": "car", "price": 5}\n', '{"event_type": "car", "price": "x"}\n'
    result = run("publish", "--batch", "4", stdin=(good + bad) * 12)
    told = [line.partition(":")[0] for line in result.stderr.splitlines()]
    assert told == [*(f"event {number}" for number in range(2, 22, 2)), "and 2 more"]


def test_what_was_listened_to_is_acknowledged_unless_one_does_not_want_it(live: Live) -> None:
    run("subscribe", "car where price < 100")
    for price in (1, 2):
        run("publish", stdin=json.dumps({"event_type": "car", "price": price}))
    prices = [
        json.loads(run("listen", "--count", "1", *more).stdout)["event"]["price"]
        for more in (["--no-acknowledge"], [], [], ["--consumer", "other"])
    ]
    assert prices == [1, 1, 2, 1]


# --- rules as code ----------------------------------------------------------------------------------------------------

RULES = """
[subscriptions.cheap]
text = "car where price < {bound}"

[subscriptions.dear]
text = "car where price>1000"
lease_seconds = 60
"""


def texts(live: Live) -> dict[int, str]:
    with live.http("ada") as client:
        return {one["id"]: one["text"] for one in client.get("/v1/subscriptions").json()["items"]}


def test_apply_makes_a_file_true_with_a_diff_and_then_changes_nothing(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES.format(bound=10))
    wanted = "+ cheap: car where price < 10\n+ dear: car where price > 1000\n"
    would = run("apply", str(file), "--dry-run")
    assert (would.stdout, would.exit_code, texts(live)) == (wanted, 1, {})
    assert run("apply", str(file)).stdout == wanted
    first = texts(live)
    assert sorted(first.values()) == ["car where price < 10", "car where price > 1000"]
    again = run("apply", str(file), "--dry-run")
    assert (again.stdout, again.exit_code) == ("", 0)

    file.write_text(RULES.format(bound=20))
    changed = run("apply", str(file)).stdout
    assert changed == "~ cheap\n  - car where price < 10\n  + car where price < 20\n"
    assert set(texts(live)) == set(first)  # the ids stay

    file.write_text(RULES.format(bound=20).partition("[subscriptions.dear]")[0])
    assert run("apply", str(file)).stdout == "- dear: car where price > 1000\n"
    assert list(texts(live).values()) == ["car where price < 20"]


def test_what_the_file_does_not_name_stays_unless_one_prunes(live: Live, tmp_path: Path) -> None:
    run("subscribe", "car where price = 7")
    file = tmp_path / "rules.toml"
    file.write_text(RULES.format(bound=10))
    run("apply", str(file))
    assert "car where price = 7" in texts(live).values()
    assert "car where price = 7" in run("apply", str(file), "--prune").stdout
    assert "car where price = 7" not in texts(live).values()


def test_without_its_ids_a_file_adopts_what_is_there(live: Live, tmp_path: Path) -> None:
    exported = tmp_path / "exported.toml"
    run("subscribe", "car where price < 10")
    exported.write_text(run("export").stdout)
    assert run("apply", str(exported)).stdout == ""
    as_json = tmp_path / "exported.json"
    as_json.write_text(run("export", "--json").stdout)
    assert json.loads(run("apply", str(as_json), "--json").stdout)[0]["verb"] == "keep"
    assert len(texts(live)) == 1


def test_a_text_that_is_wrong_is_refused_before_anything_is_done(live: Live, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(RULES.format(bound=10) + '[subscriptions.bad]\ntext = "car where prise < 1"\n')
    with pytest.raises(ServiceRefused, match="prise"):
        run("apply", str(file))
    assert texts(live) == {}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1", "no table"),
        ("[subscriptions.a]\ntext = 3", "a has no text"),
        ("[subscriptions.a]\ntext = 'a'\nmatch = []", "there is no match; there are lease_seconds, matches"),
        ("[subscriptions", "at the end of a table declaration"),
    ],
)
def test_a_file_that_is_wrong_says_what(content: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(content)
    with pytest.raises(FileError, match=message):
        run("test", str(file))
    with pytest.raises(FileError, match="No such file"):
        run("test", str(tmp_path / "none.toml"))


EXAMPLES = """
schema = "own.toml"
[subscriptions.cheap]
text = "price < 10"
matches = [{ price = 5 }]
rejects = [{ price = 50 }, { price = RATHER }]
"""


def test_examples_are_held_against_their_subscriptions(tmp_path: Path) -> None:
    file, events = tmp_path / "rules.toml", tmp_path / "events.jsonl"
    events.write_text('{"price": 5}\n{"price": 7.5}\n')
    run("schema", "infer", str(events), "-o", str(tmp_path / "own.toml"))
    file.write_text(EXAMPLES.replace("RATHER", "10"))
    good = run("test", str(file))
    assert (good.exit_code, good.stdout) == (0, "1 subscriptions, 4 checks, 0 failed\n")
    file.write_text(EXAMPLES.replace("RATHER", "9"))
    bad = run("test", str(file))
    assert bad.exit_code == 1
    assert "✗ cheap: example 2 that it must not match" in bad.stdout
    assert "✓ price < 10   (price is 9)" in bad.stdout
    file.write_text(EXAMPLES.replace("RATHER", "'x'").replace("price < 10", "prise < 10"))
    told = json.loads(run("test", str(file), "--json").stdout)
    assert [one["what"] for one in told] == ["its text"]
    assert "prise" in told[0]["failed"]


def test_without_a_schema_one_is_proposed_from_the_examples(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text(EXAMPLES.replace('schema = "own.toml"', "").replace("RATHER", "10"))
    assert run("test", str(file)).exit_code == 0
    file.write_text("[subscriptions.a]\ntext = 'price < 3'\n")
    with pytest.raises(SchemaError, match="name a schema"):
        run("test", str(file))
