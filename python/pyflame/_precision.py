"""What float32 may be computed in: one table behind PyTorch's older and newer names of it.

A word is that of a backend ("cuda": products, convolutions and recurrent layers of GPUs; "mkldnn":
those of the CPU) and an operation of it, else that of all its operations, else that of all backends.
What acts of it is told to the library: "cuda"'s "matmul" and "conv".
"""

from . import _C

_WORDS = {
    "generic": ("none", "ieee", "tf32", "bf16"),
    "cuda": ("none", "ieee", "tf32"),
    "mkldnn": ("none", "ieee", "tf32", "bf16"),
}
_FIRST = {("cuda", "conv"): "tf32", ("cuda", "rnn"): "tf32"}  # while nobody says another thing
_LEVELS = ("highest", "high", "medium")
_said = {}


def get(backend, op):
    """The word that holds for an operation of a backend; "none": nobody said one."""
    for key in ((backend, op), (backend, "all"), ("generic", "all")):
        word = _said.get(key, "none")
        if word != "none":
            return word if word in _WORDS[backend] else "none"
    return "none" if (backend, op) in _said else _FIRST.get((backend, op), "none")


def put(backend, op, word, name):
    """Says it; `name` is what the switch is called in errors."""
    if not isinstance(word, str):
        raise TypeError(f"{name}: got {word!r}; expected a value of type str")
    if word not in _WORDS[backend]:
        raise _C.ValueError(f"{name}: got {word!r}; expected one of {list(_WORDS[backend])}")
    _said[backend, op] = word
    _apply()


def _apply():
    # TF32 by a newer name is "high" unless it was "medium".
    level = max(_LEVELS.index(_said.get("level", "highest")), 1)
    _C._set_matmul_precision(level if get("cuda", "matmul") == "tf32" else 0)
    _C._set_conv_precision(int(get("cuda", "conv") == "tf32"))


def level():
    """The precision of products as set_float32_matmul_precision() calls it."""
    return _LEVELS[_C._matmul_precision()]


def put_level(word):
    """What set_float32_matmul_precision() does; False where there is no such word."""
    if word not in _LEVELS:
        return False
    _said["level"] = word
    _said["cuda", "matmul"] = "ieee" if word == "highest" else "tf32"
    _said["mkldnn", "matmul"] = ("ieee", "tf32", "bf16")[_LEVELS.index(word)]
    _apply()
    return True


def allow_in_products(allowed):
    """What backends.cuda.matmul.allow_tf32 = `allowed` does."""
    _said["level"] = "high" if allowed else "highest"
    _said["cuda", "matmul"] = "tf32" if allowed else "ieee"
    _apply()


def allow_in_cudnn(allowed):
    """What backends.cudnn.allow_tf32 = `allowed` does."""
    _said["cuda", "conv"] = _said["cuda", "rnn"] = "tf32" if allowed else "none"
    _apply()


class Precision:
    """Has `fp32_precision`, of one operation of a backend, and no other attribute."""

    __slots__ = ("_key", "_name")

    def __init__(self, backend, op, name):
        self._key, self._name = (backend, op), name

    @property
    def fp32_precision(self):
        """ "ieee", "tf32", of the CPU also "bf16"; "none": what holds one step above."""
        return get(*self._key)

    @fp32_precision.setter
    def fp32_precision(self, word):
        put(*self._key, word, f"pf.backends.{self._name}.fp32_precision")


def switch(backend, op, name):
    """get and set of a Switch that is the word of an operation of a backend."""
    return {
        "get": lambda: get(backend, op),
        "set": lambda word: put(backend, op, word, f"pf.backends.{name}fp32_precision"),
    }
