"""Files that docstrings, comments and pages name: `index/segment.py`, docs/engine.md; and whether they are there."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

# Only code and pages: other names (subscriptions.jsonl, auction.toml) are often those of a user's files.
NAMED = re.compile(r"(?<![\w/.*<{-])((?:[\w-]+/)*[\w-]+\.(?:py|md))(?![\w/-])")
FOLDER = re.compile(r"`((?:[\w-]+/)+)`")
# A page that tells what once was, and examples of what a user may have.
HISTORY = ("CHANGELOG.md",)
A_USERS = {"my_operators.py"}


def tracked(root: Path) -> list[PurePosixPath]:
    """Return the files of the repository, those not committed yet included."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    return [PurePosixPath(line) for line in sorted(set(listed)) if (root / line).exists()]


def words_of(path: Path) -> Iterator[str]:
    """Yield what a file says to its readers: a page's text, a module's docstrings and comments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield text
        return
    begins = True  # of a statement: a text alone is a docstring
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and begins):
            yield token.string
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            begins = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)


def missing(root: Path) -> list[str]:
    """Return a line for each name of a file that is not there.

    A name with a folder is the end of a path of the repository. One without, in a module, is a neighbour: in its folder,
    below it, or in a folder that it lies in; on a page it may be anywhere.
    """
    files = tracked(root)
    ends = {"/".join(file.parts[at:]) for file in files for at in range(len(file.parts))}
    ends |= {"/".join(file.parts[at:to]) + "/" for file in files for to in range(len(file.parts)) for at in range(to)}
    near = _neighbours(files)
    found = []
    for file in files:
        if file.suffix not in (".py", ".md") or file.name in HISTORY:
            continue
        for words in words_of(root / file):
            for name in (*NAMED.findall(words), *FOLDER.findall(words)):
                there = name in ends if "/" in name or file.suffix == ".md" else name in near[file.parent]
                if not there and name not in A_USERS:
                    found.append(f"{file}: {name}")
    return found


def _neighbours(files: Iterable[PurePosixPath]) -> Mapping[PurePosixPath, set[str]]:
    """Return by folder the names of the files in it, below it, and in the folders that it lies in."""
    inside: dict[PurePosixPath, set[str]] = defaultdict(set)
    below: dict[PurePosixPath, set[str]] = defaultdict(set)
    for file in files:
        inside[file.parent].add(file.name)
        for folder in file.parents:
            below[folder].add(file.name)
    return {folder: below[folder].union(*(inside[above] for above in folder.parents)) for folder in list(below)}
