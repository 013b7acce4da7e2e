"""torch._vendor.packaging.version: packaging.version."""

from packaging.version import InvalidVersion, Version, parse  # noqa: F401
