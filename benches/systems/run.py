#!/usr/bin/env python3
"""How much of a system's capacity a run uses: a system behind HTTP that answers in 100 ms and takes 16 calls at once.

    benches/systems/run.py [--questions 1600] [--reverie target/release/reverie]

The optimum is questions × 0.1 s / 16. Goodput is the optimum over the time from the first call to the last answer, as
the system itself saw them. Three rows: `concurrency = 16` is written in the file; it is left out, and the system refuses
the 17th call with 429; and a client of twenty lines with 16 connections, which knows the limit and does nothing else.
"""

import argparse
import asyncio
import json
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS, AT_ONCE = 0.1, 16


class System:
    """Answers a question after `SECONDS`; refuses what comes beyond `AT_ONCE`."""

    def __init__(self):
        self.forget()

    def forget(self):
        self.active = self.most = self.refused = self.answered = 0
        self.starts = []
        self.last = None

    async def serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = next((int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length")), 0)
                await reader.readexactly(length)
                self.starts.append(time.perf_counter())
                if self.active >= AT_ONCE:
                    self.refused += 1
                    status, body = "429 Too Many Requests", b'{"error": "too many at once"}'
                else:
                    self.active += 1
                    self.most = max(self.most, self.active)
                    await asyncio.sleep(SECONDS)
                    self.active -= 1
                    self.answered += 1
                    self.last = time.perf_counter()
                    status, body = "200 OK", b'{"answer": "Yes."}'
                head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def row(self, name, questions):
        seconds = self.last - self.starts[0]
        optimum = questions * SECONDS / AT_ONCE
        # The first question is asked alone, and the run begins when its reply can be read.
        alone = self.starts[1] - self.starts[0]
        return name, self.answered, self.refused, self.most, seconds, alone, optimum / seconds


def experiment(folder, port, questions, limit):
    (folder / "documents").mkdir(parents=True)
    (folder / "documents" / "a.md").write_text("# A mill\n\nThe mill was built in 1703.\n", encoding="utf-8")
    golden = [json.dumps({"id": f"q{i}", "question": f"Question {i}: is it so?", "reference": "Yes."}) for i in range(questions)]
    (folder / "golden.jsonl").write_text("\n".join(golden) + "\n", encoding="utf-8")
    (folder / "experiment.toml").write_text(
        f"""name = "goodput"
store = "store"
corpus.source = "documents"
dataset.path = "golden.jsonl"
systems.slow.http = {{ url = "http://127.0.0.1:{port}/ask"{limit} }}
evaluate.metrics = ["exact_match"]
""",
        encoding="utf-8",
    )


async def plain_client(port, questions):
    """Sixteen connections that take the next question as soon as they are free."""
    waiting = iter(range(questions))

    async def connection():
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in waiting:
            body = json.dumps({"question": f"Question {number}"}).encode()
            writer.write(f"POST /ask HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
        writer.close()

    await asyncio.gather(*(connection() for _ in range(AT_ONCE)))


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1600)
    parser.add_argument("--reverie", default=ROOT / "target" / "release" / "reverie")
    options = parser.parse_args()
    system = System()
    server = await asyncio.start_server(system.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    rows = []
    for name, limit in [("concurrency = 16", f", concurrency = {AT_ONCE}"), ("learned from refusals", "")]:
        system.forget()
        with tempfile.TemporaryDirectory() as folder:
            experiment(Path(folder) / "e", port, options.questions, limit)
            run = await asyncio.create_subprocess_exec(
                str(Path(options.reverie).absolute()), "run", cwd=Path(folder) / "e",
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            _, errors = await run.communicate()
            if run.returncode:
                raise SystemExit(errors.decode())
        rows.append(system.row(name, options.questions))
    system.forget()
    await plain_client(port, options.questions)
    rows.append(system.row("plain client, 16 connections", options.questions))
    print("| client | answered | refused | most at once | seconds | until the second call | goodput |\n|---|---|---|---|---|---|---|")
    for name, answered, refused, most, seconds, alone, goodput in rows:
        print(f"| {name} | {answered} | {refused} | {most} | {seconds:.2f} | {alone:.2f} | {goodput:.3f} |")


asyncio.run(main())
