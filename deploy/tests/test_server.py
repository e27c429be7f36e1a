"""What `make deploy-server` sends, without a server: its objects are valid, and its script says when it is skipped."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import apply_questions  # noqa: E402
import check  # noqa: E402
import control_plane  # noqa: E402
import pod_questions  # noqa: E402
import server  # noqa: E402
from pods import made_of  # noqa: E402


def test_the_kinds_that_are_sent_are_valid_and_all_there():
    found = control_plane.definitions()
    assert [check.invalid(each) for each in found] == [[]] * len(found)
    kinds = {(each["spec"]["group"], each["spec"]["names"]["kind"]) for each in found}
    for documents in check.rendered().values():
        for document in documents:
            group = document["apiVersion"].rpartition("/")[0]
            if "." in group and not group.endswith(".k8s.io"):
                assert (group, document["kind"]) in kinds


def test_a_schema_with_several_types_is_made_one_that_a_server_takes():
    """A server refuses a list of types: it takes any value there."""
    schema = {"type": "object", "properties": {"factor": {"type": ["number", "string"]}, "names": {"type": "array", "items": {"type": ["string"]}}}}
    made = control_plane.structural(schema)
    assert made["properties"]["factor"] == made["properties"]["names"]["items"] == {"x-kubernetes-preserve-unknown-fields": True}
    assert made["type"] == "object" and made["properties"]["names"]["type"] == "array"


def test_what_was_not_stored_as_it_was_sent_is_found():
    sent = {"spec": {"env": [{"name": "a", "value": "1"}], "empty": {}, "kept": 2}}
    assert apply_questions.lost(sent, {"spec": {"env": [{"name": "a", "value": "1", "more": True}], "kept": 2, "more": 3}}) == []
    assert apply_questions.lost(sent, {"spec": {"env": [{"name": "a", "value": "2"}]}}) == [".spec.env[0].value", ".spec.kept"]
    assert apply_questions.lost(sent, {"spec": {"env": [], "kept": 2}}) == [".spec.env"]


def test_what_answers_for_rays_dashboards_knows_a_job_after_it_was_sent():
    dashboards = ThreadingHTTPServer(("127.0.0.1", 0), control_plane.Dashboard)
    threading.Thread(target=dashboards.serve_forever, daemon=True).start()
    proxy = urllib.request.ProxyHandler({"http": f"http://127.0.0.1:{dashboards.server_address[1]}"})
    ask = urllib.request.build_opener(proxy).open
    address = "http://a-head-svc.reverie.svc.cluster.local:8265/api"
    try:
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(f"{address}/jobs/one")
        sent = urllib.request.Request(f"{address}/jobs/", data=b'{"submission_id": "one"}', headers={"x-ray-authorization": "Bearer t"})
        assert json.load(ask(sent)) == {"submission_id": "one"}
        assert json.load(ask(f"{address}/jobs/one"))["status"] == "RUNNING"
        assert json.load(ask(f"{address}/serve/applications/?api_type=declarative"))["applications"]["manuals"]["status"] == "RUNNING"
    finally:
        dashboards.shutdown()
        dashboards.server_close()
    assert ("POST", "a-head-svc.reverie.svc.cluster.local:8265", "api/jobs/", "Bearer t") in control_plane.Dashboard.asked


def test_the_commands_that_are_run_are_in_the_documentation():
    """They are found in the text by a part of each: one for each part."""
    for part in ("delete statefulset", "delete pod -l ray.io/cluster=reverie", "for part in", "rollout undo"):
        assert len(control_plane.commands(part)) == 1, part


def test_the_pods_that_are_sent_are_valid():
    number = 0
    for documents in check.rendered().values():
        for document in documents:
            for pod in made_of(document):
                number += 1
                assert check.invalid(pod_questions.as_object(pod, number)) == [], f"{document['kind']} {pod.name}"
    assert number > 50


def test_certificates_fit_together(tmp_path):
    control_plane.certificates(tmp_path)
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
    servers = control_plane.Servers(folder)
    try:
        servers.control_plane()
        raise AssertionError("it started")
    except SystemExit as error:
        assert "exit code 3" in str(error) and "no such flag" in str(error)
    finally:
        servers.stop()
    assert [process.poll() is not None for process in servers.started] == [True, True]
