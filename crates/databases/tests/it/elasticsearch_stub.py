"""A stub of Elasticsearch and OpenSearch for tests: the parts of their REST interface that Reverie uses, as their
documentation describes them. It compares all vectors, keeps what it acknowledged on disk, and makes writes searchable
only at a refresh, never by itself. What a server would refuse (parameters, keys, mappings, names) it refuses.

usage: python elasticsearch_stub.py PORT FOLDER elasticsearch|opensearch VERSION [USER:PASSWORD [API_KEY]]

`POST /_stub` sets what goes wrong: `reject_items` (each n-th item of a bulk is refused with 429), `delay_ms` (of a
search), `refresh_ms` (of the next refresh) and `slow_item_ms` (of each item of a bulk); `read_only: true` takes the right to write away.
"""

import base64
import json
import os
import sys
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy
from elasticsearch_stub_search import Document, Problem, Searcher, illegal, leaves

MAX_BODY = 10 << 20
FORBIDDEN = set('\\/*?"<>| ,#:')
TYPES = {
    "keyword",
    "text",
    "long",
    "integer",
    "short",
    "byte",
    "float",
    "double",
    "boolean",
    "date",
    "object",
    "nested",
}


class Index:
    def __init__(self, server, name, body, identity):
        self.server, self.name, self.uuid = server, name, identity
        self.mappings = body.get("mappings", {})
        self.settings = {key: str(value).lower() for key, value in body.get("settings", {}).get("index", {}).items()}
        self.shards = int(self.settings.setdefault("number_of_shards", "1"))
        self.aliases = {alias: {} for alias in body.get("aliases", {})}
        self.documents, self.counts, self.rejected = {}, [0] * self.shards, 0
        self.parsing = "mapper_parsing_exception" if server.is_opensearch else "document_parsing_exception"
        self.searcher = Searcher(self, [])
        for path, field in leaves(self.mappings.get("properties", {})):
            self.check_field(path, field)

    def check_field(self, path, field):
        def refuse(reason):
            raise Problem(400, "mapper_parsing_exception", f"Failed to parse mapping: {reason}", cause=reason)

        kind, vector = field["type"], "knn_vector" if self.server.is_opensearch else "dense_vector"
        if kind not in TYPES | {vector}:
            refuse(f"No handler for type [{kind}] declared on field [{path}]")
        if kind == "dense_vector":
            if set(field) - {"type", "dims", "index", "similarity", "index_options", "element_type"}:
                refuse(f"unknown parameter on mapper [{path}] of type [{kind}]")
            if not 1 <= field.get("dims", 1) <= 4096:
                refuse(f"The number of dimensions should be in the range [1, 4096] but was [{field['dims']}]")
            if field.get("index", True):
                # The server returns the defaults that it chose.
                field["index"] = True
                field.setdefault("similarity", "cosine")
                field.setdefault("index_options", {"type": "int8_hnsw", "m": 16, "ef_construction": 100})
            elif "similarity" in field or "index_options" in field:
                refuse("Field [similarity] can only be specified for a field of type [dense_vector] when it is indexed")
        if kind == "knn_vector":
            if set(field) - {"type", "dimension", "method", "space_type", "data_type"} or "dimension" not in field:
                refuse(f"unknown or missing parameter on mapper [{path}] of type [{kind}]")
            if "space_type" in field and self.server.version < (2, 17):
                refuse(f"unknown parameter [space_type] on mapper [{path}] of type [{kind}]")
            if set(field.get("method", {})) - {"name", "engine", "space_type", "parameters"}:
                refuse(f"unknown key in method of [{path}]")

    def refresh(self):
        self.searcher = Searcher(
            self, sorted(self.documents.values(), key=lambda document: (document.shard, document.seq))
        )

    def put(self, id, source):
        document = Document(self, id, source)
        document.seq = self.counts[document.shard]
        self.counts[document.shard] += 1
        created = id not in self.documents
        self.documents[id] = document
        return created

    def remove(self, id):
        found = self.documents.pop(id, None)
        if found:
            self.counts[found.shard] += 1
        return found is not None

    def describe(self):
        settings = self.settings | {"number_of_replicas": "1", "uuid": self.uuid, "provided_name": self.name}
        return {"aliases": self.aliases, "mappings": self.mappings, "settings": {"index": settings}}


