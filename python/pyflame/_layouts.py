"""Layouts of tensors."""

from . import _C

__all__ = ["layout", "strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc",
           "jagged"]  # fmt: skip


class layout(str):
    """How a tensor keeps its elements: pf.strided, pf.sparse_coo or pf.sparse_csr (the others are names
    to compare with, which no tensor has). A layout equals its name as a string."""

    __slots__ = ()
    _made = {}

    def __new__(cls, name):
        if cls._made.get(name) is None:
            if name not in __all__[1:]:
                raise ValueError(f"pf.layout: got {name!r}; expected one of {__all__[1:]}")
            cls._made[name] = super().__new__(cls, name)
        return cls._made[name]

    def __repr__(self):
        return f"{_C._shown_as()}.{str.__str__(self)}"

    __str__ = __repr__

    def __reduce__(self):
        return layout, (str.__getitem__(self, slice(None)),)


strided, sparse_coo, sparse_csr = map(layout, ("strided", "sparse_coo", "sparse_csr"))
sparse_csc, sparse_bsr, sparse_bsc, jagged = map(
    layout, ("sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
)
