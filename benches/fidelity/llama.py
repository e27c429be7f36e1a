"""LlamaIndex beside `crates/rag`: chunks, what is written beside them, queries, rankings, fusion, merges, and what
becomes of hits.

Both sides count tokens with the same cl100k ranks and are given the same
vectors, made from hashes of words, and the same replies of a chat model, so that no model is in question.
"""

import contextlib
import io
import logging

import compare
import contexts
import enriching
import fusing
import parsers
import refining
import retrievers
import writing
from llama_index.core import Settings
from llama_index.core.llms import MockLLM
from llama_index.core.utils import set_global_tokenizer
from outcome import Table
from reasons_llama import DIFFERENCES
from reasons_stages import STAGES


def run(process, texts, say):
    set_global_tokenizer(compare.tokenizer())
    Settings.embed_model, Settings.llm = retrievers.Known(), MockLLM()
    logging.getLogger("llama_index").setLevel(logging.ERROR)
    logging.getLogger("bm25s").setLevel(logging.ERROR)
    table = Table("LlamaIndex 0.14.25", DIFFERENCES | STAGES)
    for part in (
        parsers.chunks,
        parsers.with_metadata,
        enriching.semantic,
        enriching.extractors,
        contexts.windows,
        contexts.merges,
        retrievers.rankings,
        fusing.distributions,
        writing.queries,
        writing.filters,
        refining.postprocessors,
    ):
        say(f"LlamaIndex: {part.__name__}")
        # It prints a warning for every parser of small chunks.
        with contextlib.redirect_stdout(io.StringIO()):
            part(table, process, texts)
    return table
