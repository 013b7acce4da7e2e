"""A picture of the losses of a run, by matplotlib where it is installed."""

import os

from .output import say

_said = False


def draw(path, entries, names):
    """Writes the PNG `path` with a line for each of `names` over the steps; a whole one or none."""
    global _said
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        if not _said:
            _said = True
            say("note: no plot: matplotlib is not installed; run: pip install matplotlib")
        return
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.add_subplot()
    for name in names:
        points = [(e["step"], e[name]) for e in entries if name in e]
        if points:
            axes.plot(*zip(*points), label=name.replace("_", " "), linewidth=1.2)
    axes.set_xlabel("step")
    axes.grid(alpha=0.3)
    if axes.lines:
        axes.legend()
    beside = f"{path}.{os.getpid()}.tmp"
    try:
        FigureCanvasAgg(figure).print_figure(beside, format="png", dpi=100)
        os.replace(beside, path)
    finally:
        if os.path.exists(beside):
            os.unlink(beside)
