"""Where stages between question and answer differ from LlamaIndex' on purpose, and why."""

from reasons_llama import TIES

BEST_STAYS = "the best stays"
SORTED_AGAIN = "sorted again"
MIRRORED = "best at the end"
NEIGHBOURS_APART = "neighbours apart"
SENTENCES_AGAIN = "sentences again"
NO_SENTENCE = "no near sentence"
NOT_AS_ASKED = "not as asked for"
NOTHING_WRITTEN = "nothing written"
REPEATS_QUESTION = "repeats the question"
ALSO_WHOLE = "the whole as well"
ON_ONE_LINE = "white space of a reply"
MISSING_FIELD = "missing field"
OTHER_TYPE = "other type"
TRUE_IS_ONE = "true is 1"
KEY_NAME = "name of the field"
QUESTION_TWICE = "same question twice"
WHITE_SPACE = "white space at the ends"
EQUAL_SCORES = "list of equal scores"
BEYOND = "beyond three deviations"

STAGES = {
    BEST_STAYS: "Where every score is below the threshold, LlamaIndex gives nothing to the model. Here `keep` passages stay, 1 as it comes; "
    "with 0 it is the same.",
    SORTED_AGAIN: "LlamaIndex sorts by score first, so that of equal scores the later one counts as better. Here the order that came is the order.",
    MIRRORED: "With an even number of passages, LlamaIndex has the best one last and the second best first. Here the best is always first.",
    NEIGHBOURS_APART: "LlamaIndex gives each neighbour as a node of its own, without a score (a hit that is another hit's neighbour loses its "
    "score too). Here what follows each other is one passage with the score of the best, in its place. The chunks are the same.",
    SENTENCES_AGAIN: "LlamaIndex puts the near sentences in the order of their cosines, each with its neighbours, so that a sentence may stand "
    "there several times. Here each stands once, in the order of the text.",
    NO_SENTENCE: "LlamaIndex raises if one node has no near sentence. Here the passage goes, and the best sentence of all stays.",
    NOT_AS_ASKED: "LlamaIndex takes the first of too many queries, and of a ranking the numbers that there are. Here such a reply breaks its JSON "
    "Schema: the model is asked once more, then question and order stay as they were, and for a question the result says why.",
    NOTHING_WRITTEN: "Where the model writes nothing, LlamaIndex embeds, searches or stores the empty text, or raises. Here the question, or the chunk, stays as it is.",
    REPEATS_QUESTION: "A wording with the words of the question is searched as one more query there, which counts its hits twice. Here it is left out.",
    ALSO_WHOLE: "LlamaIndex asks the parts alone, each of its own engine. Here the whole question is searched beside them.",
    ON_ONE_LINE: "LlamaIndex searches the reply as it stands. Here white space is folded; no word changes.",
    MISSING_FIELD: "A chunk without the field passes `!=` there. Here it passes no condition on that field.",
    OTHER_TYPE: "LlamaIndex raises where a text is compared with a number. Here they are never equal and have no order, so the condition fails.",
    TRUE_IS_ONE: "In Python, true is the number 1. Here it is no number.",
    KEY_NAME: "LlamaIndex embeds the name of the metadata field before what was written. Here what was written stands alone.",
    QUESTION_TWICE: "A question that the model wrote twice stands once here.",
    WHITE_SPACE: "LlamaIndex' semantic chunks keep the white space at their ends.",
    EQUAL_SCORES: "A list whose scores are all equal is at its own mean. Here `dbsf` gives that, 0.5, as Qdrant does; LlamaIndex gives 1, or 0 "
    "where the scores are not positive.",
    BEYOND: "A score more than three deviations from the mean is above 1 or below 0 there. Here it is cut, so that no hit counts less than a lacking one.",
}  # fmt: skip

__all__ = ["TIES"]
