"""Anthropic's contextual retrieval: 737 chunks of code, and 248 questions with the chunks that answer them.

"Introducing Contextual Retrieval", 2024, and its cookbook. Pass@k is the share of a question's chunks that are among
the first k hits. The chunks are those of the data. BM25, all-MiniLM-L6-v2 and hybrid search all of them. Contexts are
written by a chat model of 0.5 billion parameters. It takes seconds for each chunk, so contexts are written only for the
smallest documents, which have at most `--chunks` chunks together.
"""

import gzip
import json

from study import MINILM, WRITER, Row, Study, component

STUDY = "Anthropic, contextual retrieval"
RANKS = (5, 10, 20)
# From their guide: Voyage embeddings, without contexts.
PUBLISHED = {"dense": (80.92, 87.15, 90.06)}
REASON = "published for Voyage's embeddings"
SUBSET_REASON = "a writer of 0.5 B parameters; published for Voyage and Claude 3 Haiku, all chunks: 80.92, 87.15, 90.06 without and 86.37, 92.81, 93.78 with contexts; with contextual BM25 86.43, 93.21, 94.99"


def load(folder):
    documents = json.loads(gzip.decompress((folder / "codebase_chunks.json.gz").read_bytes()))
    lines = gzip.decompress((folder / "evaluation_set.jsonl.gz").read_bytes()).decode().splitlines()
    return documents, [json.loads(line) for line in lines if line.strip()]


def places(document):
    """Start and end of each chunk, in characters of the document. The chunks are in order and do not overlap."""
    spans, at = [], 0
    for chunk in document["chunks"]:
        start = document["content"].index(chunk["content"], at)
        at = start + len(chunk["content"])
        spans.append((start, at))
    return spans


def run(options, name, documents, questions, space, models):
    """Runs an experiment on these documents. Returns Pass@k in percent for each pair of enricher and retriever, a value
    for each of `RANKS`, and the number of questions, which are those whose chunks are all in these documents."""
    study = Study(options, name)
    spans = {f"{document['doc_id']}.txt": places(document) for document in documents}
    files = {f"{document['doc_id']}.txt": document["content"] for document in documents}
    study.write_documents(files.items())
    (study.folder / "given.py").write_text(CHUNKER.format(spans=json.dumps(spans)))
    chunks = {}
    for document in documents:
        file = f"{document['doc_id']}.txt"
        for chunk, (start, end) in zip(document["chunks"], spans[file], strict=True):
            before = len(document["content"][:start].encode())
            span = {"start": before, "end": before + len(chunk["content"].encode())}
            chunks[document["original_uuid"], chunk["original_index"]] = {"document": file, "quote": document["content"][start:end], "span": span}
    golden = []
    for number, question in enumerate(questions):
        keys = [tuple(key) for key in question["golden_chunk_uuids"]]
        if all(key in chunks for key in keys):
            golden.append({"id": f"q{number:03}", "question": question["query"], "evidence": [chunks[key] for key in keys]})
    space = f'chunker = [{{ python = {{ file = "given.py" }} }}]\n{space}'
    passes = [f'{{ recall = {{ k = {k}, min_overlap = 1.0, name = "pass_{k}" }} }}' for k in RANKS]
    metrics = f"[{', '.join(passes)}]"
    results = study.run(golden, space, metrics, models)
    found = {}
    for trial in results["trials"]:
        means = [100 * trial["metrics"][f"pass_{k}"]["mean"] for k in RANKS]
        found[component(trial, "enrich")[0], component(trial, "retriever")[0]] = means
    return found, len(golden)


def rows(options):
    documents, questions = load(options.data / "contextual")
    top = f"top_k = {max(RANKS)}"
    retrievers = [f"{{ bm25 = {{ {top} }} }}"]
    if not options.no_models:
        retrievers += [f"{{ dense = {{ {top} }} }}", f"{{ hybrid = {{ {top}, candidates = 100 }} }}"]
    plain = f"retriever = [{', '.join(retrievers)}]" + ("" if options.no_models else '\nembedder = ["minilm"]')
    found, _ = run(options, "contextual", documents, questions, plain, [] if options.no_models else [MINILM])
    for (_, retriever), values in found.items():
        for at, k in enumerate(RANKS):
            known = PUBLISHED.get(retriever)
            yield Row(STUDY, f"{retriever}, all 737 chunks: Pass@{k}", known and known[at], values[at], REASON if known else "")
    if options.no_models:
        return
    few, chunks = [], 0
    for document in sorted(documents, key=lambda document: (len(document["content"]), document["doc_id"])):
        if chunks + len(document["chunks"]) > options.chunks:
            break
        few.append(document)
        chunks += len(document["chunks"])
    space = plain + '\nenrich = ["none", { contextual = { model = "writer" } }]'
    found, asked = run(options, "contextual-few", few, questions, space, [MINILM, WRITER])
    for (enrich, retriever), values in sorted(found.items(), key=lambda each: (each[0][1], each[0][0] != "none")):
        for at, k in enumerate(RANKS):
            with_contexts = "with contexts" if enrich == "contextual" else "without contexts"
            yield Row(STUDY, f"{retriever} {with_contexts}, {chunks} chunks, {asked} questions: Pass@{k}", None, values[at], SUBSET_REASON)


CHUNKER = '''"""The chunks of the data."""

import json

SPANS = json.loads({spans!r})


def chunk(text, path):
    return [tuple(span) for span in SPANS[path]]
'''
