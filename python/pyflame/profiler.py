"""Times of the regions that a program names, under the names of torch.profiler.

`record_function("forward")` measures the host's time within it while a :class:`profile` is active;
steps are regions, too. Single operations are not recorded, nor is what runs on a GPU, nor memory:
`pyflame.explain` shows which kernels a piece of a program runs, and its `report` how many.
"""

import enum
import functools
import json
import os
import socket
import threading
import time
import warnings

from . import _C

__all__ = [
    "DeviceType", "ExecutionTraceObserver", "ProfilerAction", "ProfilerActivity",
    "kineto_available", "profile", "record_function", "schedule", "supported_activities",
    "tensorboard_trace_handler",
]  # fmt: skip

__path__ = []  # for modules below it: _aliases.py
_open = []  # profiles that record now, the innermost last


class ProfilerActivity(enum.Enum):
    """What PyTorch's profiler may look at. Here it is the host's time of regions in every case."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class DeviceType(enum.Enum):
    """Kinds of devices in a profile."""

    CPU = 0
    CUDA = 1


class ProfilerAction(enum.Enum):
    """What happens in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities():
    """The activities that may be given."""
    return {ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if _C._device_count("cuda") else ())}


def kineto_available():
    """False: nothing of PyTorch's recorder is here."""
    return False


def schedule(*, wait, warmup, active, repeat=0, skip_first=0, skip_first_wait=0):
    """A function of a step's number that says what happens in it: after `skip_first` steps a cycle of
    `wait` steps without, `warmup` steps and `active` recorded ones, `repeat` times (0: always)."""
    if min(wait, warmup, active, repeat, skip_first) < 0 or active == 0:
        raise _C.ValueError(
            f"pf.profiler.schedule: got wait={wait}, warmup={warmup}, active={active}, "
            f"repeat={repeat}, skip_first={skip_first}; expected numbers from 0, and active above 0"
        )

    def action(step):
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        length = wait + warmup + active
        # Without the first wait the first cycle is shorter.
        step += wait if skip_first_wait else 0
        if repeat and step // length >= repeat:
            return ProfilerAction.NONE
        at = step % length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == length - 1 else ProfilerAction.RECORD

    return action


def _always(step):
    return ProfilerAction.RECORD


class record_function:
    """A region with a name: ``with record_function("forward"):``, or as a decorator.

    Its time is noted while a profile is active; otherwise it costs next to nothing.
    """

    def __init__(self, name, args=None):
        self.name, self.args = name, args
        self._begin = None

    def __enter__(self):
        if _open:
            self._begin = time.perf_counter_ns()
        return self

    def __exit__(self, *unused):
        if self._begin is not None:
            end = time.perf_counter_ns()
            for p in list(_open):  # other threads begin and end theirs
                p._note(self.name, self._begin, end)
            self._begin = None

    def __call__(self, function):
        @functools.wraps(function)
        def within(*args, **kwargs):
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return within


class FunctionEvent:
    """What a profile knows of the regions of one name; times in microseconds, of the host."""

    def __init__(self, key):
        self.key = self.name = key
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cuda_time_total = self.self_cuda_time_total = 0.0
        self.cpu_memory_usage = self.device_memory_usage = 0
        self.flops = 0
        self.device_type = DeviceType.CPU

    @property
    def cpu_time(self):
        """Microseconds of one call on average."""
        return self.cpu_time_total / max(self.count, 1)

    device_time = cuda_time = property(lambda self: 0.0, doc="0: not measured.")

    def __repr__(self):
        return (
            f"<FunctionEvent name={self.key} count={self.count} "
            f"cpu_time_total={self.cpu_time_total:.1f}us>"
        )


def _time(us):
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if us >= size:
            return f"{us / size:.3f}{unit}"
    return f"{us:.3f}us"


