"""LangChain beside `crates/rag`: retrievers, compressors and transformers, with the same hits and replies."""

import random
import re

from given import retriever, same_ranking
from langchain.chains import HypotheticalDocumentEmbedder
from langchain.chains.history_aware_retriever import create_history_aware_retriever
from langchain.retrievers import EnsembleRetriever, MultiQueryRetriever
from langchain.retrievers.document_compressors import LLMChainExtractor, LLMListwiseRerank
from langchain.retrievers.multi_vector import MultiVectorRetriever
from langchain_community.document_transformers import EmbeddingsRedundantFilter, LongContextReorder
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.language_models import FakeListChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, PromptTemplate
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langchain_core.stores import InMemoryStore
from langchain_core.vectorstores import VectorStore
from outcome import Table
from reasons_langchain import (
    BETTER_GOES,
    CONTAINED,
    DIFFERENCES,
    GAPS,
    MIRRORED,
    NOT_AS_ASKED,
    NOTHING_HELPS,
    NOTHING_WRITTEN,
    ON_ONE_LINE,
    PASSAGE_ALONE,
    REPEATS_QUESTION,
    TIES,
    TWICE,
    UNION,
    UNNAMED_GO,
)
from refining import some
from retrievers import by_row, unit
from searched import Searched, meaning, meanings, own_rows, reciprocal
from told import Structured, outcome, tell
from writing import ask, found, new, question, wordings

LISTS, QUESTIONS, TOP = 300, 240, 6


class Meanings(Embeddings):
    def embed_documents(self, texts):
        return meanings(texts)

    def embed_query(self, text):
        return meaning(text)


class Nearest(BaseRetriever):
    """Finds what it is told to find for a text."""

    find: object

    def _get_relevant_documents(self, query, *, run_manager):
        return self.find(query)


def run(process, texts, say):
    table = Table("LangChain 0.3.30", DIFFERENCES)
    side = Searched(process, some(texts, 20), 96)
    side.index()
    for part in (orders, copies, fusions, several, passages, conversations, rankings):
        say(f"LangChain: {part.__name__}")
        part(table, side)
    say("LangChain: parents, extracts")
    parents(table, process, texts)
    extracts(table, process, texts)
    return table


def document(side, at):
    return Document(page_content=side.chunks[at]["text"], metadata={"row": at})


def rows_of(documents):
    return [document.metadata["row"] for document in documents]


def orders(table, side):
    draw = random.Random(51)
    lists = [side.draw(draw, 12) for _ in range(LISTS)]
    row = table.row("LongContextReorder", "lists of hits")
    for pairs, ours in zip(lists, side.refined(["long_context_reorder"], lists)):
        theirs = rows_of(LongContextReorder().transform_documents([document(side, at) for at, _ in pairs]))
        mirrored = theirs if len(pairs) % 2 else theirs[::-1]
        row.compare(f"{len(pairs)} hits", [at for at, _ in own_rows(ours)], theirs, [(MIRRORED, mirrored)])


def copies(table, side):
    """Lists with copies of a text and with parts of it."""
    draw = random.Random(52)
    process = side.process
    row = table.row("EmbeddingsRedundantFilter: dedupe", "lists of hits")
    texts = [" ".join(chunk["text"].split()) for chunk in side.chunks]
    texts = [text for text in texts if 8 < len(text.split()) < 60 and len(text) < 500]
    kinds = [str, str, str, lambda text: text.replace(" ", "\n", 2), lambda text: " ".join(text.split()[1:-1])]
    lists = []
    for _ in range(LISTS):
        own = draw.sample(texts, draw.randint(2, 5))
        changed = [draw.choice(kinds)(draw.choice(own)) for _ in range(draw.randint(0, 4))]
        lists.append(draw.sample(own + changed, len(own + changed)))
    listed = [{"path": f"{i}/{j}", "text": text} for i, own in enumerate(lists) for j, text in enumerate(own)]
    settings = {"chunk_size": 100_000, "chunk_overlap": 0}
    process.ask({"chunk": {"chunker": {"sentence": settings}, "documents": listed}})
    first = 0
    for own in lists:
        pairs = [(first + j, 1 / (j + 1)) for j in range(len(own))]
        first += len(own)
        (ours,) = side.refined(["dedupe"], [pairs])
        documents = [Document(page_content=text, metadata={"row": at}) for text, (at, _) in zip(own, pairs)]
        # Of copies alone is the cosine so close to 1.
        redundant = EmbeddingsRedundantFilter(embeddings=Meanings(), similarity_threshold=0.9999)
        theirs = rows_of(redundant.transform_documents(documents))
        plain = [" ".join(text.split()) for text in own]
        better = [pairs[plain.index(plain[at - pairs[0][0]])][0] for at in theirs]
        better = sorted(better)
        kept = [at for at in better if not any(plain[at - pairs[0][0]] in plain[other - pairs[0][0]]
                                               for other in better if other < at)]  # fmt: skip
        row.compare(
            f"{len(own)} texts", [at for at, _ in own_rows(ours)], theirs, [(BETTER_GOES, better), (CONTAINED, kept)]
        )
    # The chunks of the others again.
    side.__init__(process, side.texts, 96)
    side.index()


