"""Where the outcome differs from LangChain's on purpose, and why."""

MIRRORED = "best at the end"
BETTER_GOES = "the better copy goes"
CONTAINED = "contained texts"
TIES = "order of equal scores"
UNION = "union without ranks"
NOT_AS_ASKED = "not as asked for"
REPEATS_QUESTION = "repeats the question"
NOTHING_WRITTEN = "nothing written"
ON_ONE_LINE = "white space of a reply"
PASSAGE_ALONE = "passage alone"
TWICE = "named twice"
UNNAMED_GO = "unnamed hits go"
NOTHING_HELPS = "nothing helps"
GAPS = "gaps are seen"
DIFFERENCES = {
    MIRRORED: "With an even number of passages, LangChain has the best one last and the second best first. Here the best is always first.",
    BETTER_GOES: "Of two equal texts LangChain drops the one that was ranked better. Here the better one stays.",
    CONTAINED: "LangChain compares vectors, which finds copies and near copies. `dedupe` compares texts: a text that a better passage "
    "holds goes too.",
    TIES: "Equal sums are ordered by place in the corpus here, and by the first list there.",
    UNION: "LangChain gives the model everything that any wording found, one list after the other, the question's own last. Here the lists are joined "
    "by their ranks, and the best `top_k` of all stay.",
    NOT_AS_ASKED: "Here a reply with more wordings than asked for, or a number that no passage has, breaks its JSON Schema: the model is asked once "
    "more, then question and order stay as they were. LangChain searches all wordings, and raises an IndexError at the number.",
    REPEATS_QUESTION: "A wording with the words of the question is one more query there. Here it is left out.",
    NOTHING_WRITTEN: "Where the model writes nothing, LangChain embeds or searches the empty text. Here the question is searched.",
    ON_ONE_LINE: "LangChain searches the reply as it stands. Here white space is folded; no word changes.",
    PASSAGE_ALONE: "LangChain searches with the passage's vector alone. Here, as in the paper, with the mean of the passage's and the question's.",
    TWICE: "A passage that the model names twice stands there twice. Here it stands once.",
    UNNAMED_GO: "LangChain drops passages that the model does not name. Here they follow in their order.",
    NOTHING_HELPS: "Where the model finds no sentence that helps in any passage, LangChain gives none. Here the best passage stays.",
    GAPS: "LangChain takes the text that the model writes. Here the model gives numbers, the text is the document's own, white space included, and ` … ` stands where sentences were left out.",
}  # fmt: skip
