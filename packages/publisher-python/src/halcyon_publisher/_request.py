"""Sends one request with events, and repeats it with the same idempotency key until there is a response or the deadline."""

import threading
import uuid
from dataclasses import dataclass
from typing import Sequence

from ._clock import Clock
from ._error import PublishError
from ._exchange import Answer, Exchange, Response
from ._queue import QueuedEvent
from ._tokens import Refused, Token, Tokens

_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 10.0


@dataclass(frozen=True)
class FinalResponse:
    status: int
    text: str
    may_be_published: bool
    """An earlier attempt may have published the events."""


def _backoff_seconds(tries: int, random: float) -> float:
    """Returns an exponential backoff with 50 % jitter, so that publishers that were disconnected together do not retry together."""
    most = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2.0 ** min(tries, 10))
    return most / 2 + most / 2 * random


class Requests:
    def __init__(
        self, exchange: Exchange, tokens: Tokens, clock: Clock, *, deadline_seconds: float, stop: threading.Event
    ) -> None:
        self._exchange = exchange
        self._tokens = tokens
        self._clock = clock
        self._deadline_seconds = deadline_seconds
        self._stop = stop

    def _attempt(self, path: str, key: str | None, body: bytes) -> tuple[Answer | Refused, Token | None]:
        token = self._tokens.current()
        if not isinstance(token, Token):
            return token, None
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token.value}"}
        if key is not None:
            headers["Idempotency-Key"] = key
        return self._exchange.post(path, headers, body), token

    def send(self, events: Sequence[QueuedEvent]) -> FinalResponse:
        """Returns the response for events of one store; raises a `PublishError` without one."""
        until = events[-1].queued_at + self._deadline_seconds
        path = f"/stores/{events[0].store_id}/events"
        # Each event has a key, or the request has one.
        key = str(uuid.uuid4()) if events[0].key is None else None
        body = b"[" + b",".join(event.body for event in events) + b"]"
        may_be_published = is_renewed = False
        tries = 0
        problem = "the events before it took as long"
        while True:
            if self._stop.is_set():
                raise PublishError("closed", "The publisher was closed", may_be_published=may_be_published)
            if self._clock.now() >= until:
                break
            answer, token = self._attempt(path, key, body)
            if isinstance(answer, Refused):
                raise PublishError(
                    answer.code,
                    answer.message,
                    status=answer.status,
                    faults=answer.faults,
                    may_be_published=may_be_published,
                )
            if isinstance(answer, Response):
                if answer.status != 401 or is_renewed or token is None:
                    return FinalResponse(answer.status, answer.text, may_be_published)
                self._tokens.forget(token)
                is_renewed = True
                continue
            may_be_published = may_be_published or answer.is_unknown
            problem = answer.problem
            is_renewed = False
            wait_seconds = answer.wait_seconds + _backoff_seconds(tries, self._clock.random())
            if self._clock.now() + wait_seconds >= until:
                break
            tries += 1
            self._clock.wait(wait_seconds, self._stop)
        message = f"Not published within {self._deadline_seconds} s: {problem}"
        raise PublishError("unavailable", message, may_be_published=may_be_published)
