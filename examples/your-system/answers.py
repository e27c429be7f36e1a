"""Writes the answers of a system as a file in the form of Ragas' datasets, for those who have only that."""

import json
import sys
from pathlib import Path

from retrieval import CORPUS, extract, retriever

search = retriever(top_k=2, chunk_size=512)
with Path(sys.argv[1]).open("w", encoding="utf-8") as file:
    for line in (CORPUS.parent / "golden.jsonl").read_text(encoding="utf-8").splitlines():
        question = json.loads(line)["question"]
        contexts = [node.node.get_content() for node in search.retrieve(question)]
        row = {"user_input": question, "response": extract(question, contexts), "retrieved_contexts": contexts}
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
