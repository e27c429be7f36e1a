"""What becomes of found chunks: LlamaIndex' node postprocessors beside our refine steps."""

import random

from given import same_ranking
from llama_index.core.postprocessor import (
    LongContextReorder,
    PrevNextNodePostprocessor,
    SentenceEmbeddingOptimizer,
    SimilarityPostprocessor,
)
from llama_index.core.postprocessor.rankGPT_rerank import RankGPTRerank
from llama_index.core.schema import QueryBundle
from llama_index.core.storage.docstore import SimpleDocumentStore
from reasons_stages import (
    BEST_STAYS,
    MIRRORED,
    NEIGHBOURS_APART,
    NO_SENTENCE,
    NOT_AS_ASKED,
    SENTENCES_AGAIN,
    SORTED_AGAIN,
)
from searched import Meaning, Searched, meaning, meanings, own_rows, rows
from told import Told, tell

LISTS = 300
# What Unicode calls white space; Python's `strip` takes four characters more.
BLANK = "".join(c for c in map(chr, range(0x3001)) if c.isspace() and c not in "\x1c\x1d\x1e\x1f")


def some(texts, every=4):
    kept = [name for i, name in enumerate(texts) if not name.startswith("real/") or i % every == 0]
    return {name: texts[name][:6000] for name in kept}


def postprocessors(table, process, texts):
    side = Searched(process, some(texts), 64)
    thresholds(table, side)
    orders(table, side)
    neighbours(table, side)
    neighbours(table, Searched(process, some(texts), 64, 24), ", overlapping chunks")
    sentences(table, Searched(process, some(texts), 128))
    rankings(table, Searched(process, some(texts), 64))


def thresholds(table, side):
    draw = random.Random(11)
    for keep in (0, 1):
        shown = "as it comes" if keep else "keep 0"
        row = table.row(f"SimilarityPostprocessor, threshold {shown}", "lists of hits")
        for _ in range(40):
            lists = [side.draw(draw) for _ in range(8)]
            least = draw.choice([draw.choice(draw.choice(lists))[1], 0.5, 0.9375])
            settings = {"least": least} | ({} if keep else {"keep": 0})
            cut = SimilarityPostprocessor(similarity_cutoff=least)
            for pairs, ours in zip(lists, side.refined([{"threshold": settings}], lists)):
                theirs = rows(cut.postprocess_nodes(side.hits(pairs)))
                steps = [(BEST_STAYS, theirs or pairs[:1])] if keep else []
                row.compare(f"{len(pairs)} hits, {least}", own_rows(ours), theirs, steps, same_ranking)


def orders(table, side):
    draw = random.Random(12)
    lists = [side.draw(draw, 12, distinct=i % 3 > 0) for i in range(LISTS)]
    row = table.row("LongContextReorder", "lists of hits")
    for pairs, ours in zip(lists, side.refined(["long_context_reorder"], lists)):
        theirs = rows(LongContextReorder().postprocess_nodes(side.hits(pairs)))
        # The same list where no two scores are equal.
        falling = [(at, -float(rank)) for rank, (at, _) in enumerate(pairs)]
        scores = dict(pairs)
        as_given = [(at, scores[at]) for at, _ in rows(LongContextReorder().postprocess_nodes(side.hits(falling)))]
        mirrored = as_given if len(pairs) % 2 else as_given[::-1]
        steps = [(SORTED_AGAIN, as_given), (MIRRORED, mirrored)]
        row.compare(f"{len(pairs)} hits", own_rows(ours), theirs, steps, same_ranking)


def neighbours(table, side, label=""):
    draw = random.Random(13)
    store = SimpleDocumentStore()
    store.add_documents(side.nodes)
    place = [(chunk["document"], chunk["span"]["start"], chunk["span"]["end"]) for chunk in side.chunks]
    for n in (1, 2):
        row = table.row(f"PrevNextNodePostprocessor, {n} on both sides{label}", "lists of hits")
        lists = [side.draw(draw) for _ in range(LISTS)]
        add = PrevNextNodePostprocessor(docstore=store, num_nodes=n, mode="both")
        for pairs, ours in zip(lists, side.refined([{"neighbours": {"chunks": n}}], lists)):
            found = [at for at, _ in rows(add.postprocess_nodes(side.hits(pairs)))]
            joined = in_stretches(sorted(found), pairs, place)
            mine = [((p["document"], p["span"]["start"], p["span"]["end"]), p["score"]) for p in ours]
            apart = [(place[at], dict(pairs).get(at, 0.0)) for at in found]
            row.compare(f"{len(pairs)} hits", mine, apart, [(NEIGHBOURS_APART, joined)], same_ranking)


def in_stretches(found, pairs, place):
    """Chunks that follow each other or overlap as one, in the place of the best of the hits among them and with its score."""
    rank = {at: i for i, (at, _) in enumerate(pairs)}
    stretches = []
    for at in found:
        last = stretches[-1] if stretches else [at]
        touches = last[-1] == at - 1 or place[at][1] <= max(place[other][2] for other in last)
        if stretches and place[last[0]][0] == place[at][0] and touches:
            stretches[-1].append(at)
        else:
            stretches.append([at])
    stretches.sort(key=lambda stretch: min(rank[at] for at in stretch if at in rank))
    score = lambda stretch: max(score for at, score in pairs if at in stretch)  # noqa: E731
    reach = lambda stretch: (*place[stretch[0]][:2], max(place[at][2] for at in stretch))  # noqa: E731
    return [(reach(stretch), score(stretch)) for stretch in stretches]


