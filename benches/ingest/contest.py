"""Both sides of `ingest` in turns on one Ray cluster: for each line of JSON on standard input, one is answered.

    contest.py MODEL_FOLDER SCRATCH_FOLDER CORPUS_FOLDER      {"side": "ours" or "theirs", "files": [NAME, ...]}
"""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent), str(ROOT / "examples" / "cluster")]

NODES = 3
ACTORS = 2
CHUNK_SIZE, CHUNK_OVERLAP = 128, 16


def rows(folder):
    """What is there: chunks, their vectors, bytes of text."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    tables = [pq.read_table(path) for path in sorted(Path(folder).glob("*.parquet"))]
    chunks = sum(table.num_rows for table in tables)
    assert all(table["vector"].null_count == 0 for table in tables)
    return {"chunks": chunks, "bytes": sum(pc.sum(pc.binary_length(table["text"])).as_py() for table in tables)}


def main():
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    model, scratch, source = sys.argv[1:]
    import ray
    import servers

    # Workers of the peer import its module, and ours the wheel's.
    modules = [str(HERE), str(HERE.parent), str(HERE.parent / "chunks"), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, modules)), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with tempfile.TemporaryDirectory(prefix="rv") as folder, servers.ray(Path(folder), nodes=NODES, environment=environment) as cluster:
        ray.init(address=cluster.address, namespace="reverie", logging_level="error", log_to_driver=False)
        ray.data.DataContext.get_current().enable_progress_bars = False
        import contender
        from reverie.ray import Parquet, ingest

        print(json.dumps({"ready": True}), file=answers)
        for line in sys.stdin:
            turn, target = json.loads(line), Path(scratch) / "made"
            names = turn["files"]
            shutil.rmtree(target, ignore_errors=True)
            started = time.monotonic()
            if turn["side"] == "ours":
                chunker = {"sentence": {"chunk_size": CHUNK_SIZE, "chunk_overlap": CHUNK_OVERLAP}}
                made = ingest(
                    source, Parquet(str(target)), include=names, chunker=chunker, embedder=Path(model).name, actors=ACTORS
                )
                if made.rejected:
                    sys.exit(f"rejected: {made.rejected}")
            else:
                contender.ingest([f"{source}/{name}" for name in names], str(target), model, CHUNK_SIZE, CHUNK_OVERLAP, ACTORS)
            seconds = time.monotonic() - started
            print(json.dumps({"seconds": seconds, "documents": len(names), **rows(target)}), file=answers)
        ray.shutdown()


if __name__ == "__main__":
    main()
