"""Mappings, queries and scores of `elasticsearch_stub.py`. All vectors are compared, so there is no graph."""

import math
import re
import zlib

import numpy

EXACT = {"cosineSimilarity", "dotProduct", "l2norm"}, {"cosineSimilarity", "innerProduct", "l2Squared"}
SCRIPT_CALL = re.compile(r"(\w+)\(params\.(\w+), (doc\[)?'((?:[^'\\]|\\.)*)'\]?\)")
SCRIPTS = {
    "Math.max(0.0, 1.0 + X)": lambda x: max(0.0, 1.0 + x),
    "1.0 + X": lambda x: 1.0 + x,
    "double product = X; return product < 0 ? 1.0 / (1.0 - product) : 1.0 + product;": lambda x: (
        1 / (1 - x) if x < 0 else 1 + x
    ),
    "double distance = X; return 1.0 / (1.0 + distance * distance);": lambda x: 1 / (1 + x * x),
    "1.0 / (1.0 + X)": lambda x: 1 / (1 + x),
}
INTEGERS = {"long", "integer", "short", "byte"}
FLOATS = {"float", "double", "half_float"}
VECTORS = {"dense_vector", "knn_vector"}
WINDOW = 10_000


class Problem(Exception):
    def __init__(self, status, kind, reason, shard=False, cause=None):
        super().__init__(reason)
        self.status, self.kind, self.reason, self.shard, self.cause = status, kind, reason, shard, cause

    def item(self):
        error = {"type": self.kind, "reason": self.reason}
        return (
            error
            if self.cause is None
            else error | {"caused_by": {"type": "illegal_argument_exception", "reason": self.cause}}
        )

    def body(self):
        if not self.shard:
            return {"error": {"root_cause": [self.item()], **self.item()}, "status": self.status}
        failed = [{"shard": 0, "index": "i", "node": "n", "reason": self.item()}]
        return {
            "error": {
                "root_cause": [self.item()],
                "type": "search_phase_execution_exception",
                "reason": "all shards failed",
                "phase": "query",
                "grouped": True,
                "failed_shards": failed,
            },
            "status": self.status,
        }


def illegal(reason, shard=False):
    return Problem(400, "illegal_argument_exception", reason, shard)


def leaves(properties, before=""):
    """All fields that are indexed, with their mappings; those within `nested` are left out."""
    for name, field in properties.items():
        if field.get("type", "object") == "object":
            if field.get("enabled", True):
                yield from leaves(field.get("properties", {}), f"{before}{name}.")
        elif field["type"] != "nested":
            yield f"{before}{name}", field
            for inner, multi in field.get("fields", {}).items():
                yield f"{before}{name}.{inner}", multi


def flat(value):
    if isinstance(value, list):
        for item in value:
            yield from flat(item)
    elif value is not None:
        yield value