class Server:
    def __init__(self, folder, product, version, login, key):
        self.is_opensearch, self.number = product == "opensearch", version
        self.version = tuple(int(part) for part in version.split(".")[:2])
        self.login, self.key, self.faults = login, key, {}
        self.indexes, self.lock = {}, threading.RLock()
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "log")
        kept = b""
        if os.path.exists(path):
            with open(path, "rb") as log:
                kept = log.read()
            # A line that was cut off by a kill was never acknowledged.
            kept = kept[: kept.rfind(b"\n") + 1]
        for line in kept.splitlines():
            self.apply(json.loads(line))
        for index in self.indexes.values():
            index.refresh()
        with open(path, "wb") as log:
            log.write(kept)
        self.log = os.open(path, os.O_WRONLY | os.O_APPEND)

    def major_opensearch(self):
        return self.version[0] if self.is_opensearch else 0

    def apply(self, change):
        kind, name, *rest = change
        if kind == "create":
            self.indexes[name] = Index(self, name, *rest)
        elif kind == "delete":
            del self.indexes[name]
        elif kind == "meta":
            self.indexes[name].mappings["_meta"] = rest[0]
        elif kind == "put":
            return self.indexes[name].put(*rest)
        elif kind == "remove":
            return self.indexes[name].remove(*rest)
        elif kind == "aliases":
            for action, alias, index in name:
                if action == "add":
                    self.indexes[index].aliases[alias] = {}
                else:
                    self.indexes[index].aliases.pop(alias, None)
        return None

    def change(self, *change):
        """Does it, and keeps it on disk."""
        done = self.apply(change)
        os.write(self.log, json.dumps(change).encode() + b"\n")
        return done

    def resolve(self, name):
        if name in self.indexes:
            return [self.indexes[name]]
        found = [index for index in self.indexes.values() if name in index.aliases]
        if not found:
            raise Problem(404, "index_not_found_exception", f"no such index [{name}]")
        return found

    def is_alias(self, name):
        return any(name in index.aliases for index in self.indexes.values())

    def one(self, name):
        found = self.resolve(name)
        if len(found) > 1:
            raise illegal(
                f"Alias [{name}] has more than one indices associated with it, can't execute a single index op"
            )
        return found[0]

    def create(self, name, body):
        invalid = FORBIDDEN & set(name) or name.lower() != name or name[0] in "_-+" or len(name.encode()) > 255
        if invalid:
            raise Problem(
                400,
                "invalid_index_name_exception",
                f"Invalid index name [{name}], must be lowercase and must not contain the following characters",
            )
        if name in self.indexes:
            raise Problem(
                400, "resource_already_exists_exception", f"index [{name}/{self.indexes[name].uuid}] already exists"
            )
        if self.is_alias(name):
            raise Problem(400, "invalid_index_name_exception", f"Invalid index name [{name}], already exists as alias")
        if set(body) - {"settings", "mappings", "aliases"}:
            raise Problem(400, "parse_exception", f"unknown key {list(body)} for create index")
        known = {"number_of_shards", "number_of_replicas", "refresh_interval"} | (
            {"knn"} if self.is_opensearch else set()
        )
        for setting in set(body.get("settings", {}).get("index", {})) - known:
            raise illegal(
                f"unknown setting [index.{setting}] please check that any required plugins are installed, or check the breaking changes documentation for removed settings"
            )
        identity = uuid.uuid4().hex
        Index(self, name, json.loads(json.dumps(body)), identity)
        self.change("create", name, body, identity)
        return {"acknowledged": True, "shards_acknowledged": True, "index": name}

    def alias_actions(self, body):
        changes = []
        for action in body["actions"]:
            ((kind, details),) = action.items()
            name, alias = details["index"], details["alias"]
            if name not in self.indexes:
                raise Problem(404, "index_not_found_exception", f"no such index [{name}]")
            if kind == "add" and alias in self.indexes:
                raise Problem(
                    400,
                    "invalid_alias_name_exception",
                    f"Invalid alias name [{alias}]: an index or data stream exists with the same name as the alias",
                )
            if kind == "remove" and alias not in self.indexes[name].aliases:
                if not details.get("must_exist") and len(body["actions"]) > 1:
                    continue
                raise Problem(404, "aliases_not_found_exception", f"aliases [{alias}] missing")
            changes.append([kind, alias, name])
        self.change("aliases", changes)
        return {"acknowledged": True}

    def bulk(self, path_index, parameters, body):
        if not body.endswith(b"\n"):
            raise illegal("The bulk request must be terminated by a newline [\\n]")
        lines, items, touched = iter(body.split(b"\n")[:-1]), [], set()
        for line in lines:
            action = json.loads(line)
            ((kind, details),) = action.items()
            name, id = details.get("_index", path_index), details["_id"]
            source = next(lines) if kind == "index" else None
            with self.lock:
                item = self.bulk_item(kind, name, id, source, parameters, touched)
            items.append({kind: {"_index": name, "_id": id} | item})
            time.sleep(self.faults.get("slow_item_ms", 0) / 1000)
        if parameters.get("refresh") == "true":
            for index in touched:
                index.refresh()
        return {"took": 1, "errors": any("error" in item[kind] for item in items for kind in item), "items": items}

    def bulk_item(self, kind, name, id, source, parameters, touched):
        try:
            if kind == "index" and parameters.get("require_alias") == "true" and not self.is_alias(name):
                raise Problem(
                    404,
                    "index_not_found_exception",
                    f"no such index [{name}] and [require_alias] request flag is [true] and [{name}] is not an alias",
                )
            if kind == "index" and name not in self.indexes and not self.is_alias(name):
                # As servers do by default.
                self.create(name, {})
            index = self.one(name)
            touched.add(index)
            if self.faults.get("reject_items"):
                index.rejected += 1
                if index.rejected % self.faults["reject_items"] == 0:
                    raise Problem(
                        429,
                        "es_rejected_execution_exception" if not self.is_opensearch else "rejected_execution_exception",
                        "rejected execution of coordinating operation",
                    )
            if not 0 < len(id.encode()) <= 512:
                raise illegal(f"id [{id}] is too long, must be no longer than 512 bytes but was: {len(id.encode())}")
            if kind == "delete":
                removed = self.change("remove", index.name, id)
                return {"result": "deleted" if removed else "not_found", "status": 200 if removed else 404}
            created = self.change("put", index.name, id, json.loads(source))
            return {"result": "created" if created else "updated", "status": 201 if created else 200}
        except Problem as problem:
            return {"status": problem.status, "error": problem.item()}


