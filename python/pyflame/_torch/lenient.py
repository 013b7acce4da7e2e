"""Packages that reach deep into PyTorch when they are imported: for these, and for nobody else, what is
missing is a stand-in that raises when it is used. So they can be imported where they are installed, as
transformers, peft and accelerate do with whatever they find, and what does not need it works.
"""

import importlib

from .absent import Absent

PACKAGES = {"torchao", "deepspeed", "xformers", "bitsandbytes", "torchcodec"}
_BETWEEN = ("<frozen importlib._bootstrap>", importlib._bootstrap.__file__)
_made = {}


def asked(frame):
    """Whether such a package asks, by the frame that an import or an attribute was asked in."""
    for _ in range(14):
        if frame is None:
            return False
        if frame.f_code.co_filename not in _BETWEEN and not _is_ours(frame):
            break
        frame = frame.f_back
    return str(frame.f_globals.get("__name__")).partition(".")[0] in PACKAGES


def _is_ours(frame):
    return frame.f_globals.get("__name__") == "pyflame._torch.finder"


class _StandIn(Absent):
    """Of such names: they have others below them, as modules and classes have."""

    def __getattr__(cls, text):
        if text.startswith("__") or not cls.__dict__.get("why"):  # of a class made of one
            raise AttributeError(text)
        return name(f"{cls.__module__}.{cls.__qualname__}", text)


def name(module, text):
    """The stand-in for a name of a module of torch."""
    if (known := _made.get((module, text))) is None:
        why = "it is not in PyFlame, and stands here for packages that import it"
        known = _StandIn(
            text, (), {"__module__": module, "__doc__": f"Not there: {why}.", "why": why}
        )
    return _made.setdefault((module, text), known)