class Document:
    """A document as its mapping indexes it. Fields that the mapping lacks are added to it if it is dynamic."""

    def __init__(self, index, id, source):
        self.id, self.source, self.seq = id, source, 0
        self.values, self.vectors = {}, {}
        self.shard = zlib.crc32(id.encode()) % index.shards
        if not isinstance(source, dict):
            raise Problem(400, "mapper_parsing_exception", "failed to parse: a document must be an object")
        self.add(index, source, index.mappings.setdefault("properties", {}), "")

    def add(self, index, source, properties, before):
        for name, value in source.items():
            if "." in name or not name.strip():
                raise Problem(400, index.parsing, f"field name [{name}] cannot be used here")
            path, field = f"{before}{name}", properties.get(name)
            if field is None:
                dynamic = index.mappings.get("dynamic", True)
                if dynamic == "strict":
                    raise Problem(
                        400,
                        "strict_dynamic_mapping_exception",
                        f"[1:1] mapping set to strict, dynamic introduction of [{name}] within [_doc] is not allowed",
                    )
                if dynamic is False or (field := self.guess(value)) is None:
                    continue
                properties[name] = field
            kind = field.get("type", "object")
            if kind == "object":
                if field.get("enabled", True):
                    for item in value if isinstance(value, list) else [value]:
                        if item is not None and not isinstance(item, dict):
                            raise Problem(
                                400,
                                index.parsing,
                                f"object mapping for [{path}] tried to parse field as object, but found a concrete value",
                            )
                        self.add(index, item or {}, field.setdefault("properties", {}), f"{path}.")
            elif kind in VECTORS:
                if value is not None:
                    self.vectors[path] = self.vector(index, path, field, value)
            elif kind != "nested":
                self.index_value(index, path, field, value)
                for inner, multi in field.get("fields", {}).items():
                    self.index_value(index, f"{path}.{inner}", multi, value)

    @staticmethod
    def guess(value):
        first = next(flat(value), None)
        if isinstance(first, dict):
            return {"properties": {}}
        if isinstance(first, bool):
            return {"type": "boolean"}
        if isinstance(first, int):
            return {"type": "long"}
        if isinstance(first, float):
            return {"type": "float"}
        return first and {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 256}}}

    def vector(self, index, path, field, value):
        expected = field.get("dims", field.get("dimension"))
        if not isinstance(value, list) or not all(isinstance(item, (int, float)) for item in value):
            raise Problem(400, index.parsing, f"failed to parse field [{path}] of type [{field['type']}]")
        if expected is None:
            expected = field["dims"] = len(value)
        if len(value) != expected:
            reason = f"The [dense_vector] field [{path}] in doc [document with id '{self.id}'] has a different number of dimensions [{len(value)}] than defined in the mapping [{expected}]"
            if field["type"] == "knn_vector":
                reason = f"Vector dimension mismatch. Expected: {expected}, Given: {len(value)}"
            raise Problem(400, index.parsing, "failed to parse", cause=reason)
        vector = numpy.array(value, dtype=numpy.float32)
        if not vector.any() and (field.get("similarity", "cosine") == "cosine" and field.get("index", True)):
            raise Problem(
                400,
                index.parsing,
                "failed to parse",
                cause="The [cosine] similarity does not support vectors with zero magnitude.",
            )
        return vector

    def index_value(self, index, path, field, value):
        kind, found = field["type"], self.values.setdefault(path, [])
        for item in flat(value):
            try:
                if isinstance(item, dict):
                    raise KeyError(path)
                if kind == "keyword":
                    text = item if isinstance(item, str) else str(item).lower() if isinstance(item, bool) else str(item)
                    if len(text.encode("utf-16-le")) // 2 > field.get("ignore_above", 1 << 40):
                        continue
                    if len(text.encode()) > 32766:
                        raise illegal(f'Document contains at least one immense term in field="{path}"')
                    found.append(text)
                elif kind == "text":
                    found.extend(analyze(item if isinstance(item, str) else str(item)))
                elif kind in INTEGERS:
                    found.append(math.trunc(float(item)) if not isinstance(item, int) else item)
                    if isinstance(item, bool) or not -(1 << 63) <= found[-1] < 1 << 63:
                        raise ValueError
                elif kind in FLOATS:
                    found.append(float(item))
                elif kind == "boolean":
                    found.append({True: True, False: False, "true": True, "false": False, "": False}[item])
                elif kind == "date":
                    found.append(str(item))
                else:
                    raise Problem(
                        400, "mapper_parsing_exception", f"No handler for type [{kind}] declared on field [{path}]"
                    )
            except (ValueError, KeyError, OverflowError):
                raise Problem(
                    400,
                    index.parsing,
                    f"failed to parse field [{path}] of type [{kind}] in document with id '{self.id}'",
                ) from None


def analyze(text):
    """The standard analyzer, nearly: words in lower case."""
    return re.findall(r"\w+", text.lower())