def fusions(table, side):
    """EnsembleRetriever over what our two retrievers found."""
    draw = random.Random(53)
    row = table.row("EnsembleRetriever 59: hybrid rrf 60", "questions")
    texts = [question(side, draw, 8) for _ in range(QUESTIONS)]
    queries = [{"text": text, "vector": meaning(text)} for text in texts]

    def ours(kind, **settings):
        hits = side.process.ask({"retrieve": {"retriever": retriever(kind, **settings), "queries": queries}})["hits"]
        return [[(hit["row"], hit["score"]) for hit in one] for one in hits]

    both = ours("dense", top_k=20), ours("bm25", top_k=20)
    for text, dense, bm25, mine in zip(texts, *both, ours("hybrid", top_k=TOP, candidates=20)):
        given = [Nearest(find=lambda _, hits=hits: [document(side, at) for at, _ in hits]) for hits in (dense, bm25)]

        # Its ranks begin with 1 and ours with 0, which its constant makes up for.
        ensemble = EnsembleRetriever(retrievers=given, weights=[0.5, 0.5], c=59, id_key="row")
        settled = [at for at, _ in reciprocal((dense, bm25), TOP)]
        row.compare(text, [at for at, _ in mine], rows_of(ensemble.invoke(text))[:TOP], [(TIES, settled)])


def several(table, side):
    """MultiQueryRetriever: the union of what several wordings find."""
    draw = random.Random(54)
    row = table.row("MultiQueryRetriever: multi_query", "questions")
    nearest = Nearest(find=lambda text: [document(side, at) for at, _ in side.nearest(text, TOP)])
    for _ in range(QUESTIONS):
        asked = question(side, draw)
        others = wordings(side, draw, asked, 3)

        def union(lines, asked=asked):
            model = FakeListChatModel(responses=["\n".join(lines)])
            retriever = MultiQueryRetriever.from_llm(nearest, model, include_original=True)
            return rows_of(retriever.invoke(asked))

        usable = others if len(others) <= 3 else []
        fresh = new(asked, usable)
        joined = [at for at, _ in reciprocal([side.nearest(text, TOP) for text in [asked, *fresh]], TOP)]
        steps = [(NOT_AS_ASKED, union(usable)), (REPEATS_QUESTION, union(fresh)), (UNION, joined)]
        written = ask(side.process, {"multi_query": {"model": "chat"}}, asked, {"queries": others})
        row.compare(asked, [at for at, _ in found(side.process, written)], union(others), steps)


def passages(table, side):
    """HypotheticalDocumentEmbedder: what is found with the vector that it makes."""
    draw = random.Random(55)
    row = table.row("HypotheticalDocumentEmbedder: hyde, n 1", "questions")
    for _ in range(QUESTIONS):
        asked = question(side, draw)
        text = side.chunks[draw.randrange(len(side.chunks))]["text"]
        reply = draw.choice([" ".join(text.split()), text, f"\n{text}\n\n", asked, "...", " \n"])
        embedder = HypotheticalDocumentEmbedder.from_llm(
            FakeListChatModel(responses=[reply]), Meanings(), custom_prompt=PromptTemplate.from_template("{question}")
        )

        def nearest(vector):
            return by_row(list(enumerate((side.matrix @ unit(vector)).tolist())))[:TOP]

        theirs = embedder.embed_query(asked)
        says = any(c.isalnum() for c in reply)
        plain = theirs if says else meaning(asked)
        mean = unit(plain) + unit(meaning(asked))
        steps = [(NOTHING_WRITTEN, nearest(plain)), (PASSAGE_ALONE, nearest(mean))]
        written = ask(side.process, {"hyde": {"model": "chat", "n": 1}}, asked, reply)
        row.compare(asked, found(side.process, written), nearest(theirs), steps, same_ranking)


