"""torch._dynamo.utils: programs are not captured."""


def is_compile_supported(device_type):
    """False."""
    return False