class EventList(list):
    """Regions by name."""

    def table(self, sort_by=None, row_limit=100, max_src_column_width=75, header=None,
              top_level_events_only=False, **unused):  # fmt: skip
        """The regions as text: calls and the host's time in them."""
        rows = sorted(self, key=_sorter(sort_by), reverse=True) if sort_by else list(self)
        width = max([20, *(len(r.key) for r in rows)])
        line = "-" * (width + 56)
        heads = (
            f"{'Name':<{width}}  {'Calls':>8}  {'CPU total':>13}  {'Self CPU':>13}  {'CPU avg':>12}"
        )
        out = [*([header] if header else []), line, heads, line]
        for r in rows[: row_limit if row_limit and row_limit > 0 else None]:
            out.append(
                f"{r.key:<{width}}  {r.count:>8}  {_time(r.cpu_time_total):>13}  "
                f"{_time(r.self_cpu_time_total):>13}  {_time(r.cpu_time):>12}"
            )
        total = f"Self CPU time total: {_time(self.self_cpu_time_total)}"
        return "\n".join([*out, line, total, "Regions of record_function and steps; see pyflame.explain "
                          "for operations and kernels", ""])  # fmt: skip

    def total_average(self):
        """All regions in one."""
        total = FunctionEvent("Total")
        for r in self:
            total.count += r.count
            total.cpu_time_total += r.cpu_time_total
            total.self_cpu_time_total += r.self_cpu_time_total
        return total

    @property
    def self_cpu_time_total(self):
        """Microseconds in all regions, each counted once."""
        return sum(r.self_cpu_time_total for r in self)

    def export_chrome_trace(self, path):
        """Not here: a list of sums has no moments. Use profile.export_chrome_trace."""
        raise _C.NotSupportedError(
            "pf.profiler.export_chrome_trace: got a list of sums, which has no moments; expected a "
            "profile; call profile.export_chrome_trace(path)"
        )


def _sorter(name):
    name = {"cuda_time_total": "cpu_time_total", "device_time_total": "cpu_time_total"}.get(
        name, name
    )
    return lambda row: getattr(row, name.replace("self_device", "self_cpu"), 0)