def conversations(table, side):
    """A history-aware retriever: the question that it hands on."""
    draw = random.Random(56)
    row = table.row("create_history_aware_retriever: condense", "questions")
    for _ in range(QUESTIONS):
        asked, alone = question(side, draw), question(side, draw, 9)
        alone = draw.choice([alone, alone, f" {alone}\n", alone.replace(" ", "\n", 1), asked, "", "..."])
        history = [question(side, draw) for _ in range(draw.choice([0, 1, 2, 3]))]
        handed = []
        retriever = create_history_aware_retriever(
            FakeListChatModel(responses=[alone]),
            RunnableLambda(lambda text, handed=handed: handed.append(text) or []),
            ChatPromptTemplate.from_messages([("placeholder", "{chat_history}"), ("human", "{input}")]),
        )
        messages = [(HumanMessage, AIMessage)[i % 2](text) for i, text in enumerate(history)]
        retriever.invoke({"input": asked, "chat_history": messages})
        (theirs,) = handed
        said = theirs if any(c.isalnum() for c in theirs) else asked
        steps = [(NOTHING_WRITTEN, said), (ON_ONE_LINE, " ".join(said.split()) if history else said)]
        turns = [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(history)]
        written = ask(side.process, {"condense": {"model": "chat"}}, asked, {"question": alone}, history=turns)
        row.compare(asked, written["queries"][0]["text"], theirs, steps)


def rankings(table, side):
    """LLMListwiseRerank, with numbers that are forgotten, repeated or invented."""
    draw = random.Random(57)
    row = table.row("LLMListwiseRerank: listwise", "lists of hits")
    for _ in range(LISTS):
        pairs = side.draw(draw, 8)
        n, top = len(pairs), draw.choice([3, 8])
        named = draw.sample(range(n), draw.randint(0, n) if draw.random() < 0.5 else n)
        kind = draw.choice(["plain"] * 4 + ["twice", "invented"])
        if kind == "twice" and 0 < len(named) < n:
            named.append(named[0])
        if kind == "invented" and len(named) < n:
            named.append(n)
        rerank = LLMListwiseRerank.from_llm(llm=Structured(ranked_document_ids=named), top_n=n + 2)
        documents = [document(side, at) for at, _ in pairs]
        work = lambda rerank=rerank, documents=documents: rows_of(rerank.compress_documents(documents, "?"))  # noqa: E731
        theirs = outcome(work, IndexError)
        usable = [] if isinstance(theirs, str) else theirs
        once = list(dict.fromkeys(usable))
        whole = [*once, *(at for at, _ in pairs if at not in once)]
        cut = lambda value: value if isinstance(value, str) else value[:top]  # noqa: E731
        # One hit has one order: no model is asked.
        steps = [(NOT_AS_ASKED, cut(usable)), (TWICE, cut(once)), (UNNAMED_GO, cut(whole))]
        tell(side.process, {"ranking": [i + 1 for i in named]})
        (ours,) = side.staged("rerank", {"listwise": {"model": "chat", "top_n": top}}, [pairs])
        row.compare(f"{n} hits, {named}", [at for at, _ in own_rows(ours)], cut(theirs), steps)


class Children(VectorStore):
    """Finds the children that it is told to find."""

    def __init__(self, documents):
        self.documents = documents

    def similarity_search(self, query, k=4, **_):
        return self.documents

    @classmethod
    def from_texts(cls, *_, **__):
        raise NotImplementedError


