"""Killed anywhere, the pipeline goes on and stores what the definition says, nothing twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.test_stream import World, settings_of, wait_until
from tests.project.files import ROOT

pytest.importorskip("pyspark")

from tocsin.pipeline.log_query import POINTS
from tocsin.pipeline.run import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVER_SECONDS = 240


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = World(tmp_path, 11)
    world.subscribe(15)
    world.churn(12)
    return world


def run_driver(world: World, tmp_path: Path, crash_point: str, master: str = "local[2]") -> int:
    """Run a driver that is killed, or one of whose workers is, at a crash point; return its exit code."""
    command = [sys.executable, "-m", "tests.pipeline.driver", world.store, str(tmp_path / "checkpoint"), master]
    environment = {**os.environ, "TOCSIN_CRASH_POINT": crash_point}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, timeout=DRIVER_SECONDS, check=False
    ).returncode


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_a_driver_killed_at_any_point_is_replayed_exactly(
    spark: "SparkSession", world: World, tmp_path: Path, point: str
) -> None:
    code = run_driver(world, tmp_path, f"{point}:2")
    assert code != 0, "it was to die there"
    world.churn(3)
    Pipeline(spark, settings_of(world, tmp_path, until_idle=True)).run()
    world.check()


@pytest.mark.slow
def test_a_killed_executor_is_replaced(world: World, tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "tests.pipeline.driver", world.store, str(tmp_path / "checkpoint"),
        "local-cluster[2,1,1024]",
    ]  # fmt: skip
    driver = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: bool(executors_of(driver.pid)) or driver.poll() is not None)
        wait_until(lambda: world.matched_through() > 0 or driver.poll() is not None)
        for pid in executors_of(driver.pid)[:1]:
            os.kill(pid, signal.SIGKILL)
        world.churn(3)
        assert driver.wait(DRIVER_SECONDS) == 0
    finally:
        driver.kill()
    again = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=DRIVER_SECONDS, check=False)
    assert again.returncode == 0, again.stderr[-2000:]
    world.check()


@pytest.mark.slow
def test_killed_python_workers_are_replaced(spark: "SparkSession", world: World, tmp_path: Path) -> None:
    pipeline = Pipeline(spark, settings_of(world, tmp_path, events_per_batch=10))
    pipeline.start()
    try:
        wait_until(lambda: world.matched_through() > 0, pipeline)
        killed = 0
        for _ in range(3):
            world.churn(2)
            for pid in workers_of(os.getpid()):
                os.kill(pid, signal.SIGKILL)
                killed += 1
            last = max(seq for seq, _ in world.expected)
            wait_until(lambda last=last: world.matched_through() >= last, pipeline)  # type: ignore[misc]
        assert killed
    finally:
        pipeline.stop()
        pipeline.wait()
    world.check()


def processes() -> dict[int, tuple[int, str]]:
    """Return pid -> (parent, command line) of all processes."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            found[int(folder.name)] = (parent, (folder / "cmdline").read_text().replace("\0", " "))
        except (OSError, ValueError):  # it ended meanwhile
            continue
    return found


def descendants_of(root: int) -> dict[int, str]:
    """Return pid -> command line of all processes below one."""
    every = processes()
    below: dict[int, str] = {}
    waiting = [root]
    while waiting:
        parent = waiting.pop()
        children = {pid: command for pid, (above, command) in every.items() if above == parent}
        below |= children
        waiting += children
    return below


def executors_of(driver: int) -> list[int]:
    return [pid for pid, command in descendants_of(driver).items() if "CoarseGrainedExecutorBackend" in command]


def workers_of(driver: int) -> list[int]:
    """Return the Python workers that run tasks, and not those that plan: the children of the daemon for tasks."""
    below = descendants_of(driver)
    daemons = {pid for pid, command in below.items() if "worker_daemon pyspark.worker" in command}
    every = processes()
    return [pid for pid in below if pid in every and every[pid][0] in daemons]
