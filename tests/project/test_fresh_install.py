"""What a newcomer has: the wheel in a clean environment, with what it declares and nothing else, that nobody may write to.

Runs as a user who is in no list and has no home, where the tests run as root; in a folder that cannot be written to. The
dependencies are copied from this environment by what the wheel's metadata asks for, so nothing is fetched, and a package
that is used and not declared is missed.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

from tests.project.files import ROOT, normalise
from tests.service.live import wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not os.environ.get("TOCSIN_SLOW"), reason="slow: set TOCSIN_SLOW=1 to run it"),
    pytest.mark.skipif(os.name != "posix", reason="needs users and rights as POSIX has them"),
    pytest.mark.timeout(900),
]
NOBODY = 54321  # in no list of users
MOST_MEGABYTES = 350  # of the core


class Installation:
    """A clean environment, and a data folder: the only place beside the temporary one that can be written to."""

    def __init__(self, folder: Path, wheel: Path, *extras: str) -> None:
        self.folder = folder
        self.python, self.user = interpreter()
        subprocess.run([self.python, "-m", "venv", "--without-pip", str(folder)], check=True)
        self.packages = next((folder / "lib").glob("python3*")) / "site-packages"
        command = ["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(self.packages)]
        subprocess.run([sys.executable, *command, str(wheel)], check=True, env={**os.environ, "PIP_NO_COMPILE": "1"})
        for found in needed("tocsin", set(extras), self.packages):
            copy(found, self.packages)
        self.data = folder / "data"
        self.data.mkdir()
        for path in folder.rglob("*"):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode & ~0o222 | 0o444 | (0o111 if path.is_dir() else 0))
        self.data.chmod(0o777)
        folder.chmod(0o555)

    def environment(self) -> dict[str, str]:
        return {"PATH": os.defpath, "TMPDIR": str(self.data), "PYTHONDONTWRITEBYTECODE": "1"}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a Python of this environment, as somebody without a home where we may choose."""
        return subprocess.Popen(
            [str(self.folder / "bin" / "python"), *arguments],
            cwd="/", env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            user=self.user, group=self.user,
        )  # fmt: skip

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Return the exit code, the output and the errors."""
        process = self.start(*arguments)
        output, errors = process.communicate()
        return process.returncode, output, errors

    def megabytes(self) -> float:
        return sum(path.lstat().st_size for path in self.packages.rglob("*") if path.is_file()) / 2**20


def interpreter() -> tuple[str, int | None]:
    """Return a Python of this version, and who can run it: nobody in particular, where we may choose, else ourselves."""
    own = os.path.realpath(sys.executable)
    if os.getuid() == 0:
        name = f"python{sys.version_info.major}.{sys.version_info.minor}"
        for python in (own, f"/usr/local/bin/{name}", f"/usr/bin/{name}"):
            with contextlib.suppress(OSError):
                subprocess.run([python, "-c", "import venv"], user=NOBODY, group=NOBODY, cwd="/", check=True)
                return python, NOBODY
    return own, None


def needed(name: str, extras: set[str], place: Path) -> list[Distribution]:
    """Return the distributions that one needs, with these extras, and those that these need in turn."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    left = [(name, extra) for extra in ("", *extras)]
    while left:
        name, extra = left.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        own = name == "tocsin"
        one = next(iter(Distribution.discover(name=name, path=[str(place)]))) if own else distribution(name)
        if not own:
            found[name] = one
        for line in one.requires or ():
            wanted = Requirement(line)
            if wanted.marker is None or wanted.marker.evaluate({"extra": extra}):
                left += [(normalise(wanted.name), more) for more in ("", *wanted.extras)]
    return list(found.values())