def parents(table, process, texts):
    """MultiVectorRetriever, which ParentDocumentRetriever is made of: the parents of found children."""
    texts = {name: text for name, text in some(texts).items() if len(text) > 1500}
    listed = [{"path": name, "text": text} for name, text in texts.items()]
    chunker = {"hierarchical": {"chunk_sizes": [256, 64], "chunk_overlap": 0, "merge_threshold": 1.0}}
    chunks = process.ask({"chunk": {"chunker": chunker, "documents": listed}})["chunks"]
    place = lambda chunk: (chunk["document"], chunk["span"]["start"], chunk["span"]["end"])  # noqa: E731
    firsts = {}
    for at, chunk in enumerate(chunks):
        firsts.setdefault(chunk["document"], at)
    store = InMemoryStore()
    store.mset([(f"{at}", Document(page_content=chunk["text"], metadata={"row": at}))
                for at, chunk in enumerate(chunks) if chunk["parent"] is None])  # fmt: skip
    leaves = [at for at, chunk in enumerate(chunks) if chunk["searchable"] and chunk["parent"] is not None]
    draw = random.Random(58)
    row = table.row("MultiVectorRetriever: parents", "lists of hits")
    for _ in range(LISTS):
        start = draw.randrange(len(leaves))
        picked = leaves[start : start + 6] + draw.sample(leaves, 4)
        picked = list(dict.fromkeys(draw.sample(picked, draw.randint(1, len(picked)))))
        hits = [{"row": at, "score": 1 / (i + 1)} for i, at in enumerate(picked)]
        # The chunker merges by itself what lies close together, which is compared with LlamaIndex.
        if [passage["rows"] for passage in process.ask({"context": {"hits": [hits]}})["passages"][0]] != [
            [at] for at in picked
        ]:
            continue
        parent = lambda at: firsts[chunks[at]["document"]] + chunks[at]["parent"]  # noqa: E731
        children = [Document(page_content=chunks[at]["text"], metadata={"doc_id": f"{parent(at)}"}) for at in picked]
        retriever = MultiVectorRetriever(vectorstore=Children(children), docstore=store)
        theirs = [place(chunks[at]) for at in rows_of(retriever.invoke("?"))]
        (ours,) = process.ask({"refine": {"refine": ["parents"], "lists": [{"text": "?", "hits": hits}]}})["passages"]
        row.compare(f"{picked}", [place(passage) for passage in ours], theirs)


def extracts(table, process, texts):
    """LLMChainExtractor: the model gives the sentences that help, by their text there and by their numbers here."""
    prose = {name: re.sub(r"\s+", " ", text)[:4000] for name, text in texts.items() if name.startswith("prose/")}
    side = Searched(process, prose, 160)
    draw = random.Random(59)
    row = table.row("LLMChainExtractor: extract", "lists of hits")
    for _ in range(LISTS // 2):
        pairs = side.draw(draw, 4)
        share = draw.choice([0, 0.2, 0.6, 1])
        chosen = []

        def chat(asked, share=share, chosen=chosen):
            numbered = re.findall(r"^(\d+): (.*)$", asked["messages"][1]["content"], re.MULTILINE)
            helps = [(int(number), text) for number, text in numbered if draw.random() < share]
            chosen.append(helps)
            return {"text": f'{{"sentences": {[number for number, _ in helps]}}}'}

        process.chat = chat
        (ours,) = side.refined([{"extract": {"model": "chat"}}], [pairs])
        replies = [" ".join(text for _, text in sentences) or "NO_OUTPUT" for sentences in chosen]
        extractor = LLMChainExtractor.from_llm(FakeListChatModel(responses=replies))
        documents = [document(side, at) for at, _ in pairs]
        theirs = [(d.metadata["row"], d.page_content) for d in extractor.compress_documents(documents, "?")]
        whole = {at: side.chunks[at]["text"] for at, _ in pairs}
        helps = theirs or [(pairs[0][0], whole[pairs[0][0]])]
        shown = {at: as_it_stands(whole[at], sentences) for (at, _), sentences in zip(pairs, chosen)}
        gaps = [(at, shown[at] or text) for at, text in helps]
        mine = [(passage["rows"][0], passage["text"]) for passage in ours]
        row.compare(f"{len(pairs)} hits", mine, theirs, [(NOTHING_HELPS, helps), (GAPS, gaps)])


def as_it_stands(text, sentences):
    """Sentences of a text as they stand in it, with a mark where others were left out between them."""
    shown, end, last = "", 0, None
    for number, sentence in sentences:
        start = text.index(sentence, end)
        if last is not None:
            shown += text[end:start] if number == last + 1 else " … "
        shown, end, last = shown + sentence, start + len(sentence), number
    return shown
