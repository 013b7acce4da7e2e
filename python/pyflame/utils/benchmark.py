"""Times of statements, repeated and compared; names as in torch.utils.benchmark."""

import itertools
import math
import timeit
from dataclasses import dataclass, field

from .. import _C

__path__ = []  # for modules below it: _aliases.py

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer", "trim_sigfig",
           "unit_to_english"]  # fmt: skip

_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))


def timer():
    """Seconds, after the current device has done what it was given."""
    _C.synchronize()
    return timeit.default_timer()


def select_unit(t):
    """(unit, seconds of it) in which a time is between 1 and 1000."""
    return next(((u, s) for u, s in reversed(_UNITS) if t >= s), _UNITS[0])


def unit_to_english(u):
    """A unit in words."""
    return {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}[u]


def trim_sigfig(x, n):
    """A number with n significant digits."""
    if x == 0 or not math.isfinite(x):
        return x
    size = 10.0 ** (int(math.floor(math.log10(abs(x)))) + 1 - n)
    return round(x / size) * size


@dataclass(frozen=True)
class TaskSpec:
    """What is measured."""

    stmt: str
    setup: str = ""
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self):
        """Label, or statement, and label below it."""
        return ": ".join(filter(None, (self.label or self.stmt, self.sub_label)))


@dataclass
class Measurement:
    """Several times of a statement: seconds of `number_per_run` executions each."""

    number_per_run: int
    raw_times: list
    task_spec: TaskSpec
    metadata: dict = field(default_factory=dict)

    @property
    def times(self):
        """Seconds of one execution, of each run."""
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q):
        at = q * (len(self.raw_times) - 1)
        times = sorted(self.times)
        low = times[int(at)]
        return low + (times[min(int(at) + 1, len(times) - 1)] - low) * (at - int(at))

    @property
    def median(self):
        """Seconds: half of the runs took less."""
        return self._quantile(0.5)

    @property
    def mean(self):
        """Seconds on average."""
        return sum(self.times) / len(self.times)

    @property
    def iqr(self):
        """Seconds between the quarter and the three quarters of the runs."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def significant_figures(self):
        """How many digits of the median the spread leaves."""
        spread = 0.74 * self.iqr / math.sqrt(len(self.times)) or self.median * 1e-4
        return max(1, min(4, int(math.floor(math.log10(self.median / spread)))))

    @property
    def has_warnings(self):
        """Whether the runs differ by more than a tenth."""
        return self.iqr > 0.1 * self.median

    def __getattr__(self, name):
        if name in TaskSpec.__dataclass_fields__ or name == "title":
            return getattr(self.__dict__["task_spec"], name)
        raise AttributeError(f"'Measurement' object has no attribute '{name}'")

    @staticmethod
    def merge(measurements):
        """Measurements of the same task in one."""
        groups = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        return [
            Measurement(1, [t for m in group for t in m.times], spec)
            for spec, group in groups.items()
        ]

    def __repr__(self):
        unit, size = select_unit(self.median)
        runs = len(self.times)
        lines = [f"<pyflame.utils.benchmark.Measurement of {self.title}>"]
        if self.task_spec.setup:
            lines.append(f"setup: {self.task_spec.setup}")
        if runs > 1:
            lines.append(f"  Median: {self.median / size:.2f} {unit}")
            lines.append(f"  IQR:    {self.iqr / size:.2f} {unit}")
        else:
            lines.append(f"  {self.median / size:.2f} {unit}")
        lines.append(
            f"  {runs} measurement{'s' if runs > 1 else ''}, {self.number_per_run} runs per "
            f"measurement, {self.task_spec.num_threads} "
            f"thread{'s' if self.task_spec.num_threads > 1 else ''}"
        )
        return "\n".join(lines)


class Timer:
    """Measures a statement of Python with the given names (`globals`) after `setup`.

    A run sets the number of CPU threads to `num_threads` and waits for the device before it looks at
    the clock. Statements in C++ (`language`) are not measured.
    """

    def __init__(self, stmt="pass", setup="pass", global_setup="", timer=timer, globals=None,
                 label=None, sub_label=None, description=None, env=None, num_threads=1,
                 language="python"):  # fmt: skip
        if str(language).lower() not in ("python", "py", "language.python", "0"):
            raise _C.NotSupportedError(
                f"pf.utils.benchmark.Timer: got language={language!r}; expected Python"
            )
        self._timer = timeit.Timer(stmt, setup, timer, globals)
        shown = "" if setup == "pass" else setup
        self._task_spec = TaskSpec(
            stmt, shown, global_setup, label, sub_label, description, env, num_threads
        )

    def _times(self, number):
        before = _C.get_num_threads()
        try:
            _C.set_num_threads(self._task_spec.num_threads)
            return max(self._timer.timeit(number), 1e-9)
        finally:
            _C.set_num_threads(before)

    def timeit(self, number=1_000_000):
        """One run of `number` executions, after a hundredth of it as a warm-up."""
        self._times(max(number // 100, 2))
        return Measurement(number, [self._times(number)], self._task_spec)

    def repeat(self, repeat=-1, number=-1):
        """Not there; PyTorch has none, either."""
        raise NotImplementedError("pf.utils.benchmark.Timer.repeat: use blocked_autorange")

    def _block(self, min_run_time):
        """How many executions take about a hundredth of the time."""
        number = 1
        self._times(1)  # what is made once is no part of it
        while True:
            took = self._times(number)
            if took >= min_run_time / 1000 or number >= 1 << 30:
                return max(1, min(number, int(number * min_run_time / 100 / took) or 1))
            number *= 10

    def blocked_autorange(self, callback=None, min_run_time=0.2):
        """Runs for at least `min_run_time` seconds, in blocks that are long beside the clock."""
        number = self._block(min_run_time)
        times, total = [], 0.0
        while total < min_run_time:
            took = self._times(number)
            times.append(took)
            total += took
            if callback:
                callback(number, took)
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(self, threshold=0.1, *, min_run_time=0.01, max_run_time=10.0,
                           callback=None):  # fmt: skip
        """Runs until the spread is below `threshold` of the median, or for `max_run_time` seconds."""
        number = self._block(min_run_time)
        times, total = [], 0.0
        while True:
            took = self._times(number)
            times.append(took)
            total += took
            if callback:
                callback(number, took)
            found = Measurement(number, times, self._task_spec)
            steady = len(times) > 3 and found.iqr < threshold * found.median
            if (total >= min_run_time and steady) or total >= max_run_time:
                return found

    def collect_callgrind(self, *args, **kwargs):
        """Refused: instructions are not counted."""
        raise _C.NotSupportedError(
            "pf.utils.benchmark.Timer.collect_callgrind: instructions are not counted; use "
            "blocked_autorange, or run the program under valgrind"
        )


class Compare:
    """A table of measurements: a row for each statement, a column for each description."""

    def __init__(self, results):
        self._results = list(results)
        self._trim = False

    def extend_results(self, results):
        """Adds measurements."""
        self._results.extend(results)

    def trim_significant_figures(self):
        """Shows only the digits that the spread leaves."""
        self._trim = True

    def colorize(self, rowwise=False):
        """Accepted; tables have no colours."""

    def highlight_warnings(self):
        """Accepted; tables have no colours."""

    def print(self):
        """Prints the table."""
        print(self)

    def __str__(self):
        merged = Measurement.merge(self._results)
        out = []
        for label, group in itertools.groupby(merged, lambda m: m.task_spec.label):
            out.append(self._table(label, list(group)))
        return "\n".join(out)

    def _table(self, label, results):
        unit, size = select_unit(min(m.median for m in results))
        columns = list(dict.fromkeys(m.task_spec.description or "" for m in results))
        rows = {}
        for m in results:
            row = (m.task_spec.num_threads, m.task_spec.sub_label or m.task_spec.stmt)
            rows.setdefault(row, {})[m.task_spec.description or ""] = self._shown(m, size)
        names = {row: f"{row[1]} ({row[0]} thread{'s' if row[0] > 1 else ''})" for row in rows}
        width = max(len(n) for n in names.values())
        widths = [max([10, len(c), *(len(r.get(c, "")) for r in rows.values())]) for c in columns]
        line = " | ".join([" " * width, *(c.rjust(w) for c, w in zip(columns, widths))])
        out = [f"[ {label or ''} ]".center(len(line), "-"), line, "-" * len(line)]
        for row, cells in rows.items():
            shown = [cells.get(c, "").rjust(w) for c, w in zip(columns, widths)]
            out.append(" | ".join([names[row].ljust(width), *shown]))
        english = unit_to_english(unit)
        return "\n".join([*out, "", f"Times are in {english}s ({unit})."])

    def _shown(self, m, size):
        value = m.median / size
        return f"{trim_sigfig(value, m.significant_figures):.4g}" if self._trim else f"{value:.1f}"
