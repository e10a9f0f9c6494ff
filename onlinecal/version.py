"""The version, which is the tag that the package was built from, and the format of saved states.

Both are constants. `check_format` alone compares formats: whoever reads a saved state calls it first.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("onlinecal")
except PackageNotFoundError:
    # the package has no metadata in an archive on a worker's path, or in a folder that was copied by hand
    __version__ = "0+unknown"

STATE_FORMAT = 17
"""The format of saved states: keys' states, ledgers, Spark's states, saved recalibrators.

Raise it when the meaning of any of them changes. Other formats are refused. Pickles do not carry it. Compiled
code and finished games of sweeps do not, either: they are found by digests of what they were made of.
"""


def check_format(what: str, written_format: object) -> None:
    """ValueError unless the format in which `what` was written is the one that this version reads."""
    if written_format != STATE_FORMAT:
        age = "a newer" if isinstance(written_format, int) and written_format > STATE_FORMAT else "an older"
        raise ValueError(
            f"{what} has format {written_format}, which {age} onlinecal wrote; this one, {__version__}, "
            f"reads format {STATE_FORMAT}: read it with the version that wrote it, or make it anew"
        )
