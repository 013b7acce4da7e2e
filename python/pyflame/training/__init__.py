"""The jobs behind `pyflame train` and `pyflame generate`, and what a loop of one's own may use."""

__all__ = ["find_batch_size"]


def __getattr__(name):
    if name in __all__:
        from .batch_size import find_batch_size

        return find_batch_size
    raise AttributeError(f"module 'pyflame.training' has no attribute '{name}'")
