"""Where the formulas of AutoRAG and Qdrant for joining lists differ from ours, and why."""

from reasons_stages import BEYOND, EQUAL_SCORES

TIES = "order of equal scores"
EMPTY_LIST = "empty list"
LACKING = "lacking hits"
FROM_ONE = "ranks from 1"
EQUAL_RANKS = "equal ranks"
SAMPLE = "deviation of a sample"
ROUNDED = "rounded deviation"

CUT = "A score more than three deviations from the mean is above 1 or below 0 there. Here it is cut, so that no hit counts less than a lacking one."
AUTORAG = {
    TIES: "Equal sums are ordered by place in the corpus here, and by the order of the table there.",
    EMPTY_LIST: "AutoRAG raises where one side found nothing. Here the other side's list counts alone.",
    EQUAL_SCORES: "Where all scores of a list are equal, AutoRAG divides 0 by 0, or by what rounding leaves, and counts them as 0 or so. Here they are 1 if positive (`min_max`, "
    "`z_score`) or 0.5 (`dbsf`), so that finding a chunk counts for more than not finding it.",
    LACKING: "A chunk that one side did not find has a z-score of 0 there: as good as that side's mean, and better than the lower half of what it did "
    "find. Here scores count from the list's last, so that a lacking chunk is as good as the last.",
    BEYOND: CUT,
    FROM_ONE: "AutoRAG counts ranks from 1 and we from 0, as LlamaIndex does: its constant 59 is our 60.",
    EQUAL_RANKS: "Equal scores share a rank there. Here ranks are places.",
}  # fmt: skip
QDRANT = {
    TIES: "Equal sums are ordered by place in the corpus here, and by the first list there.",
    SAMPLE: "Qdrant divides by n − 1, as for a sample; we, LlamaIndex and AutoRAG divide by n, as the list is all there is.",
    BEYOND: CUT,
    ROUNDED: "Where all scores of a list are equal, Qdrant means 0.5 for each, but the rounded mean may leave a tiny deviation, by which it divides. "
    "Here equal scores are told by themselves.",
}  # fmt: skip