class profile:
    """Records the regions that a program names: ``with profile() as p: ...; p.step()``.

    Args:
        schedule: a function of a step's number, as :func:`schedule` makes it.
        on_trace_ready: is called with the profile when the recorded steps of a cycle have ended.
        enabled: False records nothing.

    The other arguments of PyTorch's are accepted; what they ask for is not recorded (see the module),
    and a warning says so once.

    `key_averages()` has the regions by name, `export_chrome_trace(path)` writes them with their
    moments.
    """

    def __init__(self, activities=None, schedule=None, on_trace_ready=None, record_shapes=False,
                 profile_memory=False, with_stack=False, with_flops=False, with_modules=False,
                 experimental_config=None, execution_trace_observer=None, acc_events=False,
                 use_cuda=None, custom_trace_id_callback=None, post_processing_timeout_s=None,
                 enabled=True, use_device=None, use_kineto=None, use_cpu=True):  # fmt: skip
        self.activities = set(activities or supported_activities())
        self._action_of = schedule or _always
        self.on_trace_ready = on_trace_ready
        self.enabled = bool(enabled)
        self.step_num = 0
        self._scheduled = schedule is not None
        self._regions, self._metadata = [], {}
        self._began = self._step_began = None
        self._action = ProfilerAction.NONE
        if record_shapes or profile_memory or with_stack or with_flops or with_modules:
            _say_once()

    # ---- begin, steps, end ----------------------------------------------------------------------

    def start(self):
        """Begins, as ``with`` does."""
        self._began = self._step_began = time.perf_counter_ns()
        self._set(self._action_of(self.step_num))

    def stop(self):
        """Ends, as the end of ``with`` does."""
        self._end_step()
        recorded = self._action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        self._set(ProfilerAction.NONE)
        if recorded and self.on_trace_ready:
            self.on_trace_ready(self)

    def step(self):
        """The next step of the program begins."""
        self._end_step()
        before, self.step_num = self._action, self.step_num + 1
        if before is ProfilerAction.RECORD_AND_SAVE:
            if self.on_trace_ready:
                self.on_trace_ready(self)
            self._regions = []
        self._set(self._action_of(self.step_num))
        self._step_began = time.perf_counter_ns()

    def _end_step(self):
        if self._scheduled and self in _open:
            self._note(f"ProfilerStep#{self.step_num}", self._step_began, time.perf_counter_ns())

    def _set(self, action):
        self._action = action
        records = self.enabled and action in (
            ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)  # fmt: skip
        if records and self not in _open:
            _open.append(self)
        elif not records and self in _open:
            _open.remove(self)

    def _note(self, name, begin, end):
        self._regions.append((name, begin, end, threading.get_ident()))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *unused):
        self.stop()

    # ---- what was recorded ----------------------------------------------------------------------

    def events(self):
        """Each region that ended, in that order."""
        return EventList(_averages([r]) for r in self._regions)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0,
                     group_by_overload_name=False):  # fmt: skip
        """The regions by name."""
        names = dict.fromkeys(name for name, *_ in self._regions)
        inner = _own_times(self._regions)
        found = EventList()
        for name in names:
            chosen = [i for i, r in enumerate(self._regions) if r[0] == name]
            event = _averages([self._regions[i] for i in chosen])
            event.self_cpu_time_total = sum(inner[i] for i in chosen) / 1e3
            found.append(event)
        return found

    def table(self, sort_by=None, row_limit=100, **how):
        """key_averages() as text."""
        return self.key_averages().table(sort_by, row_limit, **how)

    def __str__(self):
        return self.table()

    def total_average(self):
        """All regions in one."""
        return self.key_averages().total_average()

    @property
    def self_cpu_time_total(self):
        """Microseconds in all regions, each counted once."""
        return self.key_averages().self_cpu_time_total

    def export_chrome_trace(self, path):
        """Writes the regions for chrome://tracing and Perfetto."""
        origin = self._began or 0
        events = [
            {
                "ph": "X", "cat": "user_annotation", "name": name, "pid": os.getpid(),
                "tid": thread, "ts": (begin - origin) / 1e3, "dur": (end - begin) / 1e3,
            }
            for name, begin, end, thread in self._regions
        ]  # fmt: skip
        text = json.dumps({"traceEvents": events, "pyflame": _C.__version__, **self._metadata})
        _C._write_file(os.fspath(path), text.encode())

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Writes one line a region: its name and its microseconds."""
        lines = [f"{r.key} {int(getattr(r, metric, 0))}\n" for r in self.key_averages()]
        _C._write_file(os.fspath(path), "".join(lines).encode())

    def add_metadata(self, key, value):
        """Text that export_chrome_trace() writes, too."""
        self._metadata[str(key)] = str(value)

    def add_metadata_json(self, key, value):
        """JSON text that export_chrome_trace() writes, too."""
        self._metadata[str(key)] = json.loads(value)

    def preset_metadata_json(self, key, value):
        """As add_metadata_json."""
        self.add_metadata_json(key, value)


def _averages(regions):
    event = FunctionEvent(regions[0][0])
    event.count = len(regions)
    event.cpu_time_total = event.self_cpu_time_total = sum(e - b for _, b, e, _ in regions) / 1e3
    return event


def _own_times(regions):
    """Of each region the time that is in no region within it."""
    own = [end - begin for _, begin, end, _ in regions]
    order = sorted(
        range(len(regions)), key=lambda i: (regions[i][3], regions[i][1], -regions[i][2])
    )
    around = []
    for i in order:
        _, begin, end, thread = regions[i]
        while around and (regions[around[-1]][3] != thread or regions[around[-1]][2] < end):
            around.pop()
        if around:
            own[around[-1]] -= end - begin
        around.append(i)
    return own


_said = False


def _say_once():
    global _said
    if not _said:
        _said = True
        warnings.warn(
            "pf.profiler records the times of named regions only: no shapes, memory, stacks or "
            "operations; pyflame.explain shows what runs",
            stacklevel=4,
        )


def tensorboard_trace_handler(dir_name, worker_name=None, use_gzip=False):
    """A function for `on_trace_ready` that writes the regions into a folder, as a trace."""

    def write(p):
        os.makedirs(dir_name, exist_ok=True)
        name = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        p.export_chrome_trace(
            os.path.join(dir_name, f"{name}.{time.time_ns() // 1_000_000}.pt.trace.json")
        )

    return write


class ExecutionTraceObserver:
    """Accepted: graphs of operations are not recorded; pyflame.explain shows them."""

    def register_callback(self, output_file_path):
        """Nothing will be written there."""
        return self

    def unregister_callback(self):
        """Nothing was."""

    def start(self):
        """Does nothing."""

    def stop(self):
        """Does nothing."""

    cleanup = unregister_callback
