"""What is under deploy/ is right as far as it can be told without a daemon: linted, rendered, and in line with the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.project.files import ROOT, pyproject
from tests.project.helm import render
from tocsin.service.edge import Metrics
from tocsin.service.settings import ServiceSettings, read_settings

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "tocsin"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
UNIT = (DEPLOY / "systemd" / "tocsin.service").read_text(encoding="utf-8")
FULL: dict[str, Any] = {
    "secret": "tocsin", "adminTokenInSecret": True, "persistence": {"enabled": False},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "tls"}, "settings": {"TOCSIN_THREADS": 8},
}  # fmt: skip


def settings_named_in(text: str) -> set[str]:
    return {name.removesuffix("_FILE") for name in re.findall(r"\bTOCSIN_[A-Z_]+\b", text)}


# --- the image --------------------------------------------------------------------------------------------------------


def test_the_dockerfile_passes_its_linter() -> None:
    program = shutil.which("hadolint") or str(Path(sys.executable).with_name("hadolint"))
    # DL3059: warming the kernels is a layer of its own, so that it is shown and kept as one.
    done = subprocess.run(
        [program, "--no-color", "--ignore", "DL3059", str(DEPLOY / "Dockerfile")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_as_nobody_and_says_whether_it_is_ready() -> None:
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    assert "/readyz" in DOCKERFILE
    final = DOCKERFILE.rpartition("\nFROM ")[2]
    assert final.index("USER ") > final.index("useradd")  # nothing is done as root after it
    assert "RUN" not in final.partition("USER ")[2]


def test_the_image_is_built_from_files_that_docker_is_given() -> None:
    given = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for copied in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        for source in [one for one in copied.split() if not one.startswith("--")][:-1]:
            assert f"!{source}" in given, source
            assert (ROOT / source).exists(), source


def test_the_images_lock_holds_what_the_service_needs_as_the_projects_lock_does() -> None:
    pins = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
    own = dict(pins.findall((DEPLOY / "requirements.lock").read_text(encoding="utf-8")))
    everything = set(pins.findall((ROOT / "requirements.lock").read_text(encoding="utf-8")))
    assert set(own.items()) <= everything, "run: make lock"
    extras = pyproject()["project"]["optional-dependencies"]
    wanted = [*pyproject()["project"]["dependencies"], *extras["service"], *extras["postgres"], *extras["broker"]]
    names = {re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0].lower() for line in wanted} - {"tocsin"}
    assert names <= set(own)


@pytest.mark.parametrize("there", [True, False])
def test_the_entrypoint_brings_the_kernels_and_runs_the_command(there: bool, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "tocsin"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "ran $*"; ls "$NUMBA_CACHE_DIR" 2>/dev/null; env | grep -c TOCSIN_ || true\n')
    program.chmod(0o755)
    if there:
        (tmp_path / "kernels").mkdir()
        (tmp_path / "kernels" / "one.nbi").touch()
    environment = {
        "PATH": f"{program.parent}:/usr/bin:/bin", "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
        "TOCSIN_IMAGE_KERNELS": str(tmp_path / "kernels"),
    }  # fmt: skip
    done = subprocess.run(
        [str(DEPLOY / "entrypoint.sh"), "serve", "--port", "1"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split("\n")[:-1] == ["ran serve --port 1", *(["one.nbi"] if there else []), "0"]


# --- compose, Prometheus, Grafana -------------------------------------------------------------------------------------


def test_every_setting_that_is_named_is_one() -> None:
    known = {f"TOCSIN_{name.upper()}" for name in ServiceSettings.__struct_fields__} | {"TOCSIN_IMAGE_KERNELS"}
    for file in [path for path in DEPLOY.rglob("*") if path.is_file() and "spark" not in path.parts]:
        assert settings_named_in(file.read_text(encoding="utf-8")) <= known, file


def test_compose_runs_a_service_that_can_write_nowhere_but_where_it_must() -> None:
    service = COMPOSE["services"]["tocsin"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert set(COMPOSE["services"]) == {"tocsin", "postgres", "prometheus", "grafana"}
    for one in COMPOSE["services"].values():
        assert set(one.get("secrets", ())) <= set(COMPOSE["secrets"])
        for port in one.get("ports", ()):
            assert port.startswith("127.0.0.1:")  # who opens it to others decides to
        for volume in one.get("volumes", ()):
            source = volume.split(":")[0]
            assert source in COMPOSE["volumes"] or (DEPLOY / source).exists(), volume


def test_compose_gives_the_service_settings_that_it_takes(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("postgresql://tocsin@postgres/tocsin\n")
    given = {**COMPOSE["services"]["tocsin"]["environment"], "TOCSIN_STORE_FILE": str(tmp_path / "store")}
    assert read_settings(given).store == "postgresql://tocsin@postgres/tocsin"


def test_prometheus_scrapes_the_service_where_compose_has_it() -> None:
    (job,) = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["tocsin:8080"]}]


def test_the_dashboard_shows_only_figures_that_the_service_has() -> None:
    dashboard = json.loads((DEPLOY / "grafana" / "dashboards" / "tocsin.json").read_text(encoding="utf-8"))
    shown = " ".join(target["expr"] for panel in dashboard["panels"] for target in panel["targets"])
    known = re.findall(r"^# TYPE (\S+)", Metrics().text().decode(), re.MULTILINE)
    named = {re.sub(r"_bucket$", "", name) for name in re.findall(r"\btocsin_\w+", shown)}
    assert named
    assert named <= set(known)


# --- systemd ----------------------------------------------------------------------------------------------------------


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not here")
    here = UNIT.replace("/opt/tocsin/bin/tocsin", sys.executable)
    (tmp_path / "tocsin.service").write_text(here)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "tocsin.service")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = [line for line in done.stderr.splitlines() if "tocsin.service" in line]
    assert said == []


def test_the_unit_keeps_what_it_writes_to_its_own_folders() -> None:
    assert "ProtectSystem=strict" in UNIT
    assert "TOCSIN_STORE=%S/tocsin/" in UNIT
    assert "NUMBA_CACHE_DIR=%C/tocsin" in UNIT


# --- Helm -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{}, FULL], ids=["as it comes", "with everything"])
def test_the_chart_renders_to_what_kubernetes_takes(given: dict[str, Any]) -> None:
    rendered = render(CHART, given)
    kinds = [one["kind"] for one in rendered]
    assert sorted(kinds) == sorted(["Deployment", "Service", *(["Ingress"] if given else ["PersistentVolumeClaim"])])
    for document in rendered:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_the_chart_runs_the_image_as_the_image_wants_to_be_run() -> None:
    (deployment,) = [one for one in render(CHART, FULL) if one["kind"] == "Deployment"]
    assert deployment["spec"]["replicas"] == 1  # one process serves
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsUser"] == 10001
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert {mount["mountPath"] for mount in container["volumeMounts"]} == {"/data", "/tmp"}  # noqa: S108
    plain = {one["name"]: one["value"] for one in container["env"] if "value" in one}
    assert read_settings(plain).threads == 8
    assert {one["name"] for one in container["env"]} == set(plain) | {"TOCSIN_STORE", "TOCSIN_ADMIN_TOKEN"}


def test_helm_itself_agrees() -> None:
    if shutil.which("helm") is None:
        pytest.skip("helm is not here; the templates are rendered by tests/project/helm.py")
    subprocess.run(["helm", "lint", "--strict", str(CHART)], check=True)
    for given in ({}, FULL):
        out = subprocess.run(
            ["helm", "template", "release", str(CHART), "--values", "-"],
            input=yaml.safe_dump(given), capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        theirs = [one for one in yaml.safe_load_all(out) if one]
        assert sorted(theirs, key=str) == sorted(render(CHART, given), key=str)
