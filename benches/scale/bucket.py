#!/usr/bin/env python3
"""A run whose documents and store are in S3, and a second one with nothing changed.

    .tools/cluster/bin/python benches/scale/bucket.py [--documents 100000] [--reverie target/release/reverie] [--work FOLDER] [--json FILE]

It needs the environment of `make cluster`, which has SeaweedFS; its server is started here, on loopback, and stopped by pid. The corpus
and the experiment are those of `run.py`. The server and the run share the cores of this machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples" / "cluster"), str(Path(__file__).parent)]

import servers  # noqa: E402
from process import measure  # noqa: E402
from run import RETRIEVERS, experiment, machine, options_of_one_size, prepared, say, tell  # noqa: E402

UPLOADS_AT_ONCE = 16


def upload(server: servers.S3, documents: Path) -> float:
    """Puts all documents into the bucket; returns how long it took."""
    import boto3

    client = boto3.client("s3", endpoint_url=server.url, aws_access_key_id=servers.ACCESS, aws_secret_access_key=servers.SECRET,
                          region_name="us-east-1")  # fmt: skip
    begin = time.monotonic()

    def put(path: Path) -> None:
        client.put_object(Bucket="scale", Key=f"documents/{path.relative_to(documents)}", Body=path.read_bytes())

    with ThreadPoolExecutor(UPLOADS_AT_ONCE) as pool:
        for _ in pool.map(put, (path for path in documents.rglob("*") if path.is_file())):
            pass
    return time.monotonic() - begin


def main() -> None:
    parser = options_of_one_size(__doc__)
    parser.add_argument("--reverie", type=Path, default=ROOT / "target" / "release" / "reverie")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        work, corpus = stack.enter_context(prepared(options))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rv", dir=work)))
        shutil.copy(corpus / "golden.jsonl", folder)
        text = experiment("scale", work / "model", RETRIEVERS)
        text = text.replace('"store"', '"s3://scale/store"').replace('"documents"', '"s3://scale/documents/"')
        (folder / "experiment.toml").write_text(text)
        server = stack.enter_context(servers.s3(folder / "s3", "scale"))
        told = {"machine": machine(), "documents": options.documents, "upload": round(upload(server, corpus / "documents"), 1)}
        say(f"{options.documents:,} documents in S3 after {told['upload']} s")
        for name in ("first run", "second run"):
            log = folder / name.replace(" ", "-")
            usage = measure([options.reverie, "run", "--json"], folder, log, options.limit, 20_000, {**os.environ, **server.environment})
            if usage.code:
                sys.exit(log.with_suffix(".err").read_text()[-3000:])
            told[name] = usage.as_dict()
            say(f"{name}: {usage.seconds:.1f} s, {usage.anonymous:,.0f} MB anonymous")
    tell(told, options.json)


if __name__ == "__main__":
    main()
