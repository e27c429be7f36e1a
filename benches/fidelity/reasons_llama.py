"""Where the outcome differs from LlamaIndex' on purpose, and why."""

EMPTY = "empty chunk"
METADATA = "metadata is counted"
SPACE = "joining spaces"
WINDOW_TWICE = "window twice"
NO_NEXT = "links to the next chunk"
TWO_TOKENS = "two tokens less"
MARKS = "runs of sentence marks"
CLUSTERS = "characters of several"
WORDS = "combining marks"
ZEROS = "filled up with zeros"
TIES = "order of equal scores"
SAME_TEXT = "same text, one node"
DIFFERENCES = {
    EMPTY: "Of a text without a character LlamaIndex makes a node without text. Here it has no chunk: there is nothing to embed or to cite.",
    METADATA: "LlamaIndex counts a document's metadata as part of each chunk. Here the size is that of the text, so the same settings cut "
    "the same text alike whatever the file is called.",
    SPACE: "LlamaIndex joins the sentences of a window with one more space. Here a window is the text as it stands, so that a quote from "
    "it is found in the document.",
    WINDOW_TWICE: "Hits with the same window give it to the model once per hit there, and once here.",
    NO_NEXT: "LlamaIndex' hierarchical parser leaves out the link to the next chunk below the first level, so its merging retriever fills no "
    "gaps between found chunks. Here it does, as its own code means to and does once the links are there.",
    TWO_TOKENS: "LlamaIndex' token splitter keeps two tokens free for metadata, whether there is any or not. Here the size is the size.",
    MARKS: "Cut out of its surroundings, a run such as `!?.!?.` loses one mark to a sentence of its own each time; LlamaIndex goes on "
    "until it fits or Python's recursion ends. Here a piece is cut into sentences 32 times over at most, then into clauses.",
    CLUSTERS: "LlamaIndex cuts an accent from its letter and a flag into halves where nothing else fits. Here no grapheme cluster is cut.",
    WORDS: "A word is what Python's `\w` takes for one, which ends at each vowel sign of Hindi or Thai and each accent that is a character of "
    "its own. Here such words are whole. One of them changes the mean length and so all scores a little.",
    ZEROS: "LlamaIndex fills a BM25 result up to `top_k` with chunks that share no word with the question. Here they are no hits; in a "
    "fused list they would take ranks from real ones.",
    TIES: "Equal scores are ordered by place in the corpus here. LlamaIndex leaves them to NumPy's partition, to random node ids, or to "
    "the order of its retrievers, and cuts at `top_k` between equals.",
    SAME_TEXT: "LlamaIndex fuses two chunks with the same text into one. Here each keeps its own place in its own document, which a citation needs.",
}  # fmt: skip