def copy(found: Distribution, place: Path) -> None:
    """Copy a distribution's files, but for its programs."""
    for file in found.files or ():
        source, target = Path(str(found.locate_file(file))), place / str(file)
        if ".." not in file.parts and file.suffix not in (".pyc", ".nbi", ".nbc") and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """Give a folder that other users can reach, unlike pytest's."""
    with tempfile.TemporaryDirectory(prefix="tocsin-fresh-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
        for path in folder.rglob("*"):  # what was made unwritable can now be removed
            if path.is_dir():
                path.chmod(path.stat().st_mode | stat.S_IWUSR)


@pytest.fixture(scope="module")
def wheel(open_folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(open_folder / "dist")],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (built,) = (open_folder / "dist").glob("tocsin-*.whl")
    return built


@pytest.fixture(scope="module")
def core(open_folder: Path, wheel: Path) -> Installation:
    return Installation(open_folder / "core", wheel)


@pytest.fixture(scope="module")
def served(open_folder: Path, wheel: Path) -> Installation:
    return Installation(open_folder / "served", wheel, "service")


def test_the_core_is_small(core: Installation) -> None:
    assert core.megabytes() < MOST_MEGABYTES
    assert not any((core.packages / name).exists() for name in ("pyarrow", "sqlalchemy", "typer", "rich", "httpx"))


def test_the_core_runs_the_example_of_the_readme(core: Installation) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert code is not None
    done, output, errors = core.run("-c", code.group(1))
    assert done == 0, errors
    assert output.startswith("['ann']")
    assert errors.count("\n") <= 1, errors  # where the kernels are kept
    assert not list(core.data.rglob("*.nbi"))  # so few questions wait for no kernel


@pytest.mark.parametrize(
    ("statement", "extra"),
    [
        ("import tocsin; tocsin.Client", "client"),
        ("import tocsin; tocsin.Broker", "broker"),
        ("import tocsin.spark", "spark"),
        ("import tocsin.service.app", "service"),
        ("import tocsin.xml", "xml"),
        ("import tocsin.cli; tocsin.cli.main()", "cli"),
    ],
)
def test_what_the_core_lacks_is_one_line_that_names_the_extra(core: Installation, statement: str, extra: str) -> None:
    done, _, errors = core.run("-c", statement)
    assert done != 0
    assert errors.splitlines()[-1].endswith(f"to have it: pip install 'tocsin[{extra}]'")


def test_the_command_matches_lines(served: Installation) -> None:
    (served.data / "subscriptions.txt").write_text("price < 1300\nbrand = 'audi'\n")
    (served.data / "events.jsonl").write_text('{"brand": "mini", "price": 900}\n{"brand": "audi", "price": 2000}\n')
    files = ["--subscriptions", str(served.data / "subscriptions.txt"), "--events", str(served.data / "events.jsonl")]
    done, output, errors = served.run("-m", "tocsin", "match", *files)
    assert (done, output.splitlines()) == (0, ["1", "2"]), errors
    assert not list(served.data.rglob("*.nbi"))


def test_the_service_starts_says_when_it_is_ready_and_takes_the_first_event(served: Installation) -> None:
    with served.start(
        "-m", "tocsin", "serve", "--store", str(served.data / "first.db"), "--port", "0"
    ) as process, contextlib.ExitStack() as ending:  # fmt: skip
        ending.callback(process.kill)
        assert process.stdout is not None
        assert process.stderr is not None
        reading = threading.Thread(target=process.stderr.read)  # nobody looks at the log, and it must not stop
        reading.start()
        token = process.stdout.readline().split()[-1]
        url = process.stdout.readline().split()[-1]
        with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, timeout=120) as client:
            wait_until(lambda: client.get("/readyz").status_code == 200, "the definition answers", 120)
            assert client.get("/readyz").json()["kernels"] == "compiling"
            made = client.post("/v1/subscriptions", json={"text": "question where title contains 'clock'"})
            assert made.status_code == 201, made.text
            event = {
                "event_type": "question",
                "title": "a clock",
                "item": "i1",
                "question": "b",
                "at": "2027-01-01T00:00:00Z",
            }
            published = client.post("/v1/events", json=event)
            assert published.status_code == 201, published.text
            (found,) = client.get("/v1/notifications", params={"start": "oldest"}).json()["items"]
            assert found["event"]["title"] == "a clock"
            assert client.get("/readyz").json()["matching_by"] == "definition"
            wait_until(lambda: client.get("/readyz").json()["kernels"] == "ready", "the kernels are compiled", 600)
            assert client.get("/readyz").status_code == 200
            assert client.post("/v1/events", json=event).status_code == 201
        process.terminate()
        assert process.wait(60) in (0, -signal.SIGTERM)  # uvicorn passes the signal on once it has stopped
        reading.join()
