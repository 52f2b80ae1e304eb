"""Reads `Retry-After`."""

import re
from datetime import datetime, timezone
from email.utils import format_datetime

# The forms of an HTTP-date (RFC 9110 §5.6.7): IMF-fixdate, then the obsolete ones of RFC 850 and of asctime.
_TIME = r"(?P<time>\d{2}:\d{2}:\d{2})"
_MONTH = "(?P<month>[A-Z][a-z]{2})"
_WEEKDAY = "(?P<weekday>[A-Z][a-z]{2})"
_FORMS = [
    re.compile(form, re.ASCII)
    for form in (
        rf"{_WEEKDAY}, (?P<day>\d{{2}}) {_MONTH} (?P<year>\d{{4}}) {_TIME} GMT",
        rf"(?P<weekday>(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day), (?P<day>\d{{2}})-{_MONTH}-(?P<year>\d{{2}}) {_TIME} GMT",
        rf"{_WEEKDAY} {_MONTH} (?P<day>\d{{2}}| \d) {_TIME} (?P<year>\d{{4}})",
    )
]
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def _year_of(digits: str, now: float) -> int:
    """Returns the year that ends with these digits and is at most 50 years in the future."""
    if len(digits) == 4:
        return int(digits)
    latest = datetime.fromtimestamp(now, timezone.utc).year + 50
    return latest - (latest - int(digits)) % 100


def _http_date(text: str, now: float) -> datetime | None:
    """Returns the time of an HTTP-date; None for another text, 31 February and a wrong day of the week."""
    for form in _FORMS:
        found = form.fullmatch(text)
        if found is None or found["month"] not in _MONTHS:
            continue
        hour, minute, second = map(int, found["time"].split(":"))
        month = _MONTHS.index(found["month"]) + 1
        try:
            date = datetime(_year_of(found["year"], now), month, int(found["day"]), hour, minute, second, tzinfo=timezone.utc)
        except ValueError:
            return None
        return date if format_datetime(date).startswith(found["weekday"][:3]) else None
    return None


def retry_after_seconds(header: str | None, now: float) -> float:
    """Returns the delay of `Retry-After` (RFC 9110 §10.2.3), seconds or an HTTP-date, without a limit; 0 if it is absent,
    invalid or past."""
    header = header or ""
    if header.isascii() and header.isdigit():
        return float(header)
    date = _http_date(header, now)
    return 0.0 if date is None else max(0.0, date.timestamp() - now)
