"""The cache of kernels: a change to anything that is compiled into a kernel is noticed, and there is always a place.

All of it runs on a copy of the package, in processes of their own, with a cache of their own.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

import tocsin
import tocsin_lab
from tocsin.index.kernel_cache import kernel_modules, sources_of, temporary_folder

PACKAGES = {"tocsin": Path(tocsin.__file__).parent, "tocsin_lab": Path(tocsin_lab.__file__).parent}
# What walks no conjunctions returns the constant NONE, which another module defines.
WALK = """
import numpy as np
from tocsin.operators.schedules.naive import next_of_walk
none, bits = np.empty(0, np.int32), np.empty(0, np.bool_)
print(next_of_walk(none, np.zeros(1, np.int64), np.zeros(1, np.int64), none, bits, np.empty(0, np.int8), False))
print("hits", sum(next_of_walk.stats.cache_hits.values()))
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the packages, without what was compiled."""
    folder = tmp_path_factory.mktemp("copied")
    for name, source in PACKAGES.items():
        shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(copied: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return what a Python prints that imports the copy."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=copied,
        env={**kept, "PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1", **environment},
    )  # fmt: skip


# --- what the key covers ----------------------------------------------------------------------------------------------


@cache
def modules() -> frozenset[str]:
    return frozenset(
        ".".join((name, *path.relative_to(folder).with_suffix("").parts)).removesuffix(".__init__")
        for name, folder in PACKAGES.items()
        for path in folder.rglob("*.py")
    )


@cache
def imported_at_once(module: str) -> set[str]:
    """Return what a module imports when it is imported, by Python's own parser, as far as it is ours."""
    package, *rest = module.split(".")
    path = PACKAGES[package].joinpath(*rest)
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found & modules()


def test_every_module_that_uses_numba_is_in_the_key_of_kernels() -> None:
    kernels = [*kernel_modules("tocsin"), *kernel_modules("tocsin_lab")]
    covered = set[str]().union(*map(sources_of, kernels))
    for name, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if re.search(r"^\s*(import numba|from numba|@(lean_)?kernel$|@helper$|@inlined$)", text, re.MULTILINE):
                module = ".".join((name, *path.relative_to(folder).with_suffix("").parts))
                assert module in covered, module


def test_imports_found_in_the_text_are_those_that_python_finds() -> None:
    for module in [*kernel_modules("tocsin"), *kernel_modules("tocsin_lab")]:
        found, left = set[str](), [module]
        while left:
            name = left.pop()
            if name not in found:
                found.add(name)
                left += imported_at_once(name)
        assert sources_of(module) == found, module


def test_a_change_to_any_kernel_module_changes_the_keys_of_all_kernels_that_it_reaches(copied: Path) -> None:
    code = """
import json, sys
from pathlib import Path
import tocsin, tocsin_lab
from tocsin.index import kernel_cache as sources
names = [*sources.kernel_modules("tocsin"), *sources.kernel_modules("tocsin_lab")]
def keys():
    for each in (sources.key_of, sources._imports, sources._digest, sources._text, sources._file): each.cache_clear()
    return {name: sources.key_of(name) for name in names}
before, changed = keys(), {}
for name in names:
    file = sources._file(name)
    text = file.read_text(encoding="utf-8")
    file.write_text(text + "\\nONE_MORE_CONSTANT = 1\\n", encoding="utf-8")
    after = keys()
    changed[name] = [other for other in names if after[other] != before[other]]
    file.write_text(text, encoding="utf-8")
tocsin.__version__ += "x"
versions = keys()
print(json.dumps([changed, [name for name in names if versions[name] == before[name]], keys() == versions]))
"""
    changed, of_the_old_version, repeatable = json.loads(run(copied, code).stdout)
    assert len(changed) > 40
    for name, others in changed.items():
        assert name in others
        assert set(others) == {other for other in changed if name in sources_of(other)}
    assert any(len(others) == 1 for others in changed.values())  # what a change does not reach is not compiled anew
    assert of_the_old_version == []
    assert repeatable


