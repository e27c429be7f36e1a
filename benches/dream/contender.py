"""The peer of `dream`: its grid as DREAM's third notebook runs it, with LlamaIndex, Ragas and Ray Tune of today.

    contender.py '{"address": …, "url": …, "corpus": …, "golden": …, "methods": […], "embedders": […], "models": […]}'

Each trial reads the golden questions, loads, cuts and embeds the documents, makes its query engine, asks it one
question after the other, hands all answers to `ragas.evaluate` and reports the means. Nothing is shared by trials.
What is left out, in its favour, stands in `benches/README.md`.
"""

import json
import math
import os
import sys
import time
from pathlib import Path

METHODS = ["hierarchical", "sentence_window", "basic"]
EMBEDDERS = ["text-embedding-3-small", "text-embedding-3-large"]
MODELS = ["gpt-4", "gpt-3.5-turbo"]
TOP_K = 3
JUDGE, JUDGE_EMBEDDER = "gpt-4o-mini", "text-embedding-3-small"


def query_engine(method, documents, embedder, model):
    """The three ways to retrieve."""
    from llama_index.core import StorageContext, VectorStoreIndex
    from llama_index.core.node_parser import (
        HierarchicalNodeParser,
        SentenceSplitter,
        SentenceWindowNodeParser,
        get_leaf_nodes,
    )
    from llama_index.core.postprocessor import MetadataReplacementPostProcessor
    from llama_index.core.query_engine import RetrieverQueryEngine
    from llama_index.core.retrievers import AutoMergingRetriever
    from llama_index.core.storage.docstore import SimpleDocumentStore

    if method == "hierarchical":
        nodes = HierarchicalNodeParser.from_defaults(chunk_sizes=[1024, 512, 256], chunk_overlap=20).get_nodes_from_documents(documents)
        store = SimpleDocumentStore()
        store.add_documents(nodes)
        storage = StorageContext.from_defaults(docstore=store)
        index = VectorStoreIndex(get_leaf_nodes(nodes), storage_context=storage, embed_model=embedder)
        retriever = AutoMergingRetriever(index.as_retriever(similarity_top_k=TOP_K), storage_context=storage)
        return RetrieverQueryEngine.from_args(retriever, llm=model)
    if method == "sentence_window":
        nodes = SentenceWindowNodeParser.from_defaults(window_size=3).get_nodes_from_documents(documents)
        whole = [MetadataReplacementPostProcessor(target_metadata_key="window")]
    else:
        nodes = SentenceSplitter(chunk_size=1024, chunk_overlap=200).get_nodes_from_documents(documents)
        whole = []
    index = VectorStoreIndex(nodes, embed_model=embedder)
    return index.as_query_engine(llm=model, similarity_top_k=TOP_K, node_postprocessors=whole)


def evaluated(rows, url):
    """Six scores of each row, by Ragas with its own settings."""
    import ragas
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings
    from ragas import metrics
    from ragas.embeddings import LangchainEmbeddingsWrapper
    from ragas.llms import LangchainLLMWrapper

    judge = ChatOpenAI(model=JUDGE, base_url=url, api_key="none")
    # Texts instead of token ids: the provider has no tokenizer.
    embedder = OpenAIEmbeddings(model=JUDGE_EMBEDDER, base_url=url, api_key="none", check_embedding_ctx_length=False)
    found = ragas.evaluate(
        ragas.EvaluationDataset.from_list(rows),
        metrics=[metrics.faithfulness, metrics.answer_relevancy, metrics.context_precision,
                 metrics.context_recall, metrics.answer_correctness, metrics.answer_similarity],
        llm=LangchainLLMWrapper(judge),
        embeddings=LangchainEmbeddingsWrapper(embedder),
        show_progress=False,
    )  # fmt: skip
    return found.scores


def trial(config):
    """One combination, from the files on."""
    began = time.monotonic()
    sys.path.append(config["chunks"])
    import compare
    from llama_index.core import SimpleDirectoryReader
    from llama_index.core.utils import set_global_tokenizer
    from llama_index.embeddings.openai import OpenAIEmbedding
    from llama_index.llms.openai import OpenAI
    from ray import tune

    # Its own encoding, without the download.
    set_global_tokenizer(compare.tokenizer())
    golden = [json.loads(line) for line in Path(config["golden"]).read_text().splitlines()]
    imported = time.monotonic()
    documents = SimpleDirectoryReader(config["corpus"]).load_data()
    loaded = time.monotonic()
    embedder = OpenAIEmbedding(model=config["embedder"], api_base=config["url"], api_key="none")
    model = OpenAI(model=config["model"], temperature=0.1, api_base=config["url"], api_key="none")
    engine = query_engine(config["method"], documents, embedder, model)
    indexed = time.monotonic()
    responses = [engine.query(question["question"]) for question in golden]
    answered = time.monotonic()
    rows = [
        {"user_input": question["question"], "reference": question["reference"], "response": response.response,
         "retrieved_contexts": [node.node.get_content() for node in response.source_nodes]}
        for question, response in zip(golden, responses, strict=True)
    ]  # fmt: skip
    scores = evaluated(rows, config["url"])
    ended = time.monotonic()
    known = {name: [row[name] for row in scores if not math.isnan(row[name])] for name in scores[0]}
    tune.report({
        "means": {name: sum(values) / len(values) if values else None for name, values in known.items()},
        "missing": sum(len(scores) - len(values) for values in known.values()),
        "values": len(scores) * len(known),
        "seconds": {"import": imported - began, "load": loaded - imported, "index": indexed - loaded,
                    "ask": answered - indexed, "evaluate": ended - answered},
    })  # fmt: skip


def main():
    """The grid; prints what each trial reported."""
    given = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    import ray
    from ray import tune

    ray.init(address=given["address"], log_to_driver=False, logging_level="error")
    space = {
        "method": tune.grid_search(given.get("methods", METHODS)),
        "embedder": tune.grid_search(given.get("embedders", EMBEDDERS)),
        "model": tune.grid_search(given.get("models", MODELS)),
        **{name: given[name] for name in ("url", "corpus", "golden")},
        "chunks": str(Path(__file__).resolve().parents[1] / "chunks"),
    }
    results = tune.Tuner(trial, param_space=space, run_config=tune.RunConfig(storage_path=given["results"], verbose=0)).fit()
    if results.errors:
        sys.exit(f"trials failed: {results.errors[0]}")
    trials = [{name: result.config[name] for name in ("method", "embedder", "model")} | {
        name: result.metrics[name] for name in ("means", "missing", "values", "seconds")} for result in results]  # fmt: skip
    print(json.dumps(trials), file=answers)
    ray.shutdown()


if __name__ == "__main__":
    main()
