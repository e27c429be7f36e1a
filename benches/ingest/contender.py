"""The peer of `ingest`: the same pipeline as one writes it with LlamaIndex, sentence-transformers and Ray Data.

Documents are read by LlamaIndex's own readers, cut by its `SentenceSplitter`, embedded in an actor pool.
"""

import os
import sys
import tempfile
from pathlib import Path

import ray

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "chunks")]

BATCH = 64
# What the model takes, in both.
TOKENS = 256


def parse(row):
    """A file to documents: its pages, or the whole of it."""
    from llama_index.core import SimpleDirectoryReader

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / os.path.basename(row["path"])
        path.write_bytes(row["bytes"])
        documents = SimpleDirectoryReader(input_files=[path]).load_data()
    return [{"path": row["path"], "text": document.text} for document in documents]


class Chunk:
    """Documents to chunks. A class, so that the splitter and its tokenizer are made once per actor."""

    def __init__(self, chunk_size, chunk_overlap):
        import compare
        from llama_index.core.node_parser import SentenceSplitter
        from llama_index.core.utils import set_global_tokenizer

        set_global_tokenizer(compare.tokenizer())
        self.splitter = SentenceSplitter(chunk_size=chunk_size, chunk_overlap=chunk_overlap)

    def __call__(self, batch):
        found = [(path, text) for path, whole in zip(batch["path"], batch["text"]) for text in self.splitter.split_text(whole)]
        return {"path": [path for path, _ in found], "text": [text for _, text in found]}


class Embed:
    """Chunks to vectors."""

    def __init__(self, model):
        import peer

        self.model = peer.sentence_transformer(model, TOKENS)

    def __call__(self, batch):
        batch["vector"] = self.model.encode(list(batch["text"]), batch_size=BATCH // 2, show_progress_bar=False)
        return batch


def ingest(paths, target, model, chunk_size, chunk_overlap, actors):
    """The pipeline. Cutting takes milliseconds beside reading and embedding: one actor of it asks for no CPU."""
    made = ray.data.read_binary_files(paths, include_paths=True, override_num_blocks=len(paths))
    made = made.flat_map(parse)
    made = made.map_batches(Chunk, fn_constructor_args=(chunk_size, chunk_overlap), compute=ray.data.ActorPoolStrategy(size=1), num_cpus=0)
    made = made.map_batches(Embed, fn_constructor_args=(model,), compute=ray.data.ActorPoolStrategy(size=actors), batch_size=BATCH)
    made.write_parquet(target)
