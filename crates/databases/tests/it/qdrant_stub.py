"""A stand-in for a Qdrant server: the part of its REST interface that the tests use, on top of Qdrant's own engine.

Paths, bodies, status codes and error texts follow Qdrant 1.19 (its OpenAPI description and its source). Points are
stored, filtered and searched by the package `qdrant-edge-py`, whose write-ahead log keeps every acknowledged write when
the process is killed. What is not the engine's is here: the names of collections, aliases, logins and the optimizer's
schedule. One more part is: the package takes the booleans of a filter for integers, so those are compared here, and the
engine gets the ids of the points that pass. One process has one shard, and nothing is replicated.

    qdrant_stub.py --port 6333 --path data [--api-key KEY] [--read-only-api-key KEY] [--max-request-bytes N]
"""

import argparse
import json
import os
import shutil
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import qdrant_edge as edge
from qdrant_stub_filters import Refused, bad_json, filter_of, id_json, point_id

VERSION = "1.19.0"
# A server stops its old optimizers in the background before new settings hold.
OPTIMIZER_PAUSE = 0.2
INVALID_NAME = '<>:"/\\|?*\0\x1f'
DISTANCES = {name: getattr(edge.Distance, name) for name in ("Cosine", "Dot", "Euclid", "Manhattan")}
DATATYPES = {
    "float32": edge.VectorStorageDatatype.Float32,
    "float16": edge.VectorStorageDatatype.Float16,
    "uint8": edge.VectorStorageDatatype.Uint8,
}