def filtered(value, path):
    """What `filter_path` leaves of a reply."""
    if not path or not isinstance(value, dict):
        return value if not path else None
    kept = {}
    for key, inner in value.items():
        if path[0] in ("*", key) and (inner := filtered(inner, path[1:])) not in (None, {}):
            kept[key] = inner
    return kept


def source_of(server, index, document, wanted):
    if wanted is False:
        return None
    wanted, source = wanted if isinstance(wanted, dict) else {}, document.source
    excludes = list(wanted.get("excludes", []))
    if not server.is_opensearch and server.version >= (9, 2):
        excludes += document.vectors
    if "includes" in wanted:
        source = {
            key: value for key, value in source.items() if any(path.split(".")[0] == key for path in wanted["includes"])
        }

    def without(value, before):
        if isinstance(value, dict):
            return {
                key: without(inner, f"{before}{key}.")
                for key, inner in value.items()
                if f"{before}{key}" not in excludes
            }
        return value

    return without(source, "")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def reply(self, status, body, kind="application/json"):
        data = json.dumps(body).encode() if kind == "application/json" else body.encode()
        self.send_response(status)
        if not self.server.state.is_opensearch:
            self.send_header("X-elastic-product", "Elasticsearch")
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def handle_any(self):
        state, body = self.server.state, b""
        length = int(self.headers.get("content-length", 0))
        if length > MAX_BODY:
            self.close_connection = True
            return self.reply(413, {"Message": f"Request size exceeded {MAX_BODY} bytes"})
        if length:
            body = self.rfile.read(length)
        if not self.is_logged_in(state):
            if state.is_opensearch:
                return self.reply(401, "Unauthorized", "text/plain")
            problem = Problem(
                401,
                "security_exception",
                f"unable to authenticate with {self.headers.get('authorization')} for REST request [{self.path}]",
            )
            return self.reply(401, problem.body())
        path, _, query = self.path.partition("?")
        parameters = dict(urllib.parse.parse_qsl(query))
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        try:
            if body and self.headers.get("content-type") not in ("application/json", "application/x-ndjson"):
                raise Problem(406, "media_type_header_exception", "Content-Type header is not supported")
            reply = self.route(state, self.command, parts, parameters, body)
            if "filter_path" in parameters:
                reply = filtered(reply, parameters["filter_path"].split("."))
            return self.reply(200, reply)
        except Problem as problem:
            return self.reply(problem.status, problem.body())
        except (ValueError, KeyError, TypeError) as error:
            return self.reply(400, Problem(400, "x_content_parse_exception", f"[1:1] {error!r}").body())

    do_GET = do_POST = do_PUT = do_DELETE = handle_any

    def is_logged_in(self, state):
        if state.login is None:
            return True
        given = self.headers.get("authorization", "")
        basic = "Basic " + base64.b64encode(state.login.encode()).decode()
        return given == basic or (state.key is not None and not state.is_opensearch and given == f"ApiKey {state.key}")

    def route(self, state, method, parts, parameters, body):
        def allow(*names):
            for name in set(parameters) - set(names) - {"filter_path"}:
                raise illegal(f"request [{self.path}] contains unrecognized parameter: [{name}]")

        first, action = parts[0], parts[1] if len(parts) > 1 else ""
        if (method, first) == ("POST", "_stub"):
            state.faults = json.loads(body)
            return {}
        is_write = method in ("PUT", "DELETE") or action == "_bulk" or first == "_aliases"
        if is_write and state.faults.get("read_only"):
            raise Problem(
                403,
                "security_exception",
                "action [indices:admin/create] is unauthorized for user [reader] with effective roles [viewer]",
            )
        if (method, action) == ("POST", "_bulk"):
            allow("require_alias", "refresh")
            return state.bulk(first, parameters, body)
        if (method, action) == ("POST", "_search"):
            time.sleep(state.faults.get("delay_ms", 0) / 1000)
        if (method, action) == ("POST", "_refresh"):
            time.sleep(state.faults.pop("refresh_ms", 0) / 1000)
        with state.lock:
            if (method, first) == ("GET", ""):
                version = {"number": state.number, "lucene_version": "10.2.2"} | (
                    {"distribution": "opensearch"} if state.is_opensearch else {"build_flavor": "default"}
                )
                tagline = (
                    "The OpenSearch Project: https://opensearch.org/" if state.is_opensearch else "You Know, for Search"
                )
                return {
                    "name": "stub",
                    "cluster_name": "stub",
                    "cluster_uuid": "u",
                    "version": version,
                    "tagline": tagline,
                }
            if method == "GET" and first in ("_mapping", "_alias"):
                allow()
                part = "mappings" if first == "_mapping" else "aliases"
                return {name: {part: getattr(index, part)} for name, index in state.indexes.items()}
            if (method, first) == ("POST", "_aliases"):
                allow()
                return state.alias_actions(json.loads(body))
            if first.startswith("_") or not first:
                raise illegal(f"no handler found for uri [{self.path}] and method [{method}]")
            if (method, action) == ("PUT", ""):
                allow()
                return state.create(first, json.loads(body or b"{}"))
            if (method, action) == ("GET", ""):
                allow()
                return {index.name: index.describe() for index in state.resolve(first)}
            if (method, action) == ("DELETE", ""):
                allow()
                if first not in state.indexes:
                    state.resolve(first)
                    raise illegal(
                        f"The provided expression [{first}] matches an alias, specify the corresponding concrete indices instead."
                    )
                state.change("delete", first)
                return {"acknowledged": True}
            if (method, action) == ("PUT", "_mapping"):
                allow()
                given = json.loads(body)
                if set(given) != {"_meta"}:
                    raise illegal("this stub changes only `_meta`")
                state.change("meta", state.one(first).name, given["_meta"])
                return {"acknowledged": True}
            if (method, action) == ("POST", "_refresh"):
                allow()
                for index in state.resolve(first):
                    index.refresh()
                return {"_shards": {"total": 2, "successful": 1, "failed": 0}}
            index = state.one(first)
            if (method, action) == ("POST", "_count"):
                allow()
                score = index.searcher.compile(json.loads(body)["query"])
                return {
                    "count": sum(score(document) is not None for document in index.searcher.documents),
                    "_shards": {"failed": 0},
                }
            if (method, action) == ("GET", "_stats"):
                allow("level")
                shards = {
                    str(shard): [{"routing": {"primary": True}, "seq_no": {"max_seq_no": count - 1}}]
                    for shard, count in enumerate(index.counts)
                }
                store = {"store": {"size_in_bytes": 1000 * len(index.documents)}}
                return {
                    "_all": {"primaries": store},
                    "indices": {index.name: {"uuid": index.uuid, "primaries": store, "shards": shards}},
                }
            if (method, action) == ("POST", "_search"):
                allow("preference", "search_type")
                searched, searcher, body = parameters.get("preference", ""), index.searcher, json.loads(body)
                shard = int(searched.split(":")[1]) if searched else None
        if (method, action) != ("POST", "_search"):
            raise illegal(f"no handler found for uri [{self.path}] and method [{method}]")
        hits = []
        for score, document, sort in searcher.search(body, shard):
            hit = {
                "_index": index.name,
                "_id": document.id,
                "_score": None if score is None else float(numpy.float32(score)),
            }
            if (source := source_of(state, index, document, body.get("_source", True))) is not None:
                hit["_source"] = source
            fields = {
                name: document.vectors[name].tolist() for name in body.get("fields", []) if name in document.vectors
            }
            hits.append(hit | ({"fields": fields} if fields else {}) | ({"sort": sort} if sort else {}))
        best = max((hit["_score"] for hit in hits if hit["_score"] is not None), default=None)
        return {
            "took": 1,
            "timed_out": False,
            "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
            "hits": {"max_score": best, "hits": hits},
        }

    def log_message(self, *arguments):
        pass


class StubServer(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


if __name__ == "__main__":
    port, folder, product, version, *secrets = sys.argv[1:]
    server = StubServer(("127.0.0.1", int(port)), Handler)
    server.state = Server(folder, product, version, *(secrets + [None, None])[:2])
    server.serve_forever()
