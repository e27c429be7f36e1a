"""What the cases of judged metrics are made of: random parts, and both sides' ways to be told what a judge says."""

import random

import numpy as np

CASES = 240


class Draw(random.Random):
    """Random parts of cases; every text has a mark that stands in no other."""

    marks = 0

    def text(self, kind):
        self.marks += 1
        return f"The {kind} M{self.marks:06}M is {self.choice(['big', 'red', 'new', 'old'])}."

    def texts(self, kind, least, most):
        return [self.text(kind) for _ in range(self.randint(least, most))]

    def verdicts(self, items):
        share = self.choice([0, 0.3, 0.5, 0.8, 1])
        return [self.random() < share for _ in items]

    def vector(self):
        numbers = np.random.Generator(np.random.PCG64(self.getrandbits(60))).standard_normal(12)
        return (numbers / np.linalg.norm(numbers)).astype(np.float32).tolist()


def cosine(a, b):
    a, b = np.array(a), np.array(b)
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def yes(verdict):
    return "Yes" if verdict else "No"


def says(items, verdicts, *shared):
    """The scripted judge's verdicts; none where the verdict is None."""
    return [{"when": [item, *shared], "say": yes(v)} for item, v in zip(items, verdicts) if v is not None]


def states(text, statements, key="statements"):
    return {"when": [text], "reply": {key: statements}}


def judged(items, verdicts):
    """Ragas' verdicts on statements."""
    rows = [
        {"statement": s, "reason": "it says so", "verdict": int(v)} for s, v in zip(items, verdicts) if v is not None
    ]
    return {"statements": rows}


def places(texts):
    return [{"document": "a.txt", "start": 100 * i, "end": 100 * i + 50, "text": text} for i, text in enumerate(texts)]


def mean(values):
    return sum(values) / len(values)
