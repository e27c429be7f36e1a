"""A query engine of LlamaIndex, as it is: Reverie calls its `query` and reads its source nodes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from llama_index.core.base.response.schema import Response
from llama_index.core.query_engine import CustomQueryEngine
from retrieval import extract, retriever


class Engine(CustomQueryEngine):
    """Retrieves by BM25, and answers with a sentence of what it found."""

    retriever: object

    def custom_query(self, query_str: str) -> Response:
        nodes = self.retriever.retrieve(query_str)
        texts = [node.node.get_content() for node in nodes]
        return Response(response=extract(query_str, texts), source_nodes=nodes)


engine = Engine(retriever=retriever())
