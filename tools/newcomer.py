"""A newcomer's path, timed: from nothing to a match in the library, and from there to one in a service.

    python -m tools.newcomer              # prints the table of docs/install.md; ends with 1 where it took too long

Makes the wheel, and in a folder elsewhere a clean environment into which pip installs it; kernels are compiled into a
place that is empty. Packages come from where pip gets them: its cache, where they are there. Beside the seconds of the
clock stand those of the processor, which other programs on the machine do not lengthen.
"""

from __future__ import annotations

import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY_SECONDS, SERVICE_SECONDS = 60.0, 120.0  # what is promised, on the clock; the second from `tocsin[service]` on
PASSWORD = "correct horse battery"  # noqa: S105 - of an account that lives for a minute
EVENT = '{"brand": "mini", "price": 1100}'


class Newcomer:
    """Somebody with a Python and a wheel, in a folder with nothing else in it; and how long each step took."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.steps = folder, list[tuple[str, float, float]]()
        self.python, self.tocsin = str(folder / "env/bin/python"), str(folder / "env/bin/tocsin")
        own = ("PIP_", "SSL_", "LANG", "http_", "https_", "no_", "HTTP", "HTTPS_", "NO_")
        self.environment = {name: value for name, value in os.environ.items() if name.startswith(own)}
        found = subprocess.run(
            [sys.executable, "-m", "pip", "cache", "dir"], capture_output=True, text=True, check=True
        )
        self.environment |= {
            "PATH": os.defpath, "HOME": str(folder), "NUMBA_CACHE_DIR": str(folder / "kernels"),
            "PIP_CACHE_DIR": found.stdout.strip(),
        }  # fmt: skip

    def run(self, what: str, *commands: Sequence[str], given: str = "") -> str:
        """Run commands, one after the other, as one step; return what the last one printed."""
        began, used, printed = time.monotonic(), _seconds_of_children(), ""
        for command in commands:
            done = subprocess.run(
                command, cwd=self.folder, env=self.environment, input=given, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"{' '.join(command)[:200]} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
            printed = done.stdout
        self.took(what, time.monotonic() - began, _seconds_of_children() - used)
        return printed

    def took(self, what: str, clock: float, processor: float) -> None:
        """Remember how long a step took."""
        self.steps.append((what, clock, processor))

    def install(self, wheel: Path) -> None:
        """Make an environment, and install the library."""
        made = [sys.executable, "-m", "venv", str(self.folder / "env")]
        self.run(
            "`python3 -m venv` and `pip install tocsin`", made, [self.python, "-m", "pip", "install", "-q", str(wheel)]
        )

    def match(self) -> None:
        """Run the ten lines of the README."""
        code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
        assert code is not None
        told = self.run("the ten lines, nothing compiled", [self.python, "-c", code[1]])
        if not told.startswith("['ann']"):
            raise SystemExit(f"the ten lines print {told!r}")

    def serve(self, wheel: Path) -> None:
        """Install the service, start it, and take the four commands of the README."""
        self.run(
            "`pip install 'tocsin[service]'` on top", [self.python, "-m", "pip", "install", "-q", f"{wheel}[service]"]
        )
        with socket.create_server(("127.0.0.1", 0)) as free:
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
        self.environment |= {"TOCSIN_URL": url, "TOCSIN_PORT": url.rpartition(":")[2]}
        began = time.monotonic()
        with (self.folder / "log").open("w") as log, subprocess.Popen(
            [self.tocsin, "serve", "--schema", "dynamic"], cwd=self.folder, env=self.environment, stdout=log, stderr=log
        ) as service:  # fmt: skip
            try:
                _wait_for(f"{url}/readyz", service)
                self.took("`tocsin serve` until `/readyz` is green, nothing compiled", time.monotonic() - began, 0.0)
                told = self._four_commands()
            finally:
                service.terminate()
        if '"price":1100' not in told:
            raise SystemExit(f"tocsin listen prints {told!r}")

    def _four_commands(self) -> str:
        what = "log in, subscribe, publish, listen"
        before = len(self.steps)
        self.run(what, [self.tocsin, "login", "ann", "--register", "--password-stdin"], given=PASSWORD + "\n")
        self.run(what, [self.tocsin, "subscribe", "price < 1300 and brand in ('mini', 'cooper')"])
        self.run(what, [self.tocsin, "publish"], given=EVENT + "\n")
        told = self.run(what, [self.tocsin, "listen", "--count", "1"])
        each, self.steps = self.steps[before:], self.steps[:before]
        self.took(f"{what}: four commands", sum(one[1] for one in each), sum(one[2] for one in each))
        return told

    def megabytes(self) -> float:
        """Return what the packages take on disk, without pip's own and without compiled Python."""
        packages = next((self.folder / "env/lib").glob("python3*")) / "site-packages"
        files = (path for path in packages.rglob("*") if path.is_file() and path.suffix != ".pyc")
        return sum(path.stat().st_size for path in files if path.relative_to(packages).parts[0] not in _PIPS) / 2**20


_PIPS = ("pip", "setuptools", "_distutils_hack", "pkg_resources")


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for(url: str, service: subprocess.Popen[bytes]) -> None:
    while service.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - our own
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit(f"tocsin serve ended with {service.returncode}")


def table(steps: Sequence[tuple[str, float, float]]) -> str:
    """Return the steps as a table in Markdown."""
    rows = [f"| {what} | {clock:.1f} | {f'{used:.1f}' if used else ''} |" for what, clock, used in steps]
    return "\n".join(["| step | clock | processor |", "|---|---|---|", *rows])


def main() -> int:
    """Take the path; return 1 where it took longer than is promised."""
    with tempfile.TemporaryDirectory(prefix="tocsin-newcomer-") as name:
        folder = Path(name)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = folder.glob("tocsin-*.whl")
        newcomer = Newcomer(folder)
        newcomer.install(wheel)
        core = newcomer.megabytes()
        newcomer.match()
        library = sum(clock for _, clock, _ in newcomer.steps)
        newcomer.serve(wheel)
        service = sum(clock for _, clock, _ in newcomer.steps) - library
        print(table(newcomer.steps))
        print(f"\nlibrary {library:.1f} s, service {service:.1f} s more; the core takes {core:.0f} MB")
    late = library > LIBRARY_SECONDS or service > SERVICE_SECONDS
    if late:
        print(f"too long: {LIBRARY_SECONDS:.0f} and {SERVICE_SECONDS:.0f} s are promised", file=sys.stderr)
    return int(late)


if __name__ == "__main__":
    raise SystemExit(main())
