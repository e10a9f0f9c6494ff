"""Which version this is: the tag that it was built from, as its metadata say."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("onlinecal")
except PackageNotFoundError:
    # an archive on a worker's path, a folder copied by hand
    __version__ = "0+unknown"
