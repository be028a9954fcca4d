"""What is under deploy/spark/ is right as far as it can be told without a cluster; tests/pipeline run the application."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from tests.project.files import ROOT

FOLDER = ROOT / "deploy" / "spark"
DOCKERFILE = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
MANIFESTS: list[dict[str, Any]] = list(yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8")))


def test_sparks_dockerfile_passes_its_linter_and_runs_as_nobody() -> None:
    program = shutil.which("hadolint") or str(Path(sys.executable).with_name("hadolint"))
    command = [program, "--no-color", "--ignore", "DL3059", str(FOLDER / "Dockerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    given = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for copied in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE):
        for source in copied.split()[:-1]:
            assert f"!{source}" in given, source
            assert (ROOT / source).exists(), source


def test_kubernetes_takes_the_manifests_and_nothing_runs_as_root() -> None:
    for document in MANIFESTS:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)
    (job,) = [one for one in MANIFESTS if one["kind"] == "Job"]
    pod = job["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert "--conf=spark.driver.extraJavaOptions=-Xss8m" in container["args"]
    assert any(one.endswith("match_job.py") for one in container["args"])


def test_compose_is_a_standalone_cluster_of_the_image() -> None:
    services = COMPOSE["services"]
    assert set(services) == {"master", "worker", "match"}
    for service in services.values():
        assert service["image"] == "tocsin-spark"
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).resolve().exists()
    assert "spark://master:7077" in services["worker"]["command"]
    assert "--master=spark://master:7077" in services["match"]["command"]


def test_submitting_passes_settings_and_arguments_on() -> None:
    given = ["--events", "e", "--table", "t", "--out", "o"]
    environment = {"SPARK_SUBMIT": "echo", "MASTER": "spark://host:7077", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [str(FOLDER / "submit.sh"), *given], env=environment, capture_output=True, text=True, check=True
    )
    assert "--master spark://host:7077" in done.stdout
    assert "spark.driver.extraJavaOptions=-Xss8m" in done.stdout
    assert done.stdout.rstrip().endswith("match_job.py --events e --table t --out o")
    refused = subprocess.run(
        [str(FOLDER / "submit.sh")], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False
    )
    assert refused.returncode != 0


def test_what_is_named_in_deploy_is_there() -> None:
    from tocsin.pipeline import remote_folder, worker_daemon

    assert worker_daemon.__name__ == "tocsin.pipeline.worker_daemon"
    for text in (DOCKERFILE, (FOLDER / "submit.sh").read_text(encoding="utf-8")):
        assert remote_folder.CACHE_VARIABLE in text
    spec = yaml.safe_load((FOLDER / "declarative" / "spark-pipeline.yml").read_text(encoding="utf-8"))
    assert list((FOLDER / "declarative").glob(spec["libraries"][0]["glob"]["include"] + "/*.py"))
