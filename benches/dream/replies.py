"""What the simulated provider of `dream` says: a function of the request alone.

An answer is the sentences of the prompt's sources that share most words with the question; a judge's verdict is
whether enough words of the one text stand in the other. So pipelines that find more get higher scores, on both sides
by the same rule, and no verdict depends on who asks.

Requests are told apart by the schema that they want filled: Ragas writes it into the prompt, Reverie sends it as
`response_format`, or asks for Yes or No, with the probabilities of both where it may ask for `logprobs`.
"""

import json
import math
import re
import zlib
from functools import lru_cache

import numpy as np

# How many sentences an answer has.
SENTENCES = {"gpt-3.5-turbo": 1, "gpt-4": 2, "gpt-4o": 3}
DIMENSIONS = 256
# The share of words from which on a text supports another.
ENOUGH = 0.6
LONGEST = 300
# As many as our metrics allow.
MOST_STATEMENTS = 20
NOTHING = "I do not know."


class NotUnderstood(Exception):
    """A request that nobody here is expected to send."""


@lru_cache(maxsize=100_000)
def words(text):
    """The words of a text that carry meaning, roughly."""
    return frozenset(word for word in re.findall(r"[a-z0-9]+", text.lower()) if len(word) > 3)


def sentences(text):
    """The sentences of a text, none longer than an answer may be."""
    found = re.split(r"(?<=[.!?])\s+|\n{2,}", text)
    return [sentence[:LONGEST] for each in found if words(sentence := " ".join(each.split()))]


def statements(text):
    """The single facts of a text: its clauses, as a judge would take them apart, each long enough to say something."""
    found = []
    for sentence in sentences(text):
        clauses = []
        for clause in re.split(r"(?<=[,;:])\s+|\s+(?=(?:and|but|which|that)\s)", sentence):
            if clauses and min(len(words(clause)), len(words(clauses[-1]))) < 3:
                clauses[-1] += f" {clause}"
            else:
                clauses.append(clause)
        found += clauses
    return list(dict.fromkeys(found))[:MOST_STATEMENTS]


def share(part, whole):
    """The share of the words of one text that stand in the other."""
    wanted = words(part)
    return len(wanted & words(whole)) / len(wanted) if wanted else 0.0


def supports(whole, part):
    """A verdict."""
    return int(share(part, whole) >= ENOUGH)


def answer(model, question, sources):
    """The sentences that share most with the question, in their order."""
    wanted = words(question)
    found = list(dict.fromkeys(sentences(sources)))
    scored = [(len(wanted & words(text)) / math.sqrt(4 + len(words(text))), i) for i, text in enumerate(found)]
    best = sorted(scored, key=lambda one: (-one[0], one[1]))[: SENTENCES.get(model, 1)]
    chosen = [found[i] for i in sorted(i for score, i in best if score > 0)]
    return " ".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in chosen) or NOTHING


def question_for(text, number):
    """A question that a text would answer; another for each sample."""
    found = re.findall(r"\w+", text)
    return f"What is to be said about {' '.join(found[number % 3: number % 3 + 8])}?"


def vector(model, text):
    """A text's vector: its words, hashed, as another model would see them."""
    return _vector(model, text)


@lru_cache(maxsize=50_000)
def _vector(model, text):
    made = np.zeros(DIMENSIONS, dtype=np.float32)
    for word in re.findall(r"\w+", text.lower()) or [""]:
        hashed = zlib.crc32(f"{model} {word}".encode())
        made[hashed % DIMENSIONS] += (1 if hashed & 0x8000_0000 else -1) * min(len(word), 8)
    length = np.linalg.norm(made)
    if length == 0:
        made[0] = length = 1
    return made / length


def chat(body, messages):
    """The kind of request, the texts of its choices, and token probabilities where asked for."""
    last, n = messages[-1], body.get("n") or 1
    if last.endswith("Answer with one word, Yes or No."):
        kind, texts, logprobs = _word(last)
        return kind, texts, logprobs if body.get("logprobs") else None
    schema = (body.get("response_format") or {}).get("json_schema", {}).get("schema")
    if schema is not None:
        kind, made = _ours(set(schema["properties"]), last, body.get("seed") or 0)
        return kind, [json.dumps(made)], None
    if (stated := last.rfind("as specified in JSON Schema:\n")) >= 0:
        return _ragas(last, stated, n)
    return "answer", [_answer(body["model"], last)] * n, None


def _answer(model, prompt):
    """To a question with sources, as LlamaIndex or as we put it."""
    if (at := prompt.rfind("Query: ")) >= 0:
        sources, question = prompt[:at], prompt[at + 7 :].split("\n")[0]
    elif (at := prompt.rfind("Question: ")) >= 0:
        sources, question = prompt[:at], prompt[at + 10 :]
    else:
        raise NotUnderstood("neither a question nor a judge's prompt")
    if (begin := re.search(r"-{10,}\n(.*)\n-{10,}", sources, re.DOTALL)) is not None:
        sources = begin[1]
    return answer(model, question, re.sub(r"</?source[^>]*>", "\n\n", sources))