class Marked(Meaning):
    """The same vectors for texts that begin with a mark."""

    def _get_text_embedding(self, text):
        return meaning(text.split("\x01", 1)[-1])

    def _get_text_embeddings(self, texts):
        return [self._get_text_embedding(text) for text in texts]


def sentences(table, side):
    """Of each sentence, whether it stays; the borders of sentences are ours on both sides."""
    draw = random.Random(14)
    words = sorted({word for chunk in side.chunks for word in chunk["text"].split()})
    for n in (0, 1):
        row = table.row(f"SentenceEmbeddingOptimizer, {n} around", "lists of hits")
        for _ in range(LISTS // 2):
            pairs = side.draw(draw, 3)
            text = side.chunks[pairs[0][0]]["text"].split()
            question = " ".join(draw.sample(text, min(len(text), 4)) + draw.sample(words, 2))
            asked = []
            side.process.embed = lambda texts: asked.extend(texts) or meanings(texts)
            least = draw.choice([-0.125, 0.0, 0.125, 0.25, 0.5])
            (ours,) = side.refined([{"sentences": {"least": least, "neighbours": n}}], [pairs], question)
            borders = of_passages([side.chunks[at]["text"] for at, _ in pairs], asked)
            mine = [(p["rows"][0], stays(p, side.chunks[p["rows"][0]], borders[pairs_at(pairs, p)])) for p in ours]
            theirs, missing = [], False
            for (at, score), cut in zip(pairs, borders):
                optimizer = SentenceEmbeddingOptimizer(
                    embed_model=Marked(),
                    threshold_cutoff=least,
                    tokenizer_fn=lambda _, cut=cut: [f"\x00{i}\x01{text}" for i, (text, _) in enumerate(cut)],
                    context_before=n,
                    context_after=n,
                )
                try:
                    (made,) = optimizer.postprocess_nodes(side.hits([(at, score)]), QueryBundle(question))
                    parts = made.node.text.split("\x00")[1:]
                    theirs.append((at, [int(part.split("\x01")[0]) for part in parts]))
                except ValueError:
                    missing = True
            once = [(at, sorted(set(numbers))) for at, numbers in theirs]
            steps = [(SENTENCES_AGAIN, once)]
            if missing:
                best = best_sentence(question, borders)
                at, number = pairs[best[0]][0], best[1]
                around = range(max(0, number - n), min(len(borders[best[0]]), number + n + 1))
                theirs, steps = "ValueError", [(NO_SENTENCE, once or [(at, [*around])])]
            row.compare(f"{len(pairs)} hits, {least}", mine, theirs, steps)
    side.process.embed = meanings


def pairs_at(pairs, passage):
    return [at for at, _ in pairs].index(passage["rows"][0])


def of_passages(texts, asked):
    """For each text its sentences, which are among those that were asked for, with the byte at which each begins."""
    known, found = sorted(set(asked), key=len, reverse=True), []
    for text in texts:
        at, own = 0, []
        while text[at:].strip(BLANK):
            at = len(text) - len(text[at:].lstrip(BLANK))
            sentence = next(sentence for sentence in known if text.startswith(sentence, at))
            own.append((sentence, len(text[:at].encode())))
            at += len(sentence)
        found.append(own)
    return found


def stays(passage, chunk, cut):
    """The numbers of the sentences that are in a passage."""
    spans = passage.get("parts") or [passage["span"]]
    begin = chunk["span"]["start"]
    return [i for i, (_, start) in enumerate(cut) if any(s["start"] <= begin + start < s["end"] for s in spans)]


def best_sentence(question, borders):
    cosine = lambda text: sum(a * b for a, b in zip(meaning(question), meaning(text)))  # noqa: E731
    every = [(cosine(text), -i, -j) for i, cut in enumerate(borders) for j, (text, _) in enumerate(cut)]
    _, i, j = max(every)
    return -i, -j


def rankings(table, side):
    """RankGPTRerank, with numbers that are forgotten, repeated or invented."""
    draw = random.Random(15)
    row = table.row("RankGPTRerank: listwise", "lists of hits")
    for _ in range(LISTS):
        pairs = side.draw(draw, 9)
        n, top = len(pairs), draw.choice([3, 8])
        named = draw.sample(range(1, n + 1), draw.choice([n, draw.randint(0, n)]))
        if len(named) < n and draw.random() < 0.5:
            named.append(draw.choice([n + 1, draw.randint(1, n)]))
        reply = " > ".join(f"[{number}]" for number in named) or "I cannot tell."
        rerank = RankGPTRerank(top_n=top, llm=Told(reply))
        theirs = [at for at, _ in rows(rerank.postprocess_nodes(side.hits(pairs), QueryBundle("?")))]
        as_given = [at for at, _ in pairs][:top]
        steps = [(NOT_AS_ASKED, as_given)] if n + 1 in named else []
        tell(side.process, {"ranking": named} if named else reply)
        (ours,) = side.staged("rerank", {"listwise": {"model": "chat", "top_n": top}}, [pairs])
        row.compare(f"{n} hits, {reply}", [at for at, _ in own_rows(ours)], theirs, steps)
