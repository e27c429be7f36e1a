"""Prints as JSON what Weights & Biases and Trackio hold of a run, read by their own code.

Arguments: the run's folder, the project, the run's id."""

import glob
import json
import os
import struct
import sys

folder, project, run = sys.argv[1:]


def records(path):
    """The records of a `.wandb` file: a log in blocks of 32 KB, whose records are the package's messages."""
    from wandb.proto import wandb_internal_pb2 as messages

    with open(path, "rb") as file:
        data = file.read()
    assert data[:4] == b":W&B", data[:8]
    at, whole = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, size, kind = struct.unpack("<IHB", data[at : at + 7])
        whole += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # the whole of a record, or its last part
            record = messages.Record()
            record.ParseFromString(whole)
            whole = b""
            yield record


def nested(items):
    """Values by their keys; a key may be a path."""
    values = {}
    for item in items:
        path = list(item.nested_key) or [item.key]
        place = values
        for name in path[:-1]:
            place = place.setdefault(name, {})
        place[path[-1]] = json.loads(item.value_json)
    return values


def weights_and_biases():
    folders = glob.glob(os.path.join(folder, "wandb", "offline-run-*"))
    found = {"folders": len(folders), "history": [], "summary": {}, "exit_code": None}
    for record in records(glob.glob(os.path.join(folders[-1], "*.wandb"))[0]) if folders else ():
        kind = record.WhichOneof("record_type")
        if kind == "run":
            found |= {"id": record.run.run_id, "project": record.run.project, "tags": list(record.run.tags)}
            found["config"] = nested(record.run.config.update)
        elif kind == "history":
            found["history"].append(nested(record.history.item))
        elif kind == "summary":
            found["summary"] |= nested(record.summary.update)
        elif kind == "exit":
            found["exit_code"] = record.exit.exit_code
    for table in glob.glob(os.path.join(folders[-1], "files", "media", "table", "*.json")) if folders else ():
        with open(table, encoding="utf-8") as file:
            found["table"] = json.load(file)
    return found


def trackio():
    from trackio import Api
    from trackio.sqlite_storage import SQLiteStorage

    runs = [other for other in Api().runs(project) if other.name == run]
    history = SQLiteStorage.get_logs(project, run)
    return {"runs": len(runs), "config": runs[0].config, "history": history}


print(json.dumps({"wandb": weights_and_biases(), "trackio": trackio()}, default=str))