class Searcher:
    """What is searchable of an index since its last refresh."""

    def __init__(self, index, documents):
        self.index, self.documents = index, documents
        self.matrices, self.words = {}, {}

    def matrix(self, field):
        if field not in self.matrices:
            having = [document for document in self.documents if field in document.vectors]
            self.matrices[field] = having, numpy.array([document.vectors[field] for document in having])
        return self.matrices[field]

    def bm25(self, field, terms):
        if field not in self.words:
            having = [document for document in self.documents if document.values.get(field)]
            frequency = {}
            for document in having:
                for term in set(document.values[field]):
                    frequency[term] = frequency.get(term, 0) + 1
            total = sum(len(document.values[field]) for document in having)
            self.words[field] = len(having), total / max(len(having), 1), frequency
        count, mean, frequency = self.words[field]
        factor = 1.0 if self.index.server.major_opensearch() >= 3 else 2.2

        def score(document):
            words, sum_, found = document.values.get(field) or [], 0.0, False
            for term in terms:
                if tf := words.count(term):
                    found = True
                    idf = math.log(1 + (count - frequency[term] + 0.5) / (frequency[term] + 0.5))
                    sum_ += idf * factor * tf / (tf + 1.2 * (1 - 0.75 + 0.75 * len(words) / mean))
            return sum_ if found else None

        return score

    def compile(self, query):
        """A function that gives the score of a document, or none if it does not match."""
        if not isinstance(query, dict) or len(query) != 1:
            raise Problem(400, "parsing_exception", "[_na] query malformed, expected one field name")
        (kind, body), fields = next(iter(query.items())), dict(leaves(self.index.mappings.get("properties", {})))
        if kind == "match_all":
            return lambda document: 1.0
        if kind == "bool":
            return self.compile_bool(body)
        if kind == "ids":
            ids = set(body["values"])
            return lambda document: 1.0 if document.id in ids else None
        if kind == "exists":
            name = body["field"]
            return lambda document: 1.0 if document.values.get(name) or name in document.vectors else None
        if kind == "script_score":
            return self.compile_script(body)
        if kind not in ("terms", "term", "range", "match"):
            raise Problem(400, "parsing_exception", f"unknown query [{kind}]")
        if len(body) != 1:
            raise Problem(400, "parsing_exception", f"[{kind}] query doesn't support multiple fields")
        name, wanted = next(iter(body.items()))
        if name not in fields or fields[name].get("index") is False:
            if name in fields:
                raise illegal(f"Cannot search on field [{name}] since it is not indexed", shard=True)
            return lambda document: None
        field = fields[name]
        if kind == "match":
            if field["type"] != "text":
                terms = {self.value(name, field, wanted["query"])}
                return lambda document: 1.0 if terms.intersection(document.values.get(name, ())) else None
            return self.bm25(name, analyze(wanted["query"]))
        if kind in ("terms", "term"):
            wanted = wanted if kind == "terms" else [wanted["value"] if isinstance(wanted, dict) else wanted]
            if len(wanted) > 65536:
                raise illegal(
                    "The number of terms used in the Terms Query request has exceeded the allowed maximum", shard=True
                )
            terms = {self.value(name, field, value) for value in wanted}
            return lambda document: 1.0 if terms.intersection(document.values.get(name, ())) else None
        if (
            not set(wanted) <= {"gt", "gte", "lt", "lte"}
            or {"gt", "gte"} <= set(wanted)
            or {"lt", "lte"} <= set(wanted)
        ):
            raise Problem(400, "parsing_exception", f"[range] query does not support {list(wanted)}")
        tests = {
            "gt": lambda a, b: a > b,
            "gte": lambda a, b: a >= b,
            "lt": lambda a, b: a < b,
            "lte": lambda a, b: a <= b,
        }
        bounds = [(tests[bound], self.value(name, field, value)) for bound, value in wanted.items()]
        return lambda document: (
            1.0
            if any(all(test(value, bound) for test, bound in bounds) for value in document.values.get(name, ()))
            else None
        )

    @staticmethod
    def value(name, field, value):
        kind = field["type"]
        if kind == "boolean":
            return value in (True, "true")
        if kind in INTEGERS or kind in FLOATS:
            if isinstance(value, (bool, str)):
                raise Problem(
                    400, "query_shard_exception", f'failed to create query: For input string: "{value}"', shard=True
                )
            return value
        return value if isinstance(value, str) else str(value)

    def compile_bool(self, body):
        unknown = set(body) - {"must", "filter", "should", "must_not", "minimum_should_match"}
        if unknown:
            raise Problem(400, "x_content_parse_exception", f"[1:1] [bool] unknown field {sorted(unknown)}")
        parts = {
            key: [
                self.compile(part)
                for part in (body.get(key, []) if isinstance(body.get(key, []), list) else [body[key]])
            ]
            for key in ("must", "filter", "should", "must_not")
        }
        least = body.get("minimum_should_match", 0 if parts["must"] or parts["filter"] else 1)

        def score(document):
            if any(part(document) is not None for part in parts["must_not"]):
                return None
            must = [part(document) for part in parts["must"]]
            if None in must or any(part(document) is None for part in parts["filter"]):
                return None
            should = [found for part in parts["should"] if (found := part(document)) is not None]
            return None if parts["should"] and len(should) < least else float(sum(must) + sum(should))

        return score

    def compile_script(self, body):
        inner, script = self.compile(body["query"]), body["script"]
        call = SCRIPT_CALL.search(script["source"])
        formula = call and SCRIPTS.get(script["source"].replace(call[0], "X"))
        is_opensearch = self.index.server.is_opensearch
        if not formula or call[1] not in EXACT[is_opensearch] or bool(call[3]) != is_opensearch:
            raise Problem(400, "script_exception", f"compile error: {script['source']}", shard=True)
        name, query = re.sub(r"\\(.)", r"\1", call[4]), numpy.array(script["params"][call[2]], dtype=numpy.float32)

        def score(document):
            if inner(document) is None:
                return None
            vector = document.vectors.get(name)
            if vector is None:
                raise Problem(
                    400,
                    "script_exception",
                    "runtime error",
                    shard=True,
                    cause="A document doesn't have a value for a vector field!",
                )
            if len(vector) != len(query):
                raise Problem(
                    400,
                    "script_exception",
                    "runtime error",
                    shard=True,
                    cause=f"The query vector has a different number of dimensions [{len(query)}] than the document vectors [{len(vector)}].",
                )
            if call[1] == "cosineSimilarity":
                compared = vector @ query / (numpy.linalg.norm(vector) * numpy.linalg.norm(query))
            else:
                compared = (
                    vector @ query if call[1] in ("dotProduct", "innerProduct") else ((vector - query) ** 2).sum()
                )
                compared = compared**0.5 if call[1] == "l2norm" else compared
            result = formula(float(compared))
            if not result >= 0:
                raise illegal(
                    f"script_score script returned an invalid score [{result}] for doc [0]. Must be a non-negative score!",
                    shard=True,
                )
            return result

        return score

    def nearest(self, name, query, k, conditions):
        """The documents with the nearest vectors, with scores as the server gives them."""
        field = dict(leaves(self.index.mappings.get("properties", {}))).get(name)
        if field is None or field["type"] not in VECTORS:
            raise Problem(
                400,
                "query_shard_exception",
                f"failed to create query: field [{name}] does not exist in the mapping",
                shard=True,
            )
        is_opensearch = self.index.server.is_opensearch
        if not is_opensearch and not field.get("index", True):
            raise illegal(
                f"to perform knn search on field [{name}], its mapping must have [index] set to [true]", shard=True
            )
        if is_opensearch and self.index.settings.get("knn") != "true":
            raise illegal("Field is not set up for approximate search", shard=True)
        dimensions = field.get("dims", field.get("dimension"))
        if len(query) != dimensions:
            reason = f"the query vector has a different dimension [{len(query)}] than the index vectors [{dimensions}]"
            if is_opensearch:
                reason = f"Query vector has invalid dimension: {len(query)}. Dimension should be: {dimensions}"
            raise Problem(400, "query_shard_exception", f"failed to create query: {reason}", shard=True)
        space = field.get("similarity", "cosine")
        if is_opensearch:
            space = field.get("space_type", field.get("method", {}).get("space_type", "l2"))
        query, (having, matrix) = numpy.array(query, dtype=numpy.float32), self.matrix(name)
        if not having:
            return []
        products = (matrix @ query).astype(float)
        if space in ("cosine", "cosinesimil"):
            scores = products / (numpy.linalg.norm(matrix, axis=1) * numpy.linalg.norm(query))
            scores = (1 + scores) / 2
            if (
                is_opensearch
                and self.index.server.version < (2, 19)
                and field.get("method", {}).get("engine") != "lucene"
            ):
                scores = 1 / (1 + (2 - 2 * scores))
        elif space == "dot_product":
            scores = (1 + products) / 2
        elif space in ("max_inner_product", "innerproduct"):
            scores = numpy.where(products < 0, 1 / (1 - numpy.minimum(products, 0)), products + 1)
        else:
            scores = 1 / (1 + ((matrix - query) ** 2).sum(axis=1).astype(float))
        tests = [self.compile(condition) for condition in conditions]
        found = [(float(scores[row]), having[row]) for row in numpy.argsort(-scores, kind="stable")]
        if tests:
            found = [
                (score, document) for score, document in found if all(test(document) is not None for test in tests)
            ]
        return found[:k]

    def search(self, body, shard):
        known = {"size", "query", "_source", "fields", "sort", "search_after", "track_total_hits"}
        is_opensearch = self.index.server.is_opensearch
        unknown = set(body) - known - (set() if is_opensearch else {"knn"})
        if unknown:
            raise Problem(400, "parsing_exception", f"Unknown key for a VALUE_STRING in {sorted(unknown)}.")
        size = body.get("size", 10)
        if size > WINDOW:
            raise illegal(
                f"Result window is too large, from + size must be less than or equal to: [{WINDOW}] but was [{size}].",
                shard=True,
            )
        query = body.get("query", {"match_all": {}})
        if "knn" in body:
            knn = body["knn"]
            if not 1 <= knn["k"] <= knn["num_candidates"] <= WINDOW:
                raise illegal("[num_candidates] cannot be less than [k] or exceed [10000]")
            conditions = knn.get("filter", [])
            found = self.nearest(
                knn["field"],
                knn["query_vector"],
                knn["k"],
                conditions if isinstance(conditions, list) else [conditions],
            )
        elif is_opensearch and "knn" in query:
            ((name, knn),) = query["knn"].items()
            if set(knn) - {"vector", "k", "filter"} or not 1 <= knn["k"] <= WINDOW:
                raise illegal("[knn] requires k to be in the range (0, 10000]")
            found = self.nearest(name, knn["vector"], knn["k"], [knn["filter"]] if "filter" in knn else [])
        else:
            score = self.compile(query)
            found = [(value, document) for document in self.documents if (value := score(document)) is not None]
        if shard is not None:
            found = [(score, document) for score, document in found if document.shard == shard]
        if "sort" not in body:
            # Equal scores are in no order of ids.
            return [
                (score, document, None)
                for score, document in sorted(found, key=lambda pair: (-numpy.float32(pair[0]), -pair[1].seq))
            ][:size]
        ((name, order),) = body["sort"][0].items()
        if order != "asc" or name == "_id":
            raise illegal(
                "Fielddata access on the _id field is disallowed, you can re-enable it by updating the dynamic cluster setting: indices.id_field_data.enabled",
                shard=True,
            )
        key = (lambda document: document.seq) if name == "_seq_no" else (lambda document: min(document.values[name]))
        found = sorted(((key(document), document) for _, document in found), key=lambda pair: pair[0])
        if "search_after" in body:
            found = [(value, document) for value, document in found if value > body["search_after"][0]]
        return [(None, document, [value]) for value, document in found[:size]]
