"""Everything that a cluster would get, applied to a real kube-apiserver on this machine: `make deploy-server`.

check.py reads the manifests; a server also decides. It applies defaults, runs admission (the Pod Security Standard of the
namespace), and says whether a second apply conflicts with what others wrote in between. Nothing is downloaded; these
variables name the binaries:

    ETCD, KUBE_APISERVER          needed; without them everything is skipped
    KUBE_CONTROLLER_MANAGER       optional: makes accounts, ReplicaSets and pods, and deletes namespaces
    KUBERAY_OPERATOR              optional: makes the Ray clusters' pods
    OPERATORS                     optional: a folder with kuberay, argo-workflows and argo-events at the tags of
                                  docs/kubernetes.md, whose commands are run on these copies
    DEFINITIONS                   optional: a folder with more CustomResourceDefinitions of others; what it does not
                                  have is made from deploy/schemas

Servers listen on 127.0.0.1 alone, at free ports, with certificates made for this run, in a temporary folder. They are
stopped by their process ids. There is no node: pods are admitted, and never run. Argo's pods are written as its
controller would write them. What KubeRay's operator asks of Ray's dashboards is answered here.

The servers are in control_plane.py, the questions in apply_questions.py and pod_questions.py; `main` asks them in order.

    KUBE_APISERVER=… ETCD=… .tools/deploy/bin/python deploy/server.py
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from pathlib import Path

import check
from apply_questions import by_argo_cd, each_overlay, everything_at_once, releases, rights, started
from control_plane import HERE, Report, Servers, objects, prepare, said, start_operator, versions
from pod_questions import admit_all, exit_codes, ray, real_pods


def main() -> int:
    """See the module."""
    missing = [name for name in ("ETCD", "KUBE_APISERVER") if not os.environ.get(name)]
    if missing:
        # `make test` counts it by this line.
        print(f"test result: 1 skipped: {' and '.join(missing)} must name the binaries of the servers (deploy/server.py)")
        return 0
    everything, report, version = check.rendered(), Report(), "?"
    # SIGTERM runs the `finally` below too, so that no server is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with tempfile.TemporaryDirectory(prefix="reverie-server-") as folder:
        servers = Servers(Path(folder))
        try:
            servers.control_plane()
            version = versions(servers)
            prepare(servers, report)
            if os.environ.get("KUBERAY_OPERATOR"):
                start_operator(servers)
            if os.environ.get("OPERATORS"):
                by_argo_cd(servers, report, everything)
            each_overlay(servers, report, everything)
            everything_at_once(servers, report, everything)
            admit_all(servers, report, everything)
            rights(servers, report)
            started(servers, report, everything)
            if os.environ.get("KUBERAY_OPERATOR"):
                ray(servers, report, everything)
            if os.environ.get("KUBE_CONTROLLER_MANAGER"):
                real_pods(servers, report)
                exit_codes(servers, report)
            releases(servers, report)
            said(servers, report, "for part in")
            report.expect_value("secrets after the parts were deleted", len(objects(servers, *HERE, "secret", "reverie-s3")), 1)
        finally:
            servers.stop()
    print("\n\n".join(report.refused), end="\n" if report.refused else "")
    print(f"{report.tried} questions to kube-apiserver {version}: {len(report.refused)} answers that were not as expected")
    print(f"test result: {report.tried - len(report.refused)} passed; {len(report.refused)} failed")
    return 1 if report.refused else 0


if __name__ == "__main__":
    sys.exit(main())
