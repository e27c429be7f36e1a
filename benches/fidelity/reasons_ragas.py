"""Where our scores differ from Ragas' on purpose, and why."""

NOTHING_SAID = "no statement"
NOTHING_FOUND = "nothing retrieved"
EMPTY_ANSWER = "empty answer"
NO_REFERENCE = "no reference"
MISSING_VERDICT = "missing verdict"
REPEATED = "repeated statement"
LOST_SAMPLE = "lost sample"
ZEROS = "embedding of zeros"
ONE_EMPTY = "one text states nothing"
SENTENCES = "sentences of the reference"
THRESHOLD = "threshold of 0"
NORMAL_FORM = "SQuAD's normal form"
CITATIONS = "citations"
LETTERS = "letters beyond ASCII"
STEMMER = "stemmer"
ONE_LIST = "recall of one list"
ROUNDED = "two decimals"
SMALL_TERM = "1e-8 in the denominator"
NO_CLAIMS = "no claim in either text"
OTHER_WORDS = "entity in other words"
LEFT_OUT = "entity left out of a list"
NO_ENTITY = "no entity"
UNREADABLE_RATING = "unreadable rating"
REPEATED_QUESTION = "passages repeat the question"
OFF_SCALE = "off the scale"
DIFFERENCES = {
    NOTHING_SAID: "A text that states nothing is NaN or 0 there, or raises. Here the score is missing for a stated reason, and the row is counted.",
    NOTHING_FOUND: "Ragas raises where nothing was retrieved. Here context precision and recall are 0, so that a retriever gains nothing by "
    "returning nothing; what is said of the answer beside its passages is missing for a stated reason.",
    EMPTY_ANSWER: "Ragas raises, or embeds a space. Here the score is missing for a stated reason.",
    NO_REFERENCE: "Ragas raises, or scores against an empty text. Here the metric does not apply, which is no failure of the trial.",
    MISSING_VERDICT: "Ragas divides by the verdicts that came back, so a judge that forgets a statement raises the score; noise sensitivity "
    "raises an error. Here there is no score then.",
    REPEATED: "A statement that the judge repeats word for word counts once here.",
    LOST_SAMPLE: "Ragas drops a sample without a question, and gives 0 if none is left. Here there is no score, since a failing judge is not "
    "a bad answer.",
    ZEROS: "A cosine with a vector of zeros is NaN there (0 in answer correctness). Here there is no score, since nothing was compared.",
    ONE_EMPTY: "Ragas gives full marks for facts if either text states nothing, which rewards refusals. Here only if both do; else the "
    "counts decide: an answer without statements has 0.",
    SENTENCES: "Ragas divides by the sentences that the judge lists. Here the reference is cut by a rule, so that the denominator is the "
    "same for every trial.",
    THRESHOLD: "Ragas takes a threshold of 0 for none.",
    NORMAL_FORM: "Ragas compares strings. Here case, punctuation and articles do not count, as in SQuAD's evaluation.",
    CITATIONS: "Citations such as [1] are taken off an answer before it is compared with a reference.",
    LETTERS: "`rouge_score` drops letters beyond ASCII, so that answers in other languages score 0. Here they are kept.",
    STEMMER: "`rouge_score` stems with NLTK's Porter stemmer, here with Snowball's English one (Porter's second), as BM25 does.",
    ONE_LIST: "Ragas' recall divides the answer's true claims by them and the reference's missing claims: an answer that splits one fact in "
    "five raises its recall. Here recall is the share of the reference's claims that the answer makes.",
    ROUNDED: "Ragas rounds factual correctness to two decimals.",
    SMALL_TERM: "Ragas adds 1e-8 to the denominator, so that an answer or a retrieval without fault has 0.99999999.",
    NO_CLAIMS: "Where neither text claims anything, Ragas gives 0. Here they agree: 1.",
    OTHER_WORDS: "Ragas compares two lists of entities letter by letter. Here an entity's words are looked for in the passages, without case and "
    "articles, and the judge is asked for the others.",
    LEFT_OUT: "Ragas has the entities of all passages listed, and what the list leaves out counts as not retrieved. Here the reference's "
    "entities are looked for in the passages.",
    NO_ENTITY: "A reference that names nothing is 0 there. Here the metric does not apply: no retriever could do better.",
    UNREADABLE_RATING: "Ragas lets the other rating alone be the score, or gives NaN. Here there is no score: one rating is another measure.",
    REPEATED_QUESTION: "Passages that only repeat the question are 0 there, without a call. Here the judge decides.",
    OFF_SCALE: "Ragas takes whatever whole number the judge gives. Here a number that is not on the scale is no score.",
}

NONE = "no score: "
EMPTY_INPUT, UNREADABLE, NOT_APPLICABLE = NONE + "empty_input", NONE + "judge_unparsable", NONE + "not_applicable"
