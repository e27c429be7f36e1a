# The chunkers of Chroma's study: functions that cut a text. `chunking_study.py` writes a copy of this file into the
# experiment's folder, and defines `BENCHES` in its first line.
import functools
import sys

sys.path.insert(0, f"{BENCHES}/chunks")  # noqa: F821
SEPARATORS = ["\n\n", "\n", ".", "?", "!", " ", ""]


@functools.cache
def encoding():
    """The encoding `cl100k_base`, from the ranks that Reverie ships, so nothing is downloaded."""
    import compare
    import tiktoken
    from tiktoken_ext import openai_public

    compare.tokenizer()
    return tiktoken.Encoding(**openai_public.cl100k_base())


def characters_1200(text):
    return [(at, min(at + 1200, len(text))) for at in range(0, len(text), 1200)]


def windows(text, size, overlap):
    """Windows of `size` tokens, as (start, end) in characters. Each shares `overlap` tokens with the one before."""
    tokens = encoding().encode(text, allowed_special="all")
    _, starts = encoding().decode_with_offsets(tokens)
    starts.append(len(text))
    parts = []
    for first in range(0, len(tokens), size - overlap):
        last = min(first + size, len(tokens))
        parts.append((starts[first], starts[last]))
        if last == len(tokens):
            break
    return parts


def fixed_200(text):
    return windows(text, 200, 0)


def fixed_400(text):
    return windows(text, 400, 0)


def fixed_800_400(text):
    return windows(text, 800, 400)


def recursive(text, size):
    from langchain_text_splitters import RecursiveCharacterTextSplitter

    tokens = lambda part: len(encoding().encode(part, allowed_special="all"))  # noqa: E731
    splitter = RecursiveCharacterTextSplitter(separators=SEPARATORS, chunk_size=size, chunk_overlap=0, length_function=tokens)
    return splitter.split_text(text)


def recursive_200(text):
    return recursive(text, 200)


def recursive_400(text):
    return recursive(text, 400)
