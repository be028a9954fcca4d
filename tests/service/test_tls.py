"""Encrypted connections: HTTPS and the XML port by the operator's certificate, PostgreSQL never weaker than asked."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import httpx
import pytest
from sqlalchemy import make_url

from tests.service.live import serving
from tocsin.errors import StoreFailed
from tocsin.service.settings import BadSetting, ServiceSettings
from tocsin.store.database import connect, encrypted, failures


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[str, str]:
    """Return the files of a certificate of this machine, and of its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate")
    made, key = tmp_path / "tls.pem", tmp_path / "tls.key"
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)],
        check=True, capture_output=True,
    )  # fmt: skip
    return str(made), str(key)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_both_ports_are_encrypted_where_there_is_a_certificate(tmp_path: Path, certificate: tuple[str, str]) -> None:
    made, key = certificate
    port = free_port()
    trusting = ssl.create_default_context(cafile=made)
    with serving(tmp_path, tls_certificate=made, tls_key=key, xml_port=port) as live:
        url = live.url.replace("http://", "https://")
        assert httpx.get(f"{url}/healthz", verify=trusting).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{live.url}/healthz")
        raw = socket.create_connection(("127.0.0.1", port))
        with trusting.wrap_socket(raw, server_hostname="127.0.0.1") as xml:
            assert xml.version() in ("TLSv1.2", "TLSv1.3")
            xml.sendall(b"<nonsense/>")
            assert b"<" in xml.recv(4096)  # a reply, though what it asks is nonsense


def test_certificate_that_does_not_fit_is_refused_when_it_starts(tmp_path: Path, certificate: tuple[str, str]) -> None:
    made, _ = certificate
    with pytest.raises(BadSetting, match="do not fit"):
        ServiceSettings(tls_certificate=made, tls_key=str(tmp_path / "none")).tls()
    with pytest.raises(BadSetting, match="set tls_certificate"):
        ServiceSettings(tls_key="key.pem").tls()
    assert ServiceSettings().tls() is None


@pytest.mark.parametrize(
    ("address", "mode"),
    [
        ("postgresql://u@db.example/t", "require"),
        ("postgresql://u@10.1.2.3/t", "require"),
        ("postgresql://u@/t?host=db.example", "require"),
        ("postgresql://u@db.example/t?sslmode=verify-full", "verify-full"),
        ("postgresql://u@db.example/t?sslmode=disable", "disable"),
        ("postgresql://u@localhost/t", None),
        ("postgresql://u@127.0.0.1/t", None),
        ("postgresql://u@/t?host=/run/postgresql", None),
    ],
)
def test_database_on_another_machine_is_connected_to_by_tls(address: str, mode: str | None) -> None:
    assert encrypted(make_url(address)).query.get("sslmode") == mode


def test_database_without_tls_is_refused_where_tls_is_asked_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(8)  # the request for TLS
                connection.sendall(b"N")
                assert connection.recv(1) == b"", "it goes on in plain text"

        threading.Thread(target=refuse, daemon=True).start()
        engine = connect(f"postgresql://u@127.0.0.1:{server.getsockname()[1]}/t?sslmode=require")
        with pytest.raises(StoreFailed, match="SSL"), failures(), engine.connect():
            pass
        engine.dispose()
