"""A real Kafka broker feeds and drains the pipeline.

Apache Kafka's own jars come from Maven Central by the Ivy that Spark carries, and run in KRaft mode, one node, on a
free port. Where Maven cannot be reached the test is skipped, and says so. TOCSIN_JARS keeps the jars between runs.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pipeline.test_stream import World, wait_until
from tests.project.files import ROOT
from tocsin.language import evaluate

pyspark = pytest.importorskip("pyspark")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CENTRAL = "https://repo1.maven.org/maven2"
MAVEN = f"{CENTRAL}/org/apache/kafka/kafka_2.13/maven-metadata.xml"
VERSION = "4.1.1"
ARTIFACTS = ("kafka_2.13", "kafka-tools")  # the broker, and its command-line tools
JARS = Path(os.environ.get("TOCSIN_JARS", Path.home() / ".cache" / "tocsin" / "jars"))
RUN_SECONDS = 300
FETCH_SECONDS = 240


@pytest.fixture(scope="module")
def jars() -> str:
    """Return the class path of Kafka's jars."""
    if shutil.which("java") is None:
        pytest.skip("Kafka needs Java, and there is none on the path")
    kept = JARS / f"kafka-{VERSION}.classpath"
    if kept.exists() and all(Path(jar).exists() for jar in kept.read_text().split(":")):
        return kept.read_text()
    try:
        urllib.request.urlopen(MAVEN, timeout=20).close()  # noqa: S310 - https, always
    except (urllib.error.URLError, TimeoutError) as error:
        pytest.skip(f"Maven Central cannot be reached: {error}")
    JARS.mkdir(parents=True, exist_ok=True)
    found = ":".join(fetch("org.apache.kafka", artifact, VERSION) for artifact in ARTIFACTS)
    kept.write_text(found)
    return found


@pytest.fixture(scope="module")
def connector() -> str:
    """Return the jars of Spark's connector, by commas.

    Not by `spark.jars.packages`, as a user would: some mirrors of Maven lack the token provider of a version, of which
    an older one does as well here, where no tokens are used.
    """
    from tocsin.pipeline.ingest import KAFKA_PACKAGE

    group, artifact, version = KAFKA_PACKAGE.split(":")
    provider = artifact.replace("sql-kafka", "token-provider-kafka")
    return ",".join(
        [
            download(group, artifact, [version]),
            download(group, provider, [version, "4.0.0"]),
            download("org.apache.kafka", "kafka-clients", ["3.9.2", "3.9.1"]),
            download("org.apache.commons", "commons-pool2", ["2.13.1", "2.12.0"]),
        ]
    )


def download(group: str, artifact: str, versions: list[str]) -> str:
    """Return the jar of the first version that Maven Central has; skips the test where there is none."""
    JARS.mkdir(parents=True, exist_ok=True)
    problems = []
    for version in versions:
        name = f"{artifact}-{version}.jar"
        if (JARS / name).exists():
            return str(JARS / name)
        try:
            url = f"{CENTRAL}/{group.replace('.', '/')}/{artifact}/{version}/{name}"
            with urllib.request.urlopen(url, timeout=60) as found:  # noqa: S310 - https, always
                (JARS / f"{name}.part").write_bytes(found.read())
            (JARS / f"{name}.part").rename(JARS / name)
        except (urllib.error.URLError, TimeoutError) as error:
            problems.append(f"{name}: {error}")
        else:
            return str(JARS / name)
    pytest.skip(f"Maven Central does not give {'; '.join(problems)}")


def fetch(group: str, artifact: str, version: str) -> str:
    """Return the class path of an artifact with all that it needs; skips the test where it cannot be had."""
    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    JARS.mkdir(parents=True, exist_ok=True)
    listed = JARS / f"{artifact}-{version}.txt"
    command = ["java", "-jar", str(ivy), "-cache", str(JARS), "-dependency", group, artifact, version]
    try:
        done = subprocess.run(
            [*command, "-confs", "default", "-cachepath", str(listed)],
            capture_output=True, text=True, timeout=FETCH_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip(f"{artifact} {version} did not come from Maven in {FETCH_SECONDS} s")
    missing = [line.strip() for line in done.stdout.splitlines() if ": not found" in line]
    if done.returncode or missing or not listed.exists():
        pytest.skip(f"{artifact} {version} cannot be had from Maven: {missing[:1] or done.stdout[-300:]}")
    return listed.read_text().strip()


class Kafka:
    """One broker, and its own command-line tools."""

    def __init__(self, jars: str, folder: Path) -> None:
        self._jars = jars
        ports = [free_port(), free_port()]
        self.servers = f"localhost:{ports[0]}"
        settings = {
            "process.roles": "broker,controller", "node.id": "1", "log.dirs": str(folder / "data"),
            "listeners": f"PLAINTEXT://localhost:{ports[0]},CONTROLLER://localhost:{ports[1]}",
            "advertised.listeners": f"PLAINTEXT://localhost:{ports[0]}",
            "controller.listener.names": "CONTROLLER", "controller.quorum.voters": f"1@localhost:{ports[1]}",
            "offsets.topic.replication.factor": "1", "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1", "num.partitions": "2", "auto.create.topics.enable": "true",
        }  # fmt: skip
        config = folder / "server.properties"
        config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        self.java("kafka.tools.StorageTool", "format", "-t", uuid.uuid4().hex[:22], "-c", str(config))
        self._log = (folder / "kafka.log").open("wb")
        command = ["java", "-Xmx512m", "-cp", jars, "kafka.Kafka", str(config)]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)
        wait_until(lambda: self._process.poll() is not None or is_open(ports[0]))
        if self._process.poll() is not None:
            self._log.close()
            raise AssertionError((folder / "kafka.log").read_text()[-2000:])

    def java(self, main: str, *arguments: str, text: str = "") -> str:
        command = ["java", "-cp", self._jars, main, *arguments]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        assert done.returncode == 0, done.stdout[-1500:] + done.stderr[-1500:]
        return done.stdout

    def create(self, topic: str) -> None:
        self.java(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", self.servers, "--create", "--topic", topic
        )

    def send(self, topic: str, lines: list[str]) -> None:
        arguments = ["--bootstrap-server", self.servers, "--topic", topic]
        self.java("org.apache.kafka.tools.ConsoleProducer", *arguments, text="\n".join(lines) + "\n")

    def receive(self, topic: str, count: int) -> list[str]:
        arguments = [
            "--bootstrap-server",
            self.servers,
            "--topic",
            topic,
            "--from-beginning",
            "--max-messages",
            str(count),
        ]
        found = self.java("org.apache.kafka.tools.consumer.ConsoleConsumer", *arguments, "--timeout-ms", "60000")
        return found.splitlines()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._log.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port: int = probe.getsockname()[1]
        return port


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("localhost", port)) == 0


