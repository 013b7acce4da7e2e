"""torch.utils.flop_counter: how much the products, convolutions and attention of a block calculate."""

import collections as _collections

from .... import _C
from .. import ops as _ops
from .module_tracker import ModuleTracker as _ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

_SUFFIXES = ("", "K", "M", "B", "T")


class _Tracker(_ModuleTracker):
    def __init__(self, before):
        super().__init__()
        self._before_change = before

    def _change(self, change):
        self._before_change()
        change()


class FlopCounterMode:
    """Counts within a ``with`` block what is calculated by this thread, forward and backward: 2 for each
    product of two numbers that is added to a sum.

    Products, convolutions, attention and recurrent layers count; masks of attention, pointwise operations,
    sums and decompositions do not. What runs as a capture (:func:`pyflame.compile` with
    "reduce-overhead") counts when it is captured. The device "meta" counts, too: no values are needed.

    Args:
        depth: of modules in the table that is printed at the end; None for all.
        display: whether it is printed.
    """

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        if custom_mapping:
            raise _C.NotSupportedError(
                "torch.utils.flop_counter: got a custom_mapping; expected none: kernels are counted, not "
                "operators; count those of your own by hand"
            )
        self.depth, self.display = depth, display
        self.flop_counts = _collections.defaultdict(lambda: _collections.defaultdict(int))
        self.mod_tracker = _Tracker(self._take)
        self._at = None

    def __enter__(self):
        self.flop_counts.clear()
        self._at = _C._flops_depth()
        _C._flops_begin()
        self.mod_tracker.__enter__()
        return self

    def __exit__(self, *error):
        self.mod_tracker.__exit__(*error)
        self._take()
        _C._flops_end()
        self._at = None
        if self.display:
            print(self.get_table())

    def _take(self):
        """What has been counted since the last time belongs to the modules that ran until now."""
        if self._at is None:
            return
        for name, flops in _C._flops_take(self._at).items():
            for module in self.mod_tracker.parents:
                self.flop_counts[module][getattr(_ops.aten, name)] += flops

    def get_total_flops(self):
        """All that has been counted."""
        self._take()
        return sum(self.flop_counts["Global"].values()) if "Global" in self.flop_counts else 0

    def get_flop_counts(self):
        """By the name of a module ("Global" for all) and by operator of ``torch.ops.aten``."""
        self._take()
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth=None):
        """The counts as text, modules down to a depth (by default the one that was given)."""
        total = self.get_total_flops()
        depth = self.depth if depth is None else depth
        power = max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))

        def row(name, flops):
            share = f"{flops / total:.2%}" if total else "0%"
            return name, f"{flops / 1000**power:.3f}{_SUFFIXES[power]}", share

        def rows(module, indent):
            counts = self.flop_counts[module]
            yield row(indent + module, sum(counts.values()))
            for operator, flops in counts.items():
                yield row(f"{indent} - {operator}", flops)

        lines, whole = [], False
        for module in sorted(self.flop_counts.keys() - {"Global"}):
            level = module.count(".")
            if depth is None or level < depth:
                whole |= sum(self.flop_counts[module].values()) >= total
                lines += rows(module, " " * level)
        if "Global" in self.flop_counts and not whole:
            lines = [*rows("Global", ""), *((" " + name, *rest) for name, *rest in lines)]
        return _table(("Module", "FLOP", "% Total"), lines or [("Global", "0", "0%")])


def _table(header, rows):
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(3)]

    def line(row):
        return "  ".join(
            [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))]
        )

    return "\n".join([line(header), "  ".join("-" * w for w in widths), *map(line, rows)])


def register_flop_formula(targets, get_raw=False):
    """NotSupportedError: kernels are counted, not operators."""
    raise _C.NotSupportedError(
        "torch.utils.flop_counter.register_flop_formula: got a formula for an operator; expected none: "
        "kernels are counted, not operators; count those of your own by hand"
    )
