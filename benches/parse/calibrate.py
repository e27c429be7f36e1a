#!/usr/bin/env python3
"""Measures the ranges of values in the network that reads lines, for `crates/models/src/local/ocr/quantization.rs`.

    benches/parse/calibrate.py CORPUS recognition.onnx [--fonts zh.ttc ja.ttf] [--judge CORPUS]

`ocr` computes the large convolutions with 8-bit numbers. Which numbers these are depends on the values that occur, which the
script measures on lines: of the PDFs in CORPUS (a folder of `corpus.py`, with another seed than the one that is judged), drawn
at 100 to 300 dpi, clean and noisy, some of them light on dark; and with --fonts, of random Chinese and Japanese letters. One value
in ten thousand may lie outside the range. The rows that it prints belong in `RANGES`.

With --judge it also reads lines of another corpus, with the network as it is and with 8-bit numbers, and prints in how many characters the two
differ; of drawn letters also how many are wrong.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pypdfium2
import scans
from fontTools.ttLib import TTFont
from onnx import helper, numpy_helper
from PIL import Image, ImageDraw, ImageFont, ImageOps
from rapidfuzz.distance import Levenshtein

# As in `recognition.rs`.
HEIGHT = 48
SQUEEZE = 0.85
SMALL = 28
LEAST_WIDTH = 96
OUTSIDE = 0.0001
VALUES_OF_A_LINE = 2_000


def line_of(picture: Image.Image) -> np.ndarray:
    """A line as the network reads it."""
    squeeze = 1 if picture.height < SMALL else SQUEEZE
    width = max(1, round(picture.width / picture.height * HEIGHT * squeeze))
    pixels = np.asarray(picture.resize((width, HEIGHT), Image.Resampling.BILINEAR), dtype=np.float32)
    values = np.pad(pixels / 127.5 - 1, ((0, 0), (0, max(0, LEAST_WIDTH - width))))
    return np.repeat(values[None, None], 3, 1)


def lines_of_pdfs(corpus: Path, random: np.random.Generator) -> list[np.ndarray]:
    """Some lines of each PDF."""
    lines = []
    for path in sorted((corpus / "pdf").glob("*.pdf")):
        pdf = pypdfium2.PdfDocument(path)
        page, dpi = pdf[0], int(random.choice(scans.RESOLUTIONS))
        text, scale = page.get_textpage(), dpi / 72
        places = [text.get_rect(number) for number in range(text.count_rects())]
        picture = page.render(scale=scale, grayscale=True).to_pil().convert("L")
        if random.random() < 0.5:
            picture = scans.noisy(picture, random, dpi)
        if random.random() < 0.2:
            picture = ImageOps.invert(picture)
        for number in random.permutation(len(places))[:4]:
            left, bottom, right, top = places[number]
            edge = 0.3 * (top - bottom)
            box = [(left - edge) * scale, (page.get_height() - top - edge) * scale, (right + edge) * scale, (page.get_height() - bottom + edge) * scale]
            if box[2] - box[0] > 8 and box[3] - box[1] > 8:
                lines.append(line_of(picture.crop([round(value) for value in box])))
        pdf.close()
    return lines


def drawn_lines(fonts: list[str], characters: list[str], random: np.random.Generator) -> list[tuple[np.ndarray, str]]:
    """Lines of random letters of Chinese and Japanese, with their texts."""
    letters = [letter for letter in characters if len(letter) == 1 and "\u3040" <= letter <= "\u9fff"][:4000]
    lines = []
    for font in fonts:
        has = set(TTFont(font, fontNumber=0).getBestCmap())
        there = [letter for letter in letters if ord(letter) in has]
        for _ in range(60):
            drawn, text = ImageFont.truetype(font, 34), "".join(random.choice(there, 18))
            picture = Image.new("L", (int(drawn.getlength(text)) + 12, HEIGHT), int(random.integers(180, 255)))
            ImageDraw.Draw(picture).text((6, 4), text, font=drawn, fill=int(random.integers(0, 90)))
            lines.append((line_of(scans.noisy(picture, random, 150) if random.random() < 0.5 else picture), text))
    return lines


class Convolution:
    """A convolution with kernels of one point, and the addition after it."""

    def __init__(self, convolution: onnx.NodeProto, addition: onnx.NodeProto, weights: np.ndarray, added: np.ndarray) -> None:
        self.node, self.addition, self.weights, self.added = convolution, addition, weights, added
        self.name, self.before, self.after = convolution.name, convolution.input[0], addition.output[0]


def convolutions(graph: onnx.GraphProto) -> list[Convolution]:
    """All with kernels of one point that are followed by the addition of a constant."""
    users, made_by = defaultdict(list), {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        for name in node.input:
            users[name].append(node)
    constants = {tensor.name: tensor for tensor in graph.initializer}

    def constant(name: str) -> np.ndarray:
        while name not in constants:
            name = made_by[name].input[0]
        return numpy_helper.to_array(constants[name])

    found = []
    for node in graph.node:
        if node.op_type != "Conv" or [user.op_type for user in users[node.output[0]]] != ["Add"]:
            continue
        weights, addition = constant(node.input[1]), users[node.output[0]][0]
        if weights.shape[2:] == (1, 1) and weights.shape[1] > 1:
            added = next(name for name in addition.input if name != node.output[0])
            found.append(Convolution(node, addition, weights, constant(added).reshape(-1)))
    return found


def session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def ranges(network: Path, lines: list[np.ndarray], random: np.random.Generator) -> dict[str, tuple[float, float]]:
    """The range of the values of each input and output of the convolutions. Those of one column, in which a whole line was
    averaged, are left out: they cost nothing."""
    model = onnx.load(network)
    names = sorted({name for each in convolutions(model.graph) for name in (each.before, each.after)})
    for name in names:
        model.graph.output.append(helper.make_empty_tensor_value_info(name))
    run, values = session(model), defaultdict(list)
    for line in lines:
        for name, found in zip(names, run.run(names, {"x": line})):
            if found.shape[-1] == 1:
                continue
            found = found.reshape(-1)
            values[name].append(random.choice(found, min(found.size, VALUES_OF_A_LINE)))
    at = [OUTSIDE / 2, 1 - OUTSIDE / 2]
    return {name: tuple(np.quantile(np.concatenate(found), at)) for name, found in values.items()}


def quantized(network: Path, measured: dict[str, tuple[float, float]]) -> onnx.ModelProto:
    """The network as `quantization.rs` rewrites it."""
    model = onnx.load(network)
    graph, rewritten, replaced = model.graph, {}, set()
    for each in convolutions(graph):
        if each.before not in measured:
            continue
        scale = {}
        for side, name in (("x", each.before), ("y", each.after)):
            low, high = min(measured[name][0], 0.0), max(measured[name][1], 0.0)
            step = np.float32((high - low) / 255)
            scale[side] = (step, np.uint8(np.clip(round(-low / step), 0, 255)))
        steps = (np.abs(each.weights).reshape(len(each.weights), -1).max(1) / 127).astype(np.float32)
        steps[steps == 0] = 1
        constants = {
            "xs": scale["x"][0], "xz": scale["x"][1], "ys": scale["y"][0], "yz": scale["y"][1],
            "w": np.round(each.weights / steps.reshape(-1, 1, 1, 1)).astype(np.int8), "ws": steps, "wz": np.zeros(len(steps), np.int8),
            "b": np.round(each.added / (steps * scale["x"][0])).astype(np.int32),
        }  # fmt: skip
        name = {key: f"{each.name} {key}" for key in [*constants, "xq", "yq"]}
        graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name[key]) for key, value in constants.items())
        convolution = helper.make_node("QLinearConv", [name[key] for key in ("xq", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b")], [name["yq"]])
        convolution.attribute.extend(each.node.attribute)
        rewritten[each.node.output[0]] = [
            helper.make_node("QuantizeLinear", [each.before, name["xs"], name["xz"]], [name["xq"]]),
            convolution,
            helper.make_node("DequantizeLinear", [name["yq"], name["ys"], name["yz"]], [each.after]),
        ]
        replaced.add(each.after)
    nodes = [new for node in graph.node if node.output[0] not in replaced for new in rewritten.get(node.output[0], [node])]
    del graph.node[:]
    graph.node.extend(nodes)
    return model


def read(run: onnxruntime.InferenceSession, line: np.ndarray) -> list[int]:
    """The characters of a line, by their numbers."""
    best = run.run(None, {"x": line})[0][0].argmax(-1)
    return [int(now) for before, now in zip([0, *best], best) if now not in (0, before)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("corpus", type=Path)
    options.add_argument("network", type=Path)
    options.add_argument("--fonts", nargs="*", default=[])
    options.add_argument("--judge", type=Path)
    given = options.parse_args()
    random, model = np.random.default_rng(1), onnx.load(given.network)
    characters = model.metadata_props[0].value.splitlines()
    lines = lines_of_pdfs(given.corpus, random) + [line for line, _ in drawn_lines(given.fonts, characters, random)]
    measured = ranges(given.network, lines, random)
    for each in (each for each in convolutions(model.graph) if each.before in measured):
        print(f'    ("{each.name}", [{", ".join(f"{value:.4f}" for value in measured[each.before] + measured[each.after])}]),')
    if given.judge:
        exact, rounded = session(model), session(quantized(given.network, measured))
        other = np.random.default_rng(2)
        texts = [(read(exact, line), read(rounded, line)) for line in lines_of_pdfs(given.judge, other)]
        differ, all_of_them = sum(Levenshtein.distance(*pair) for pair in texts), sum(len(pair[0]) for pair in texts)
        print(f"{len(texts)} other lines: {differ} of {all_of_them} characters differ")
        numbers = {letter: number for number, letter in enumerate(characters, 1)}
        for font in given.fonts:
            drawn = [(line, [numbers[letter] for letter in text]) for line, text in drawn_lines([font], characters, other)]
            wrong = [sum(Levenshtein.distance(read(run, line), text) for line, text in drawn) for run in (exact, rounded)]
            print(f"{font}: of {sum(len(text) for _, text in drawn)} letters {wrong[0]} are read wrong, with 8-bit numbers {wrong[1]}")


if __name__ == "__main__":
    main()
