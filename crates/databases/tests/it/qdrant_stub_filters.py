"""Ids, filters and refusals of the stub in `qdrant_stub.py`."""

import re
import uuid

import qdrant_edge as edge


class Refused(Exception):
    """A reply with an error."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def bad_json(message):
    return Refused(400, f"Format error in JSON body: {message}")


def point_id(value):
    """The engine's form of an id: a number of 64 bits or a UUID."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64:
        return value
    if isinstance(value, str):
        try:
            return uuid.UUID(value)
        except ValueError:
            pass
    raise bad_json(f"value {value} is not a valid point ID, valid values are either an unsigned integer or a UUID")


def id_json(value):
    return value if isinstance(value, int) else str(value)


def known(body, *keys):
    if unknown := set(body) - set(keys):
        raise bad_json(f"unknown field `{unknown.pop()}`, expected one of {', '.join(keys)}")


def matched(match):
    (kind, value), *others = match.items()
    if others:
        raise bad_json("data did not match any variant of untagged enum Match")
    kinds = {"value": edge.MatchValue, "any": edge.MatchAny, "except": edge.MatchExcept, "text": edge.MatchText}
    if kind not in kinds:
        raise bad_json("data did not match any variant of untagged enum Match")
    return kinds[kind](value)


def values_at(payload, key):
    """The values at a path such as `fields."a key"`; the items of a list, if it is one."""
    for quoted, plain in re.findall(r'"([^"]*)"|([^."]+)', key):
        if not isinstance(payload, dict) or (quoted or plain) not in payload:
            return []
        payload = payload[quoted or plain]
    return payload if isinstance(payload, list) else [payload]


def condition(body, collection):
    match body:
        case {"has_id": ids}:
            return edge.HasIdCondition({point_id(each) for each in ids})
        case {"has_vector": name}:
            return edge.HasVectorCondition(name)
        case {"is_empty": {"key": key}}:
            return edge.IsEmptyCondition(key)
        case {"is_null": {"key": key}}:
            return edge.IsNullCondition(key)
        case {"nested": {"key": key, "filter": inner}}:
            return edge.NestedCondition(key, filter_of(inner, collection))
        case {"key": key, "match": {"value": bool(wanted)}}:
            records, _ = collection.shard.scroll(edge.ScrollRequest(limit=2**31, with_payload=True, with_vector=False))
            return edge.HasIdCondition(
                {record.id for record in records if any(value is wanted for value in values_at(record.payload, key))}
            )
        case {"key": key}:
            known(body, "key", "match", "range")
            ranged = body.get("range")
            return edge.FieldCondition(
                key,
                match=matched(body["match"]) if body.get("match") else None,
                range=edge.RangeFloat(**ranged) if ranged else None,
            )
    return filter_of(body, collection)


def filter_of(body, collection):
    if body is None:
        return None
    known(body, "must", "should", "must_not", "min_should")

    def each(key):
        conditions = body.get(key)
        if conditions is None:
            return None
        return [condition(each, collection) for each in (conditions if isinstance(conditions, list) else [conditions])]

    try:
        return edge.Filter(must=each("must"), should=each("should"), must_not=each("must_not"))
    except (TypeError, ValueError) as error:
        raise bad_json(error) from error
