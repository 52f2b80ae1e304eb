import json
from typing import Any, Mapping, NamedTuple

from ._error import PublishError

EventInput = Mapping[str, Any] | str
"""`{"event": …, "resource": …, "idempotency_key": …}`, or its JSON text, which is sent as it is written."""

_NO_OBJECT = 'The event must be an object: {"event": "transaction/created", "resource": {"id": …}}'


class SerializedEvent(NamedTuple):
    body: bytes
    key: str | None
    """The event's own idempotency key."""


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def serialize(event: EventInput) -> SerializedEvent:
    """Checks only what the server cannot report for one event of an array: whether the text is a JSON object."""
    try:
        text = event if isinstance(event, str) else json.dumps(event, allow_nan=False, separators=(",", ":"))
        # As texts, because Python limits the digits of integers.
        value = json.loads(text, parse_int=str, parse_float=str, parse_constant=_no_constant)
        body = text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        hint = ". For exact numbers give the event as JSON text" if isinstance(error, TypeError) else ""
        raise PublishError("invalid_event", f"The event is not JSON ({error}){hint}") from error
    if not isinstance(value, dict):
        raise PublishError("invalid_event", _NO_OBJECT)
    key = value.get("idempotency_key")
    return SerializedEvent(body, key if isinstance(key, str) and key != "" else None)
