"""Which version this is: the tag that it was built from, as its metadata say."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("onlinecal")
except PackageNotFoundError:
    # an archive on a worker's path, a folder copied by hand
    __version__ = "0+unknown"

STATE_FORMAT = 17
"""The format of all that outlives a process: keys' states, ledgers, Spark's states, saved recalibrators.

Raise it when the meaning of any of them changes. Nothing else is read. Pickles do not carry it.
"""


def check_format(what: str, found: object) -> None:
    """Raise a ValueError unless `found`, the format of `what`, is the one that this version reads."""
    if found != STATE_FORMAT:
        age = "a newer" if isinstance(found, int) and found > STATE_FORMAT else "an older"
        raise ValueError(
            f"{what} has format {found}, which {age} onlinecal wrote; this one, {__version__}, reads format"
            f" {STATE_FORMAT}: read it with the version that wrote it, or make it anew"
        )