class Collection:
    """A collection on disk: its settings, and a shard of the engine."""

    def __init__(self, folder):
        self.folder = folder
        self.settings = json.loads((folder / "settings.json").read_text())
        self.lock = threading.RLock()
        self.is_building = False
        # A server that was killed while it optimized does not go on by itself.
        self.is_waiting = self.settings["is_unfinished"]
        self.engine = edge.EdgeShard.load(str(folder / "shard"))

    @property
    def shard(self):
        if self.engine is None:
            raise Refused(404, f"Not found: Collection `{self.folder.name}` doesn't exist!")
        return self.engine

    @staticmethod
    def is_unnamed(vectors):
        return isinstance(vectors.get("size"), int)

    @staticmethod
    def config(settings):
        def hnsw(diff):
            all_values = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000} | settings["hnsw_config"] | diff
            return edge.HnswIndexConfig(
                m=all_values["m"],
                ef_construct=all_values["ef_construct"],
                full_scan_threshold=all_values["full_scan_threshold"],
            )

        def vector(body):
            return edge.EdgeVectorParams(
                size=body["size"],
                distance=DISTANCES[body["distance"]],
                datatype=DATATYPES[body["datatype"]] if body.get("datatype") else None,
                hnsw_config=hnsw(body.get("hnsw_config") or {}),
            )

        def quantization(body):
            if not body:
                return None
            if "binary" in body:
                return edge.BinaryQuantizationConfig(always_ram=body["binary"].get("always_ram"))
            if body.get("scalar", {}).get("type") == "int8":
                return edge.ScalarQuantizationConfig(edge.ScalarType.Int8, always_ram=body["scalar"].get("always_ram"))
            raise bad_json("data did not match any variant of untagged enum QuantizationConfig")

        vectors = settings["vectors"]
        unnamed = Collection.is_unnamed(vectors)
        return edge.EdgeConfig(
            vectors=vector(vectors) if unnamed else {name: vector(body) for name, body in vectors.items()},
            sparse_vectors={name: edge.EdgeSparseVectorParams() for name in settings["sparse_vectors"]},
            hnsw_config=hnsw({}),
            quantization_config=quantization(settings.get("quantization_config")),
            optimizers=edge.EdgeOptimizersConfig(
                indexing_threshold=settings["optimizers_config"].get("indexing_threshold", 10000)
            ),
        )

    @classmethod
    def create(cls, folder, body):
        vectors = body.get("vectors") or {}
        all_vectors = [vectors] if cls.is_unnamed(vectors) else vectors.values()
        for vector in all_vectors:
            if vector.get("distance") not in DISTANCES:
                raise bad_json(f"unknown variant `{vector.get('distance')}`, expected one of {', '.join(DISTANCES)}")
            if vector.get("datatype") and vector["datatype"] not in DATATYPES:
                raise bad_json(f"unknown variant `{vector['datatype']}`")
            if not 1 <= vector["size"] <= 65536:
                raise Refused(422, "Validation error in JSON body: [vectors.size: must be from 1 to 65536]")
        settings = {
            "vectors": vectors,
            "sparse_vectors": body.get("sparse_vectors") or {},
            "hnsw_config": body.get("hnsw_config") or {},
            "optimizers_config": body.get("optimizers_config") or {},
            "quantization_config": body.get("quantization_config"),
            "is_unfinished": False,
        }
        if settings["hnsw_config"].get("ef_construct", 4) < 4:
            raise Refused(422, "Validation error in JSON body: [hnsw_config.ef_construct: must be 4 or larger]")
        if not cls.is_unnamed(vectors):
            for name in [*vectors, *settings["sparse_vectors"]]:
                if len(name.encode()) > 200 or any(character in name for character in INVALID_NAME):
                    raise Refused(422, f"Validation error in JSON body: [vectors: vector name `{name}`]")
        # The collection appears as a whole or not at all.
        new = folder.with_name(f".new-{uuid.uuid4()}")
        (new / "shard").mkdir(parents=True)
        (new / "settings.json").write_text(json.dumps(settings))
        edge.EdgeShard.create(str(new / "shard"), cls.config(settings)).close()
        new.rename(folder)
        return cls(folder)

    def save_settings(self):
        new = self.folder / "settings.new"
        new.write_text(json.dumps(self.settings))
        new.rename(self.folder / "settings.json")

    def change_optimizers(self, diff):
        with self.lock:
            self.settings["optimizers_config"] |= {key: value for key, value in diff.items() if value is not None}
            self.settings["is_unfinished"] = True
            self.save_settings()
            self.is_waiting = False
        threading.Thread(target=self.optimize, daemon=True).start()

    def optimize(self):
        time.sleep(OPTIMIZER_PAUSE)
        self.is_building = True
        with self.lock:
            if self.engine is not None:
                self.engine.close()
                self.engine = edge.EdgeShard.load(str(self.folder / "shard"), self.config(self.settings))
                self.engine.optimize()
                self.settings["is_unfinished"] = False
                self.save_settings()
            self.is_building = False

    def info(self):
        # Answers also while the index is being built.
        is_building, counts = self.is_building, None
        if not is_building:
            with self.lock:
                counts = self.shard.info()
        settings = self.settings
        return {
            "status": "yellow" if is_building else "grey" if self.is_waiting else "green",
            "optimizer_status": "ok",
            "indexed_vectors_count": 0 if counts is None else counts.indexed_vectors_count,
            "points_count": 0 if counts is None else counts.points_count,
            "segments_count": 1 if counts is None else counts.segments_count,
            "config": {
                "params": {
                    "vectors": settings["vectors"],
                    "shard_number": 1,
                    "replication_factor": 1,
                    "write_consistency_factor": 1,
                    "on_disk_payload": True,
                    **({"sparse_vectors": settings["sparse_vectors"]} if settings["sparse_vectors"] else {}),
                },
                "hnsw_config": {
                    "m": 16,
                    "ef_construct": 100,
                    "full_scan_threshold": 10000,
                    "max_indexing_threads": 0,
                    "on_disk": False,
                }
                | settings["hnsw_config"],
                "optimizer_config": {
                    "deleted_threshold": 0.2,
                    "vacuum_min_vector_number": 1000,
                    "default_segment_number": 0,
                    "max_segment_size": None,
                    "memmap_threshold": None,
                    "indexing_threshold": 10000,
                    "flush_interval_sec": 5,
                    "max_optimization_threads": None,
                }
                | settings["optimizers_config"],
                "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0, "wal_retain_closed": 1},
                "quantization_config": settings.get("quantization_config"),
            },
            "payload_schema": {},
            "update_queue": {"length": 0},
        }

    def record(self, found, with_payload, with_vector):
        body = {"id": id_json(found.id)}
        if with_payload:
            body["payload"] = found.payload
        if with_vector:
            body["vector"] = found.vector
        return body

    def update(self, operation):
        with self.lock:
            self.shard.update(operation)

    def upsert(self, body):
        if "points" not in body:
            raise bad_json("data did not match any variant of untagged enum PointInsertOperations")
        points = []
        for point in body["points"]:
            if "id" not in point or "vector" not in point:
                raise bad_json("data did not match any variant of untagged enum PointInsertOperations")
            points.append(edge.Point(point_id(point["id"]), point["vector"], point.get("payload") or {}))
        if not points:
            raise Refused(422, "Validation error in JSON body: [points: empty]")
        self.update(edge.UpdateOperation.upsert_points(points))
        return {"operation_id": 0, "status": "completed"}

    def delete(self, body):
        match body:
            case {"points": ids}:
                self.update(edge.UpdateOperation.delete_points([point_id(each) for each in ids]))
            case {"filter": inner}:
                self.update(edge.UpdateOperation.delete_points_by_filter(filter_of(inner, self)))
            case _:
                raise bad_json("data did not match any variant of untagged enum PointsSelector")
        return {"operation_id": 0, "status": "completed"}

    def retrieve(self, body):
        with_payload, with_vector = body.get("with_payload", True), body.get("with_vector", False)
        with self.lock:
            records = self.shard.retrieve([point_id(each) for each in body["ids"]], with_payload, with_vector)
        return [self.record(record, with_payload, with_vector) for record in records]

    def scroll(self, body):
        with_payload, with_vector = body.get("with_payload", True), body.get("with_vector", False)
        offset = body.get("offset")
        request = edge.ScrollRequest(
            offset=None if offset is None else point_id(offset),
            limit=body.get("limit", 10),
            filter=filter_of(body.get("filter"), self),
            with_payload=with_payload,
            with_vector=with_vector,
        )
        with self.lock:
            records, following = self.shard.scroll(request)
        return {
            "points": [self.record(record, with_payload, with_vector) for record in records],
            "next_page_offset": None if following is None else id_json(following),
        }

    def count(self, body):
        request = edge.CountRequest(exact=body.get("exact", True), filter=filter_of(body.get("filter"), self))
        with self.lock:
            return {"count": self.shard.count(request)}

    def query(self, body):
        params = body.get("params") or {}
        quantization = params.get("quantization") or {}
        with_payload, with_vector = body.get("with_payload", False), body.get("with_vector", False)
        request = edge.QueryRequest(
            limit=body.get("limit", 10),
            query=edge.Query.Nearest(body["query"], using=body.get("using")),
            filter=filter_of(body.get("filter"), self),
            params=edge.SearchParams(
                hnsw_ef=params.get("hnsw_ef"),
                exact=params.get("exact") or False,
                quantization=edge.QuantizationSearchParams(
                    ignore=quantization.get("ignore") or False,
                    rescore=quantization.get("rescore"),
                    oversampling=quantization.get("oversampling"),
                ),
                indexed_only=params.get("indexed_only") or False,
            ),
            with_payload=with_payload,
            with_vector=with_vector,
        )
        with self.lock:
            found = self.shard.query(request)
        points = [
            self.record(point, with_payload, with_vector) | {"version": point.version, "score": point.score}
            for point in found
        ]
        return {"points": points}


