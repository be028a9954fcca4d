"""Runs one peer on two files: builds it, starts it, checks its answers, and only then believes its times."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.peers.catalogue import Peer
from benchmarks.peers.definition import FEWEST, Answers, checked_events, compare, right_answers
from benchmarks.peers.files import WORDS, Skipped, read


class PeerFailed(Exception):
    """A peer's program ended with an error, or not at all."""


@dataclass(frozen=True, slots=True)
class Task:
    """The files, what is right about them, and how long a peer may take."""

    subscriptions: Path
    events: Path
    right: Answers  # for the first events
    seconds: float  # of one repeat; slower peers match fewer events
    limit: float  # seconds for the whole program


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of a peer whose answers are right."""

    peer: str
    version: str
    build_s: float
    events: int  # matched in each repeat
    events_per_s: float  # the best repeat
    matches: int
    seconds: tuple[float, ...]
    megabytes: float  # the peak of the program's own process, its input and events included
    checked_events: int
    single_us: float | None = None  # one event, at the median, where the peer tells it beside batches

    def as_json(self) -> dict[str, Any]:
        """Return the figures as JSON has them."""
        return asdict(self)


def prepare(subscriptions: Path, events: Path, seconds: float, limit: float) -> Task:
    """Return the task for these files; raises Skipped where they are more than peers are compared on."""
    workload = read(subscriptions, events, words=True)
    words = any(each.predicates[0][1] in WORDS for each in workload.subscriptions)
    # The definition cuts a text into words for each subscription anew, so fewer texts are compared.
    checked = FEWEST if words else checked_events(len(workload.subscriptions), len(workload.events))
    return Task(subscriptions, events, right_answers(subscriptions, events, checked), seconds, limit)


def run_peer(peer: Peer, task: Task) -> Figures:
    """Return a peer's figures; raises Skipped, BuildFailed, PeerFailed, WrongAnswer."""
    version, command = peer.installed_version(), peer.command()
    with tempfile.TemporaryDirectory() as folder:
        answers = Path(folder) / "answers.jsonl"
        arguments = [task.subscriptions, task.events, len(task.right), task.seconds, answers]
        printed, megabytes = _execute([*command, *map(str, arguments)], task.limit, Path(folder))
        found = json.loads(printed)
        if "skipped" in found:
            raise Skipped(found["skipped"])
        compare(task.right, [json.loads(line) for line in answers.read_text().splitlines()])
    seconds = tuple(found["seconds"])
    rate = found["events"] / min(seconds)
    return Figures(
        peer.name, version, found["build_s"], found["events"], rate, found["matches"], seconds, megabytes,
        len(task.right), found.get("single_us"),
    )  # fmt: skip


def _execute(command: Sequence[str], limit: float, folder: Path) -> tuple[str, float]:
    """Return the last line that a program prints, and its peak memory in megabytes."""
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        status, peak = _wait(process, limit)
        out.seek(0)
        err.seek(0)
        lines = out.read().splitlines()
        if status != 0 or not lines:
            raise PeerFailed(err.read().strip()[-600:] or f"it ended with {status}")
    return lines[-1], peak


def _wait(process: subprocess.Popen[bytes], limit: float) -> tuple[int, float]:
    """Return a program's exit status and peak memory; ends it at the limit."""
    deadline = time.monotonic() + limit
    while True:
        # wait4 and not Popen.wait: it tells the memory of this one process.
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
        if ended:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_maxrss / 1024
        if time.monotonic() > deadline:
            process.terminate()
            process.wait()
            raise PeerFailed(f"it was ended after {limit:g} s")
        time.sleep(0.02)
