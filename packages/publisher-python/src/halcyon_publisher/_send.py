"""Sends the batches of stores, and separates refused events from the others."""

import re
from typing import Any, Callable, Sequence, TypedDict

from ._error import Fault, PublishError
from ._exchange import object_in
from ._queue import QueuedEvent
from ._request import FinalResponse


class PublishedEvent(TypedDict):
    """The event as the server has stored it."""

    id: int
    event: str
    resource_type: str
    resource_id: str
    resource_version: int
    """0 if the server has a version with a later `date_modified`."""
    date_created: str


# Statuses that report faults of events. Nothing of the request is published.
_EVENT_FAULTS = frozenset((400, 409, 413, 422))

# Limits the text of an unexpected response in a message.
_EXCERPT_CHARACTERS = 200

_INDEXED = re.compile(r"([0-9]+)(?:\.(.+))?", re.DOTALL | re.ASCII)


def _embedded_in(text: str) -> list[Any]:
    """Returns the entries of the only list that a response embeds."""
    embedded = object_in(text).get("_embedded")
    lists = embedded.values() if isinstance(embedded, dict) else ()
    return [one for entries in lists if isinstance(entries, list) for one in entries]


def _published_in(text: str, count: int) -> list[PublishedEvent] | None:
    """Returns the events of a response; None if they are not as many as were sent."""
    events = _embedded_in(text)
    is_complete = len(events) == count and all(
        isinstance(event, dict) and isinstance(event.get("id"), int) for event in events
    )
    return events if is_complete else None


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _faults_in(text: str, count: int) -> dict[int | None, list[Fault]]:
    """Returns the faults by index of their event; by None those that name no event."""
    faults: dict[int | None, list[Fault]] = {}
    for entry in _embedded_in(text):
        one = entry if isinstance(entry, dict) else {}
        field, message = _as_text(one.get("field")), _as_text(one.get("message"))
        found = _INDEXED.fullmatch(field)
        index, member = (found[1], found[2] or "") if found else ("", "")
        at = int(index) if index and len(index) < 10 and int(index) < count else None
        own = message.replace(field, member, 1) if member else message
        faults.setdefault(at, []).append(Fault(_as_text(one.get("code")), own, field if at is None else member))
    return faults


def _excerpt(text: str) -> str:
    return " ".join(text.split())[:_EXCERPT_CHARACTERS]


def _refused(response: FinalResponse, faults: Sequence[Fault]) -> PublishError:
    reasons = "; ".join(fault.message for fault in faults) or f"{response.status} {_excerpt(response.text)}"
    return PublishError(
        "refused",
        f"The server refused the event: {reasons}",
        status=response.status,
        faults=tuple(faults),
        may_be_published=response.may_be_published,
    )


def _failure(response: FinalResponse, store_id: str) -> PublishError:
    """Returns the error for a response that applies to the whole request."""
    status, may_be_published = response.status, response.may_be_published
    faults = _faults_in(response.text, 0).get(None, [])
    reason = faults[0].message if faults else _excerpt(response.text)
    message = f"Nothing can be published to store {store_id}: {status} {reason}"
    if status in (401, 403):
        return PublishError("unauthorized", message, status=status, faults=faults, may_be_published=may_be_published)
    if status == 404:
        return PublishError("no_store", message, status=status, faults=faults, may_be_published=may_be_published)
    may_be_published = may_be_published or 200 <= status < 300
    advice = "check base_url, and proxies before the server"
    return PublishError(
        "unexpected", f"{message}; {advice}", status=status, faults=faults, may_be_published=may_be_published
    )


Request = Callable[[Sequence[QueuedEvent]], FinalResponse]


def _send_part(
    events: Sequence[QueuedEvent], request: Request, allows_gaps: bool
) -> list[Sequence[QueuedEvent]]:
    """Sends events once, and settles those with a result. Returns the parts to send again, in order. If the order must not have
    gaps, the first refused event is a part of its own, so that the events before it are settled first."""
    response = request(events)
    published = _published_in(response.text, len(events)) if response.status == 200 else None
    if published is not None:
        for event, result in zip(events, published):
            event.resolve(result)
        return []
    if response.status not in _EVENT_FAULTS:
        raise _failure(response, events[0].store_id)
    faults = _faults_in(response.text, len(events))
    if len(events) == 1:
        raise _refused(response, [fault for own in faults.values() for fault in own])
    first = min((at for at in faults if at is not None), default=None)
    if not allows_gaps and first is not None:
        parts = (events[:first], events[first : first + 1], events[first + 1 :])
        return [part for part in parts if part]
    others = []
    for index, event in enumerate(events):
        if index in faults:
            event.reject(_refused(response, faults[index]))
        else:
            others.append(event)
    if len(others) < len(events):
        return [others] if others else []
    # The response names no event, such as for a body that is too large.
    half = (len(events) + 1) // 2
    return [events[:half], events[half:]]


def send_batch(
    batch: Sequence[QueuedEvent], request: Request, on_rejected: Callable[[], None] | None = None
) -> None:
    """Sends events of one store and settles each of them; does not raise. The server publishes an array as a whole or not at
    all, so the events beside a refused one are sent again. With `on_rejected`, which is called at the first event that is not
    published, those after it are rejected."""
    parts = [batch]
    while parts:
        part = parts.pop(0)
        try:
            parts[:0] = _send_part(part, request, on_rejected is None)
        except Exception as error:
            for event in part:
                event.reject(error)
            code = error.code if isinstance(error, PublishError) else None
            if code == "closed" or (on_rejected is None and code == "refused"):
                continue
            # An outage may end before the parts after this one are sent: they must not overtake it.
            reason = error
            if on_rejected is not None:
                on_rejected()
                reason = PublishError("closed", "The publisher is closed")
            for event in (event for rest in parts for event in rest):
                event.reject(reason)
            parts = []