def replaced(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.parametrize("module", ["probe", "join", "emit", "count"])
def test_the_kernels_that_take_longest_to_compile_are_kept_when_the_language_or_the_schema_changes(module: str) -> None:
    made_of = sources_of(f"tocsin.matching.columnar.{module}")
    assert {name for name in made_of if name.startswith(("tocsin.language", "tocsin.schema"))} == set()


def test_a_constant_of_another_module_that_changed_is_seen_by_a_kernel_that_was_kept(
    copied: Path, tmp_path: Path
) -> None:
    answers = copied / "tocsin" / "operators" / "schedules" / "naive.py"
    kept = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert run(copied, WALK, **kept).stdout.split() == ["-1", "hits", "0"]
    assert run(copied, WALK, **kept).stdout.split() == ["-1", "hits", "1"]
    replaced(answers, "NONE = -1", "NONE = -7")
    assert run(copied, WALK, **kept).stdout.split() == ["-7", "hits", "0"]
    replaced(answers, "NONE = -7", "NONE = -1")


def test_a_helper_that_changed_is_seen_by_a_kernel_of_another_distribution(copied: Path, tmp_path: Path) -> None:
    # A module of the lab with a kernel, a helper of the product, and a constant two imports away.
    (copied / "tocsin" / "offers" / "a_constant.py").write_text("STEP = 1\n")
    (copied / "tocsin" / "offers" / "a_helper.py").write_text(
        "from tocsin.index.jit import helper\nfrom tocsin.offers.a_constant import STEP\n\n\n"
        "@helper\ndef step(x):\n    return x + STEP\n"
    )
    (copied / "tocsin_lab" / "a_kernel.py").write_text(
        "from tocsin.index.jit import kernel\nfrom tocsin.offers.a_helper import step\n\n\n"
        "@kernel\ndef twice(x):\n    return step(step(x))\n"
    )
    code = "from tocsin_lab.a_kernel import twice; print(twice(1), sum(twice.stats.cache_hits.values()))"
    kept = {"NUMBA_CACHE_DIR": str(tmp_path)}
    assert [run(copied, code, **kept).stdout.split() for _ in range(2)] == [["3", "0"], ["3", "1"]]
    (copied / "tocsin" / "offers" / "a_constant.py").write_text("STEP = 2\n")
    assert run(copied, code, **kept).stdout.split() == ["5", "0"]
    (copied / "tocsin" / "offers" / "a_helper.py").write_text(
        "from tocsin.index.jit import helper\n\n\n@helper\ndef step(x):\n    return x * 10\n"
    )
    assert run(copied, code, **kept).stdout.split() == ["100", "0"]


def test_what_was_kept_by_a_version_that_had_other_classes_is_passed_over(copied: Path, tmp_path: Path) -> None:
    text = (
        "from typing import NamedTuple\nfrom tocsin.index.jit import kernel\n\n\n"
        "class Pair(NamedTuple):\n    a: int\n    b: int\n\n\n@kernel\ndef total(pair):\n    return pair.a + pair.b\n"
    )
    file = copied / "tocsin_lab" / "a_class.py"
    kept = {"NUMBA_CACHE_DIR": str(tmp_path)}
    for name in ("Pair", "Couple"):
        file.write_text(text.replace("Pair", name))
        code = f"from tocsin_lab.a_class import {name}, total; print(total({name}(1, 2)), sum(total.stats.cache_hits.values()))"
        assert [run(copied, code, **kept).stdout.split() for _ in range(2)] == [["3", "0"], ["3", "1"]]


# --- where it is ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def unwritable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package beside which nothing can be kept, not even by root: files stand where folders would be."""
    folder = tmp_path_factory.mktemp("unwritable")
    shutil.copytree(PACKAGES["tocsin"], folder / "tocsin", ignore=shutil.ignore_patterns("__pycache__"))
    for place in [path for path in (folder / "tocsin").rglob("*") if path.is_dir()]:
        (place / "__pycache__").touch()
    return folder


def test_without_a_home_and_with_packages_that_cannot_be_written_to_kernels_are_kept_in_a_temporary_folder(
    unwritable: Path, tmp_path: Path
) -> None:
    homeless = {"HOME": "/dev/null", "TMPDIR": str(tmp_path)}
    first, second = (run(unwritable, WALK, **homeless) for _ in range(2))
    assert first.stdout.split() == ["-1", "hits", "0"]
    assert second.stdout.split() == ["-1", "hits", "1"]
    (folder,) = tmp_path.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    (line,) = second.stderr.splitlines()  # one, though there are many kernels
    assert f"so they are kept in {folder}; set NUMBA_CACHE_DIR" in line


def test_without_any_place_kernels_work_and_one_line_says_that_they_are_not_kept(
    unwritable: Path, tmp_path: Path
) -> None:
    user = os.getuid()
    (tmp_path / f"tocsin-kernels-{user}").touch()  # not a folder
    done = run(unwritable, WALK, HOME="/dev/null", TMPDIR=str(tmp_path))
    assert done.stdout.split() == ["-1", "hits", "0"]
    (line,) = done.stderr.splitlines()
    assert "compiled anew by each process" in line


def test_a_home_that_nobody_knows_leaves_no_folder_of_that_name_behind(unwritable: Path, tmp_path: Path) -> None:
    # Python leaves `~` as it is where neither HOME nor the list of users tells; Numba would make a folder `~`.
    code = f"""
import os, os.path, pathlib
os.environ.pop("HOME", None)
os.path.expanduser = lambda path: path
os.access = lambda path, mode: False
{WALK}"""
    done = run(unwritable, code, TMPDIR=str(tmp_path))
    assert done.stdout.split()[0] == "-1"
    assert "are kept in" in done.stderr
    assert not (unwritable / "~").exists()


def test_the_folder_that_is_named_is_used(unwritable: Path, tmp_path: Path) -> None:
    done = run(unwritable, WALK, HOME="/dev/null", TMPDIR="/dev/null", NUMBA_CACHE_DIR=str(tmp_path))
    assert done.stderr == ""
    assert list(tmp_path.rglob("*.nbi"))


@pytest.mark.skipif(os.name != "posix", reason="modes and users")
def test_a_temporary_folder_that_others_may_write_to_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / f"tocsin-kernels-{os.getuid()}"
    assert temporary_folder() == str(folder)
    assert temporary_folder() == str(folder)  # the same each time
    folder.chmod(0o777)
    assert temporary_folder() is None
    folder.rmdir()
    folder.symlink_to(tmp_path)
    assert temporary_folder() is None
