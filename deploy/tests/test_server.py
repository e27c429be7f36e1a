"""What deploy/server.py sends, without a server: its objects are valid, and its script says when it is skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import check  # noqa: E402
import server  # noqa: E402


def test_the_kinds_that_are_sent_are_valid_and_all_there():
    found = server.definitions()
    assert [check.invalid(each) for each in found] == [[]] * len(found)
    kinds = {(each["spec"]["group"], each["spec"]["names"]["kind"]) for each in found}
    for documents in check.rendered().values():
        for document in documents:
            group = document["apiVersion"].rpartition("/")[0]
            if "." in group and not group.endswith(".k8s.io"):
                assert (group, document["kind"]) in kinds


def test_the_pods_that_are_sent_are_valid():
    number = 0
    for documents in check.rendered().values():
        for document in documents:
            for pod in server.made_of(document):
                number += 1
                assert check.invalid(server.as_object(pod, number)) == [], f"{document['kind']} {pod.name}"
    assert number > 50


def test_certificates_fit_together(tmp_path):
    server.certificates(tmp_path)
    done = subprocess.run(["openssl", "verify", "-CAfile", "ca.crt", "server.crt"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_binaries_it_is_skipped(monkeypatch, capsys):
    for name in ("ETCD", "KUBE_APISERVER"):
        monkeypatch.delenv(name, raising=False)
    assert server.main() == 0
    assert "skipped: ETCD and KUBE_APISERVER" in capsys.readouterr().out


def test_a_server_that_does_not_start_ends_the_others(tmp_path, monkeypatch):
    """Every process that was started is stopped, and the end of the log is shown."""
    (tmp_path / "etcd").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "kube-apiserver").write_text("#!/bin/sh\necho no such flag >&2\nexit 3\n")
    for name, variable in (("etcd", "ETCD"), ("kube-apiserver", "KUBE_APISERVER")):
        (tmp_path / name).chmod(0o755)
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.delenv("KUBE_CONTROLLER_MANAGER", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    servers = server.Servers(folder)
    try:
        servers.control_plane()
        raise AssertionError("it started")
    except SystemExit as error:
        assert "exit code 3" in str(error) and "no such flag" in str(error)
    finally:
        servers.stop()
    assert [process.poll() is not None for process in servers.started] == [True, True]
