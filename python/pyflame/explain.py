"""pf.explain: what ran, where, why then, and what was done that nobody asked for."""

from __future__ import annotations

import json

from . import _C


def _size(nbytes):
    for unit in ("bytes", "KiB", "MiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} GiB"


class Report:
    """What ran within a block. Print it, or take :meth:`to_dict`.

    ``groups``: fused groups, each with ``device``, ``prologue`` (pointwise operations before the
    anchor, or all of them), ``anchor``, ``library_epilogue``, ``epilogue``, ``shape``, ``reason``
    (why it was run: see :doc:`architecture`), ``where`` (file and line of the caller), ``count``,
    ``graph`` (what was recorded, a line for each value) and ``plan`` (what was launched, and where
    results lie). ``kernels``: operations that run by themselves. ``copies``: made to bring floating
    tensors to where an operation ran, with ``op``, ``shape``, ``from``, ``to``, ``bytes``,
    ``count``, ``where``. ``slow``: slow ways that were taken, with ``op`` and ``what``. ``served``:
    who computed what several can, with ``op`` and ``by`` ("cuDNN 91900", "our kernels for Hopper"),
    and of float32 products and convolutions on GPUs in what ("cuDNN, in TF32").
    ``transfers``: copies between host and device that were asked for (``item()``, ``tolist()``,
    ``to()``, printing), by direction, those of ``copies`` included.
    """

    def __init__(self):
        self.result = None
        self.groups, self.kernels, self.copies, self.slow, self.served = [], [], [], [], []
        self.transfers = {"to_host": 0, "from_host": 0}

    def _fill(self, events, before, after):
        lists = {
            "group": self.groups,
            "kernel": self.kernels,
            "copy": self.copies,
            "slow": self.slow,
            "served": self.served,
        }
        for kind, fields, count, nbytes in events:
            entry = dict(fields)
            for name in ("prologue", "epilogue"):
                if name in entry:
                    entry[name] = entry[name].split()
            entry["count"] = count
            if kind == "copy":
                entry["bytes"] = nbytes
            lists[kind].append(entry)
        for name in self.transfers:
            self.transfers[name] = after[f"copies_{name}"] - before[f"copies_{name}"]

    @property
    def flushes(self):
        """How often groups were run, by reason."""
        sums = {}
        for g in self.groups:
            sums[g["reason"]] = sums.get(g["reason"], 0) + g["count"]
        return sums

    @property
    def copied_bytes(self):
        """Bytes of all copies that nobody asked for."""
        return sum(c["bytes"] for c in self.copies)

    def to_dict(self):
        """Everything as dicts, lists, numbers and strings."""
        return {
            "groups": self.groups,
            "kernels": self.kernels,
            "flushes": self.flushes,
            "copies": self.copies,
            "copied_bytes": self.copied_bytes,
            "slow": self.slow,
            "served": self.served,
            "transfers": self.transfers,
        }

    def to_json(self, **options):
        """to_dict() as JSON text; options are those of json.dumps."""
        return json.dumps(self.to_dict(), **options)

    def to_text(self, plans=False):
        """The report as text, what ``print`` shows; with ``plans``, graph and plan of each group."""
        lines = []

        def add(entry, text):
            where = f"   at {entry['where']}" if entry.get("where") else ""
            lines.append(f"  {entry['count']:>6}x {text}{where}")

        def heading(text, entries):
            lines.append(f"{text}: {sum(e['count'] for e in entries)}")

        heading("groups", self.groups)
        for g in self.groups:
            parts = [" ".join(g["prologue"])] if g["prologue"] else []
            if g.get("anchor"):
                bias = f"+{g['library_epilogue']}" if g.get("library_epilogue") else ""
                parts.append(f"[{g['anchor']}{bias}]")
                parts += [" ".join(g["epilogue"])] if g["epilogue"] else []
            add(g, f"{' -> '.join(parts)}  {g['shape']} on {g['device']}, run by {g['reason']}")
            if plans:
                lines += [f"          {line}" for line in g["graph"].splitlines()]
                lines += [f"          > {line}" for line in g["plan"].splitlines()]
        heading("operations by themselves", self.kernels)
        for k in self.kernels:
            named = k["op"] if k["op"] == k["kernel"] else f"{k['op']} ({k['kernel']})"
            add(k, f"{named} on {k['device']}")
        lines.append(
            f"copies that nobody asked for: {sum(c['count'] for c in self.copies)}, "
            f"{_size(self.copied_bytes)}"
        )
        for c in self.copies:
            add(c, f"{c['op']}: {c['shape']} from {c['from']} to {c['to']}, {_size(c['bytes'])}")
        heading("slow ways", self.slow)
        for s in self.slow:
            add(s, f"{s['op']}: {s['what']}")
        if self.served:
            heading("served by", self.served)
        for s in self.served:
            add(s, f"{s['op']}: {s['by']}")
        lines.append(
            f"transfers: {self.transfers['to_host']} to the host, "
            f"{self.transfers['from_host']} from it"
        )
        return "\n".join(lines)

    def __str__(self):
        return self.to_text()

    __repr__ = __str__


class explain:
    """Reports what ran: ``with pf.explain() as report: ...`` or ``pf.explain(fn, *args)``.

    Returns a :class:`Report`, filled when the block ends (what is pending then is run first);
    called with a function, its ``result`` is what the function returned. Costs a few microseconds
    for each group while it is on, and nothing otherwise.

    >>> with pf.explain() as report:
    ...     y = (x @ w + b).relu().sum().item()
    >>> print(report)
    """

    def __new__(cls, fn=None, *args, **kwargs):
        self = super().__new__(cls)
        if fn is None:
            return self
        with self as report:
            report.result = fn(*args, **kwargs)
        return report

    def __enter__(self):
        _C.flush()
        self._report = Report()
        self._before = _C._stats()
        self._id = _C._trace_start()
        return self._report

    def __exit__(self, *error):
        try:
            _C.flush()
        finally:
            events = _C._trace_stop(self._id)
            self._report._fill(events, self._before, _C._stats())