@pytest.fixture
def kafka(jars: str, tmp_path: Path) -> Iterator[Kafka]:
    folder = tmp_path / "kafka"
    folder.mkdir()
    kafka = Kafka(jars, folder)
    yield kafka
    kafka.close()


def run_pipeline(*arguments: str) -> None:
    command = [
        sys.executable,
        "-c",
        "from tocsin.cli import main; main()",
        "pipeline",
        "run",
        "--until-idle",
        *arguments,
    ]
    done = subprocess.run(
        [*command, "--master", "local[2]"], cwd=ROOT, capture_output=True, text=True, timeout=RUN_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_events_come_from_kafka_once_and_notifications_go_to_kafka(
    kafka: Kafka, connector: str, tmp_path: Path
) -> None:
    from tests.pipeline.worlds import event_text
    from tocsin.store.events import read_events

    world = World(tmp_path, 3)
    world.subscribe(15)
    for topic in ("in", "out"):
        kafka.create(topic)
    texts = [event_text(world.random, world.schema) for _ in range(30)]
    jars = ["--setting", f"spark.jars={connector}"]
    source = ["--store", world.store, "--source", f"kafka:{kafka.servers}/in", *jars]
    kafka.send("in", [*texts[:20], "nonsense"])
    run_pipeline(*source, "--checkpoint", str(tmp_path / "c1"))
    kafka.send("in", texts[20:])
    run_pipeline(*source, "--checkpoint", str(tmp_path / "c1"))
    run_pipeline(*source, "--checkpoint", str(tmp_path / "lost"), "--accept-lost-checkpoint")
    with world.broker._core.store.read() as connection:
        found = read_events(connection, 0, 1000)
    assert len(found) == 30
    for event in found:
        admitted = world.schema.admit(json.loads(event.body))
        world.expected |= {(event.seq, id) for id, bound in world.live.items() if evaluate(bound, admitted)}
    world.check()
    assert len(world.broker.dead_letters()) == 1
    run_pipeline(
        "--store", world.store, "--name", "outward", "--checkpoint", str(tmp_path / "c2"), "--from", "0",
        "--sink", f"kafka:{kafka.servers}/out", *jars,
    )  # fmt: skip
    messages = [json.loads(line) for line in kafka.receive("out", len(world.expected))]
    assert {(message["seq"], message["subscription"]) for message in messages} == world.expected
    assert len({message["id"] for message in messages}) == len(messages)
    world.broker.close()


def test_the_client_reads_and_writes_kafka_without_spark(kafka: Kafka, tmp_path: Path) -> None:
    from tests.service.live import serving
    from tocsin.client import Client
    from tocsin.client.connectors import SourceMessage, bring, carry, open_sink, open_source

    for topic in ("cars", "alerts"):
        kafka.create(topic)
    kafka.send("cars", [*(json.dumps({"event_type": "car", "price": price}) for price in (5, 50, 500)), "nonsense"])
    with serving(tmp_path) as live, Client(live.url, live.tokens["bob"]) as bob:
        bob.subscribe("car where price < 100")

        found: list[SourceMessage] = []
        with open_source(f"kafka:{kafka.servers}/cars") as source:
            while len(found) < 4:  # the test's own time ends it
                found += source.read(10, 1.0)
            sent = bob.publish_messages([(one.place, one.body) for one in found if one.body[:1] == b"{"])
        assert (sent.accepted, sent.rejected) == (3, 0)  # and left before it acknowledged
        with open_source(f"kafka:{kafka.servers}/cars") as source:
            batches = bring(source, bob)
            first = next(batch for batch in batches if batch.accepted + batch.rejected == 4)
        assert (first.accepted, first.rejected) == (3, 1)
        with open_sink(f"kafka:{kafka.servers}/alerts") as sink:
            assert sum(carry(bob, sink, consumer="out", until_idle=True)) == 2  # stored once
        expected = {one.id for one in bob.notifications(start="oldest").items}
    assert {json.loads(line)["id"] for line in kafka.receive("alerts", 2)} == expected