# Ragas: input and output are JSON in the prompt.


def _ragas(prompt, stated, n):
    schema, _ = json.JSONDecoder().raw_decode(prompt[prompt.index("{", stated) :])
    wanted = set(schema["properties"])
    given, _ = json.JSONDecoder().raw_decode(prompt[prompt.rindex("\ninput: ") + 8 :])
    reason = "By the words that both have."
    if wanted == {"statements"} and "statements" in given:
        kind, made = "supported", {"statements": [
            {"statement": text, "reason": reason, "verdict": supports(given["context"], text)} for text in given["statements"]]}
    elif wanted == {"statements"}:
        kind, made = "statements", {"statements": statements(given["answer"])}
    elif wanted == {"question", "noncommittal"}:
        text = given["response"]
        several = [{"question": question_for(text, i), "noncommittal": int(text == NOTHING)} for i in range(n)]
        return "questions", list(map(json.dumps, several)), None
    elif wanted == {"reason", "verdict"}:
        kind, made = "useful", {"reason": reason, "verdict": supports(given["context"], given["answer"])}
    elif wanted == {"classifications"}:
        kind, made = "attributed", {"classifications": [
            {"statement": text, "reason": reason, "attributed": supports(given["context"], text)} for text in sentences(given["answer"])]}
    elif wanted == {"TP", "FP", "FN"}:
        truth, said = " ".join(given["ground_truth"]), " ".join(given["answer"])

        def rows(texts):
            return [{"statement": text, "reason": reason} for text in texts]

        kind, made = "correct", {
            "TP": rows(text for text in given["answer"] if supports(truth, text)),
            "FP": rows(text for text in given["answer"] if not supports(truth, text)),
            "FN": rows(text for text in given["ground_truth"] if not supports(said, text)),
        }
    else:
        raise NotUnderstood(f"a judge's prompt for {sorted(wanted)}")
    return kind, [json.dumps(made)] * n, None


# Reverie: texts between tags.


def _fenced(prompt, tag):
    return [text.strip() for text in re.findall(rf"<{tag}(?: number=\"\d+\")?>\n(.*?)\n</{tag}>", prompt, re.DOTALL)]


def _verdict(shared, tag, item):
    """How sure it is that one item is a yes, and what was asked."""
    if tag == "passage":
        return "useful", share(_fenced(shared, "answer")[-1], item)
    if tag == "answer":
        return "noncommittal", float(item == NOTHING)
    if found := _fenced(shared, "reference") or _fenced(shared, "answer"):
        return "correct", share(item, found[-1])
    return ("attributed" if _fenced(shared, "question") else "supported"), share(item, " ".join(_fenced(shared, "passage")))


def _word(prompt):
    found = re.search(r"<(statement|passage|answer)>\n((?:(?!<\1>\n).)*)\n</\1>\n\n[^\n]*Answer with one word, Yes or No\.$", prompt, re.DOTALL)
    if found is None:
        raise NotUnderstood("a choice between other words than Yes and No")
    kind, sure = _verdict(prompt[: found.start()], found[1], found[2].strip())
    yes = 1 / (1 + math.exp(-12 * (sure - ENOUGH + 1e-9)))
    tokens = sorted([("Yes", yes), ("No", 1 - yes)], key=lambda one: -one[1])
    rows = [{"token": word, "logprob": math.log(max(p, 1e-9)), "bytes": list(word.encode())} for word, p in tokens]
    return kind, [tokens[0][0]], {"content": [{**rows[0], "top_logprobs": rows}], "refusal": None}


def _ours(wanted, prompt, seed):
    if wanted == {"statements"}:
        return "statements", {"statements": statements(_fenced(prompt, "text")[-1])}
    if wanted in ({"question"}, {"question", "noncommittal"}):
        text = _fenced(prompt, "answer")[-1]
        made = {"question": question_for(text, seed), "noncommittal": text == NOTHING}
        return "questions", {name: made[name] for name in wanted}
    if wanted == {"verdicts"}:
        tag = re.search(r"For each (\w+), by its number", prompt)[1]
        shared, items = prompt[: prompt.rindex(f"<{tag}s>\n")], _fenced(prompt[prompt.rindex(f"<{tag}s>\n") :], tag)
        judged = [_verdict(shared, tag, item) for item in items]
        rows = [{"number": i, "reason": "By the words that both have.", "verdict": "Yes" if sure >= ENOUGH else "No"}
                for i, (_, sure) in enumerate(judged, 1)]  # fmt: skip
        return judged[0][0], {"verdicts": rows}
    raise NotUnderstood(f"a reply with {sorted(wanted)}")
