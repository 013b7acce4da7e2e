"""Graphs of launches under the names of torch.cuda: they are captures (pyflame.compiler), on any device."""

import contextlib

from .. import _C, _live
from ..compiler.recording import Recording


class CUDAGraph:
    """What a stretch of a program launches, to be launched again by replay().

    What is captured runs, too (with PyTorch it does not): tensors made within have their values at
    once. They are written over by each replay; tensors from outside are read where they are, so new inputs
    are copied into old ones. Random numbers go on; optimizers and schedules within make their steps in
    Python at each replay.

    Args:
        keep_graph: accepted.
    """

    def __init__(self, keep_graph=False):
        self._capture = self._recording = self._captured = None
        self._at_end = []

    def capture_begin(self, pool=None, capture_error_mode="global", check_input_liveness=False):
        """Begins; `graph` does this and capture_end() as a context.

        Raises:
            ValueError: another capture is being made.
        """
        self.reset()
        if _live.recording is not None:
            raise _C.ValueError(
                "pf.cuda.CUDAGraph: another capture is being made; expected one at a time"
            )
        self._capture = _C._capture_begin(_C.get_device(), None)
        self._recording = _live.recording = Recording(self._capture)
        _C.clear_autocast_cache()
        self._capture.open_stage([])

    def capture_end(self):
        """Ends.

        Raises:
            NotSupportedError: something was done that cannot be captured; the message says what. It has
                been done.
        """
        capture, recording = self._capture, self._recording
        if recording is None:
            raise _C.ValueError("pf.cuda.CUDAGraph: capture_end() without capture_begin()")
        self._recording = _live.recording = None
        try:
            capture.close_stage([])
            self._at_end = recording.gradients()
        finally:
            _C.clear_autocast_cache()
            if capture.broken():
                capture.abandon()
                self._capture = None
            else:
                capture.end()
        if self._capture is None:
            raise _C.NotSupportedError(
                f"pf.cuda.CUDAGraph: cannot be captured: {capture.broken()}; leave it outside"
            )
        self._captured = recording

    def replay(self):
        """Launches what was captured, on the current stream.

        Raises:
            ValueError: nothing was captured.
        """
        if self._capture is None or self._recording is not None:
            raise _C.ValueError(
                "pf.cuda.CUDAGraph: replay() of a graph that is not captured; capture it first"
            )
        self._captured.replay([], self._at_end)

    def reset(self):
        """Forgets what was captured; its memory goes with the tensors made within."""
        if self._recording is not None:
            self._recording = _live.recording = None
            self._capture.abandon()
        self._capture = self._captured = None
        self._at_end = []

    def pool(self):
        """A number of its memory: each graph has its own, and `pool=` is accepted only."""
        return (0, id(self))

    def instantiate(self):
        """Nothing: it is ready when it is captured."""

    def enable_debug_mode(self):
        """Accepted."""

    def debug_dump(self, debug_path):
        """Writes how much was captured, as text."""
        count = 0 if self._capture is None else self._capture.launches()
        with open(debug_path, "w") as f:
            f.write(f"{count} launches\n")


class graph(contextlib.AbstractContextManager):  # noqa: N801 (PyTorch's name)
    """Captures what is done within into a CUDAGraph; `stream` is the one it is done on."""

    def __init__(
        self,
        cuda_graph,
        pool=None,
        stream=None,
        capture_error_mode="global",
        enable_annotations=False,
        check_input_liveness=False,
    ):
        self._graph, self._stream = cuda_graph, stream

    def __enter__(self):
        self._on = contextlib.ExitStack()
        if self._stream is not None:
            from ..streams import stream

            self._on.enter_context(stream(self._stream))
        self._graph.capture_begin()

    def __exit__(self, kind, error, trace):
        with self._on:
            if kind is not None:
                self._graph.reset()
                return
            self._graph.capture_end()


def graph_pool_handle():
    """A number for `pool=`; graphs have memory of their own, each."""
    return (0, 0)


def is_current_stream_capturing():
    """Whether this thread is making a capture."""
    return _C._capturing()


def make_graphed_callables(
    callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None
):
    """Modules (changed in place) and functions whose calls are captured, forward and backward, as by
    pf.compile(mode="reduce-overhead"): at their second call of each kind of arguments. `sample_args` and
    what follows are accepted."""
    from ..compiler import compile
    from ..nn.module import Module

    def captured(f):
        if isinstance(f, Module):
            f.compile(mode="reduce-overhead")
            return f
        return compile(f, mode="reduce-overhead")

    if isinstance(callables, (tuple, list)):
        return tuple(map(captured, callables))
    return captured(callables)
