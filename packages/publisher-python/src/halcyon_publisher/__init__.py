"""Publishes the events of a platform's stores to Halcyon."""

from ._clock import Clock
from ._error import Fault, PublishError, PublishErrorCode
from ._publisher import Publisher
from ._send import PublishedEvent

__all__ = ["Clock", "Fault", "PublishError", "PublishErrorCode", "PublishedEvent", "Publisher"]