class Storage:
    """All collections and aliases."""

    def __init__(self, path):
        self.collections_path = path / "collections"
        self.aliases_path = path / "aliases.json"
        self.collections_path.mkdir(parents=True, exist_ok=True)
        self.lock = threading.RLock()
        self.collections = {}
        for folder in self.collections_path.iterdir():
            if folder.name.startswith("."):
                shutil.rmtree(folder)
            else:
                self.collections[folder.name] = Collection(folder)
        self.aliases = json.loads(self.aliases_path.read_text()) if self.aliases_path.exists() else {}

    def save_aliases(self):
        new = self.aliases_path.with_suffix(".new")
        new.write_text(json.dumps(self.aliases))
        new.rename(self.aliases_path)

    def find(self, name):
        with self.lock:
            collection = self.collections.get(self.aliases.get(name, name))
        if collection is None:
            raise Refused(404, f"Not found: Collection `{name}` doesn't exist!")
        return collection

    def create(self, name, body):
        if not 1 <= len(name.encode()) <= 255 or any(character in name for character in INVALID_NAME):
            raise Refused(422, f"Validation error in path parameters: [collection_name: collection name {name!r}]")
        with self.lock:
            if name in self.collections:
                raise Refused(409, f"Wrong input: Collection `{name}` already exists!")
            if name in self.aliases:
                raise Refused(
                    400,
                    f"Wrong input: Can't create collection with name {name}. Alias with the same name already exists",
                )
            self.collections[name] = Collection.create(self.collections_path / name, body)
        return True

    def delete(self, name):
        with self.lock:
            self.aliases = {alias: target for alias, target in self.aliases.items() if target != name}
            self.save_aliases()
            collection = self.collections.pop(name, None)
            if collection is None:
                return False
            with collection.lock:
                collection.engine.close()
                collection.engine = None
            deleted = self.collections_path / f".deleted-{uuid.uuid4()}"
            collection.folder.rename(deleted)
            shutil.rmtree(deleted)
        return True

    def change_aliases(self, body):
        with self.lock:
            for action in body["actions"]:
                match action:
                    case {"create_alias": {"collection_name": target, "alias_name": alias}}:
                        if target not in self.collections:
                            raise Refused(404, f"Not found: Collection `{target}` doesn't exist!")
                        if alias in self.collections:
                            raise Refused(409, f"Wrong input: Collection `{alias}` already exists!")
                        self.aliases[alias] = target
                    case {"delete_alias": {"alias_name": alias}}:
                        self.aliases.pop(alias, None)
                    case {"rename_alias": {"old_alias_name": old, "new_alias_name": alias}}:
                        if old not in self.aliases:
                            raise Refused(404, f"Not found: Alias {old} does not exists!")
                        self.aliases[alias] = self.aliases.pop(old)
                    case _:
                        raise bad_json("data did not match any variant of untagged enum AliasOperations")
                self.save_aliases()
        return True

    def handle(self, method, path, body):
        match method, path:
            case "GET", ["collections"]:
                with self.lock:
                    return {"collections": [{"name": name} for name in sorted(self.collections)]}
            case "GET", ["aliases"]:
                with self.lock:
                    pairs = self.aliases.items()
                    return {"aliases": [{"alias_name": alias, "collection_name": target} for alias, target in pairs]}
            case "POST", ["collections", "aliases"]:
                return self.change_aliases(body)
            case "GET", ["collections", name]:
                return self.find(name).info()
            case "GET", ["collections", name, "exists"]:
                with self.lock:
                    return {"exists": self.aliases.get(name, name) in self.collections}
            case "PUT", ["collections", name]:
                return self.create(name, body)
            case "PATCH", ["collections", name]:
                self.find(name).change_optimizers(body.get("optimizers_config") or {})
                return True
            case "DELETE", ["collections", name]:
                return self.delete(name)
            case "PUT", ["collections", name, "points"]:
                return self.find(name).upsert(body)
            case "POST", ["collections", name, "points"]:
                return self.find(name).retrieve(body)
            case "POST", ["collections", name, "points", ("scroll" | "count" | "query" | "delete") as action]:
                return getattr(self.find(name), action)(body)
        return None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1

    def log_message(self, *_):
        pass

    def reply(self, status, body, kind="application/json"):
        body = json.dumps(body).encode() if kind == "application/json" else body.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def fail(self, status, message):
        self.reply(status, {"status": {"error": message}, "time": 0.0})

    def may_write(self):
        """Whether the login may change something; none if there is no login or a wrong one."""
        settings = self.server.settings
        if settings.api_key is None:
            return True
        key = self.headers.get("api-key") or self.headers.get("authorization", "").removeprefix("Bearer ")
        if key == settings.api_key:
            return True
        return False if settings.read_only_api_key and key == settings.read_only_api_key else None

    def serve(self):
        started = time.monotonic()
        sent = self.rfile.read(int(self.headers.get("content-length", 0)))
        url = urlsplit(self.path)
        path = [unquote(part) for part in url.path.split("/") if part]
        if self.command == "GET" and not path:
            return self.reply(200, {"title": "qdrant - vector search engine", "version": VERSION, "commit": "stub"})
        may_write = self.may_write()
        if may_write is None:
            has_key = "api-key" in self.headers or "authorization" in self.headers
            message = (
                "Invalid API key or JWT"
                if has_key
                else "Must provide an API key or an Authorization bearer token"
            )
            return self.reply(401, message, "text/plain; charset=utf-8")
        limit = self.server.settings.max_request_bytes
        if len(sent) > limit:
            return self.fail(400, f"JSON payload ({len(sent)} bytes) is larger than allowed (limit: {limit} bytes).")
        reads = self.command == "GET" or (path[-1:] in (["scroll"], ["count"], ["query"], ["points"])) and (
            self.command == "POST"
        )
        if not may_write and not reads:
            return self.fail(403, "Forbidden: Global manage access is required")
        try:
            try:
                body = json.loads(sent) if sent else {}
            except ValueError as error:
                raise bad_json(error) from error
            if self.command in ("PUT", "POST") and path[-1] in ("points", "delete") and "wait=true" not in url.query:
                if self.command == "PUT" or path[-1] == "delete":
                    raise Refused(500, "the stub acknowledges only what is done: wait=true is missing")
            result = self.server.storage.handle(self.command, path, body)
        except Refused as error:
            return self.fail(error.status, str(error))
        except (KeyError, TypeError, AttributeError) as error:
            return self.fail(400, f"Format error in JSON body: {error!r}")
        except Exception as error:  # The engine raises plain exceptions.
            return self.fail(400, f"Wrong input: {error}")
        if result is None:
            return self.reply(404, "", "text/plain")
        return self.reply(200, {"result": result, "status": "ok", "time": time.monotonic() - started})

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = serve


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--api-key")
    parser.add_argument("--read-only-api-key")
    parser.add_argument("--max-request-bytes", type=int, default=32 << 20)
    settings = parser.parse_args()
    os.makedirs(settings.path, exist_ok=True)
    storage = Storage(settings.path)
    server = Server(("127.0.0.1", settings.port), Handler)
    server.settings, server.storage = settings, storage
    server.serve_forever()


if __name__ == "__main__":
    main()
