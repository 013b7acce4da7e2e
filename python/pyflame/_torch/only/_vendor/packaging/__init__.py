"""torch._vendor.packaging: the package of that name, where it is installed."""
