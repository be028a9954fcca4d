"""What a release needs: `python -m tools.release check v1.2.3 | sbom | notes v1.2.3`, run by .github/workflows/release.yml.

check   the tag, the three packages and the changelog name the same version
sbom    a CycloneDX document of every package that requirements.lock pins for the product, with its hashes
notes   what the changelog says about the version
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VERSIONED = ("src/tocsin/__init__.py", "lab/src/tocsin_lab/__init__.py", "examples/src/tocsin_examples/__init__.py")
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^ ;]+)(?: *; *(.*?))? +(--hash.*)$", re.MULTILINE)


def problems(tag: str, root: Path = ROOT) -> list[str]:
    """Return what keeps a tag from being a release."""
    wanted, found = tag.removeprefix("v"), []
    if not re.fullmatch(r"v\d+\.\d+\.\d+(?:(?:a|b|rc)\d+)?", tag):
        found.append(f"{tag} is no version: v1.2.3, v1.2.3rc1")
    for file in VERSIONED:
        version = re.search(r'^__version__ = "(.*)"', (root / file).read_text(encoding="utf-8"), re.MULTILINE)
        if version is None or version[1] != wanted:
            found.append(f"{file} says {version and version[1]}, the tag {wanted}")
    if not notes(wanted, root):
        found.append(f"CHANGELOG.md has no section [{wanted}]")
    return found


def notes(version: str, root: Path = ROOT) -> str:
    """Return the changelog's section about a version, without its heading."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    section = re.search(rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## \[|\Z)", text, re.MULTILINE | re.DOTALL)
    return section[1].strip() if section else ""


def sbom(lock: str, version: str) -> dict[str, Any]:
    """Return a CycloneDX document of what a lock pins."""
    parts = []
    for name, pinned, marker, hashes in _PIN.findall(lock.replace("\\\n", " ")):
        found = re.findall(r"sha256:([0-9a-f]{64})", hashes)
        part: dict[str, Any] = {
            "type": "library", "name": name, "version": pinned, "purl": f"pkg:pypi/{name.lower()}@{pinned}",
            "bom-ref": f"{name}@{pinned}", "hashes": [{"alg": "SHA-256", "content": one} for one in found],
        }  # fmt: skip
        if marker:
            part["properties"] = [{"name": "python:marker", "value": marker.strip()}]
        parts.append(part)
    about = {"type": "application", "name": "tocsin", "version": version, "purl": f"pkg:pypi/tocsin@{version}"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": about},
        "components": parts,
    }


def main(arguments: list[str]) -> int:
    """Run a command; return its exit code."""
    from tocsin import __version__

    match arguments:
        case ["check", tag]:
            found = problems(tag)
            print(*found, sep="\n", file=sys.stderr)
            return 1 if found else 0
        case ["sbom"]:
            lock = (ROOT / "deploy" / "requirements.lock").read_text(encoding="utf-8")
            print(json.dumps(sbom(lock, __version__), indent=2))
            return 0
        case ["notes", tag]:
            print(notes(tag.removeprefix("v")))
            return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
