from dataclasses import dataclass
from typing import Literal, Sequence

PublishErrorCode = Literal[
    # The event is not a JSON object; nothing was sent.
    "invalid_event",
    # The server refused this event; `faults` has the reasons.
    "refused",
    # The client has no access: check its id and secret, and that it is trusted.
    "unauthorized",
    # The server does not have this store.
    "no_store",
    # The deadline has passed, and the server was not reachable or not able to publish until then.
    "unavailable",
    # The response is not one of Halcyon: check `base_url`, and proxies before the server.
    "unexpected",
    # The publisher was closed before the event was published.
    "closed",
]


@dataclass(frozen=True)
class Fault:
    """A fault of an event, as the server reports it."""

    code: str
    message: str
    field: str
    """A path within the event, such as `resource.id`; empty if the fault is of the request."""


class PublishError(Exception):
    """Why an event was not published. The message is for a log, and contains no secret."""

    code: PublishErrorCode
    status: int | None
    """The status of the response, if there was one."""
    faults: Sequence[Fault]
    may_be_published: bool
    """False: the event is not published. True: a request with the event had no response that says so; publish the event again
    only with the `idempotency_key` that it had."""

    def __init__(
        self,
        code: PublishErrorCode,
        message: str,
        *,
        status: int | None = None,
        faults: Sequence[Fault] = (),
        may_be_published: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.status = status
        self.faults = faults
        self.may_be_published = may_be_published
