"""Gradients of captured calls.

A *region* is the tape between the arguments of a call, and the leaves of the program that it uses, and its
results. Its gradients end there: what lies behind an argument is the program's, and so are hooks. The
results of a call are those of one node, whose inputs are the arguments and leaves; what that does
when a backward pass comes to it depends on how the call has run: by Python, which has left a tape
(`Live`, and those below which also note what is launched), or by a capture (`Replayed`).
"""

import contextlib

from .. import _C, _live
from .._grad_mode import enable_grad, set_grad_enabled
from .._torch_names import empty_strided
from ..autograd import Function
from ..autograd.graph import recompute_cheap
from ..tuning import measured
from ..utils._pytree import tree_flatten
from ..utils.checkpoint import _keeps_all, _Surroundings
from . import guards

AGAIN = (
    "a backward pass that is to be followed by another (retain_graph), or has gradients itself "
    "(create_graph, vmap)"
)
WRITTEN = "what it has read is written before its backward pass"
OTHERS = "gradients of other results than before"


class Region:
    """What the gradients of one capture need: `leaves` of the program, beside the arguments."""

    def __init__(self, step, picks, wanted, of_inputs, leaves):
        self.step = step
        self.picks = picks  # how results are found again
        self.wanted = wanted  # of each result that it makes whether it has a history
        self.all_wanted = all(wanted)
        self.of_inputs = of_inputs  # which of those that want gradients are behind some result
        self.leaves = leaves
        self.free = False  # a second pass may need nothing of what the first has used
        self.surroundings = _Surroundings(True)
        self.recompute = _C._recompute_asked()
        self.with_grad = _C.is_grad_enabled()
        # Tensors of the program's that the forward pass writes, and how often Python's run does.
        self.written = self.written_inputs = self.writes = ()
        self.asked = None  # of which results gradients came; None: no backward pass is captured
        self.asks, self.asks_all = (), True  # which sources that pass asked for
        self.holds = False  # results are held until then, so that writes to them are seen
        self.latest = None  # number of the last call
        self.seeds = self.gives = ()
        self.compared = False  # the backward pass has been, with one by Python

    def note_writes(self, capture, inputs, versions):
        """`versions`: of storages by their numbers, when the call began."""
        self.written, self.written_inputs = capture.written(), capture.written_inputs()
        for t in (*self.written, *[inputs[i] for i in self.written_inputs]):
            now = _C._storage_version(t)
            self.writes += (now - versions.get(_C._storage_number(t), now),)

    def recomputing(self):
        """As the call did, whatever is around its backward pass."""
        if self.recompute is not None:
            return recompute_cheap(*self.recompute)
        if _C._recompute_asked() is not None:
            return _keeps_all()
        return contextlib.nullcontext()

    def sources(self, inputs):
        if not self.of_inputs:
            return self.leaves
        wants = [t for t in inputs if t.requires_grad]
        return [t for t, r in zip(wants, self.of_inputs) if r] + self.leaves

    def with_history(self, run, made, sources):
        """What the call has made, of which those that want it get the history that `run` stands for."""
        if self.all_wanted:
            return with_history(run, made, sources)
        wanted = with_history(run, [o for o, w in zip(made, self.wanted) if w], sources)
        given = iter(wanted)
        return [next(given) if w else o for o, w in zip(made, self.wanted)]


class Run:
    """One call: while it lives and is not done, a backward pass may need the capture."""

    __slots__ = ("__weakref__", "done")

    def __init__(self):
        self.done = False


class _Called(Function):
    @staticmethod
    def forward(ctx, run, outputs, *sources):
        ctx.run = run
        ctx.set_materialize_grads(False)
        return tuple(outputs)

    @staticmethod
    def backward(ctx, *gradients):
        return None, None, *ctx.run.backward(gradients)


def with_history(run, outputs, sources):
    """The outputs, whose backward pass is the run's."""
    if _C.is_grad_enabled():
        return _Called.apply(run, outputs, *sources)
    with enable_grad():
        return _Called.apply(run, outputs, *sources)


def _again():
    """Whether the pass is one of those that no capture makes."""
    return not _C._pass_is_plain() or _C.is_grad_enabled()


class _Seen:
    """Writes to what the program has in place of tensors of a tape are to be seen there: results, and
    arguments of which it is given copies."""

    __slots__ = ("given", "results")

    def __init__(self, given, results):
        self.results = [[t.detach(), _C._storage_version(t)] for t in results]
        self.given = [[t, _C._storage_version(t), c] for t, c, _ in given.copies.values()]

    def pass_on(self, outputs=()):
        for seen, t in zip(self.results, outputs):
            if seen[0] is not None and (now := _C._storage_version(seen[0])) != seen[1]:
                seen[1] = now
                _C._increment_version(t)
        for seen in self.given:
            if (now := _C._storage_version(seen[0])) != seen[1]:
                seen[1] = now
                _C._increment_version(seen[2])


def handed_back(given, result):
    """What a call gives that is not of a capture, though it may have worked on copies of its arguments. Its
    tape has the copies, and is to see what the program writes to the originals until a pass comes."""
    result = given.handed_back(result)
    if given.copies:
        seen = _Seen(given, ())
        theirs = set(map(id, given.originals))
        made = [
            t for t in tree_flatten(result)[0] if isinstance(t, _C.Tensor) and id(t) not in theirs
        ]
        nodes = [t.grad_fn for t in made if t.grad_fn is not None]
        # A view that is written has another, in front of its base's.
        nodes += [
            n for node in nodes for n, _ in node.next_functions if n and not hasattr(n, "variable")
        ]
        for node in nodes:
            node.register_prehook(lambda _: seen.pass_on())
    return result


class Live(Run):
    """A call that has left a tape, by which any pass goes on as without a capture. `seen`: what the
    program has of it."""

    __slots__ = ("edges", "none", "outputs", "seen")

    def __init__(self, outputs, sources, seen):
        super().__init__()
        self.outputs, self.edges = outputs, _C._Edges(sources)
        self.none = (None,) * len(sources)
        self.seen = seen

    def backward(self, gradients):
        self.done = True
        self.seen.pass_on(self.outputs)
        asked = [(o, g) for o, g in zip(self.outputs, gradients) if g is not None]
        _C._go_on([o for o, _ in asked], [g for _, g in asked])
        return self.none  # of its own


class Noted(Live):
    """The same, and the first pass is noted as the second stage of `noting`, a capture whose first is
    the call."""

    __slots__ = ("noting", "recording", "region", "variant")

    def __init__(self, outputs, sources, given, variant, region, noting, recording, shown):
        super().__init__(outputs, sources, _Seen(given, shown))
        self.variant, self.region = variant, region
        self.noting, self.recording = noting, recording

    def backward(self, gradients):
        noting, self.noting = self.noting, None
        if noting is None:
            return super().backward(gradients)
        self.seen.pass_on(self.outputs)
        reason = AGAIN if _again() else ""
        if reason or not self._may_note() or not (lock := self.region.step.turn()):
            self.not_noted(reason)
            return super().backward(gradients)
        try:
            return self._note(noting, gradients)
        finally:
            self.done = True  # not before: other threads would go on with what is noted
            lock.release()

    def _note(self, noting, gradients):
        how = self.region.step.how
        asked = tuple(g is not None for g in gradients)
        seeds = [
            empty_strided(o.shape, o.stride(), dtype=o.dtype, device=o.device).copy_(g)
            for o, g in zip(self.outputs, gradients)
            if g is not None
        ]
        state = self.region.step.state(self.variant)
        if not noting.reopen():
            self.not_noted("")
            return super().backward(gradients)
        found = None
        outer, _live.recording = _live.recording, self.recording
        try:
            noting.moves = False
            noting.open_stage(seeds)
            self.region.free |= _C._leaves_some(self.outputs, self.edges, asked)
            run = measured(_C._region_gradients) if how.measures else _C._region_gradients
            found = run([o for o, a in zip(self.outputs, asked) if a], self.edges, seeds)
            made = [g for g in found if g is not None]
            if any(g.is_sparse for g in made):
                noting.break_off("sparse gradients")
                made = []
            noting.close_stage(made)
            if noting.leaves() or self.recording.calls():
                noting.break_off("gradients or steps that its backward pass makes by itself")
            if changed := state.changed():
                noting.break_off(f"its backward pass changes {changed}, which a replay would not")
            return self.noted(noting, asked, seeds, found)
        finally:
            _live.recording = outer
            noting.abandon()
            if found is None:
                self.not_noted("its backward pass has failed")


class Captured(Noted):
    """Of the call that was captured."""

    __slots__ = ()

    def _may_note(self):
        unfinished = self.variant.unfinished
        return unfinished is not None and unfinished[1] is self.region

    def not_noted(self, reason):
        if not self._may_note():
            return
        if reason:
            self.region.step.missed(reason)
            self.variant.forget(reason)
        else:  # somebody else captures just then
            self.variant.unfinished = None

    def noted(self, noting, asked, seeds, found):
        r, v = self.region, self.variant
        if noting.broken():
            v.forget("")
            v.reason = noting.broken()
            r.step.missed(v.reason)
            return found
        noting.end()
        r.asked, r.asks = asked, _C._pass_asks(self.edges)
        r.asks_all = all(r.asks)
        r.holds = r.asks_all and all(asked) and not r.free
        r.seeds = [(s.shape, s.stride(), s.dtype, s.device) for s in seeds]
        r.gives = [g is not None for g in found]
        copies = iter(noting.copied_results(1))
        v.finish()
        return [next(copies) if there else None for there in r.gives]


class Compared(Noted):
    """Of a call that is compared with its capture: `tell(what, numbers)` is called with what differs."""

    __slots__ = ("tell",)

    def __init__(self, outputs, sources, given, variant, region, noting, recording, tell):
        super().__init__(outputs, sources, given, variant, region, noting, recording, ())
        self.tell = tell

    def _may_note(self):
        return self.variant.region is self.region and self.region.asked is not None

    def not_noted(self, reason):
        if reason and self._may_note():
            self.region.step.missed(reason)
            self.variant.forget(reason)

    def noted(self, noting, asked, seeds, found):
        r = self.region
        if noting.broken():
            self.tell(noting.broken(), False)
        elif asked != r.asked or _C._pass_asks(self.edges) != r.asks:
            self.tell(OTHERS, False)
        elif [g is not None for g in found] != r.gives:
            self.tell(OTHERS, False)
        elif r.seeds != [(s.shape, s.stride(), s.dtype, s.device) for s in seeds]:
            self.tell("its results are laid out otherwise", False)
        else:
            what, numbers = self.variant.capture.difference(noting, 1)
            r.compared = not what
            self.tell(what, numbers)
        return found


class Replayed(Run):
    """A call whose launches were made again. The first pass mostly is the second stage; any other has
    Python run the call once more, as it was, for its tape."""

    __slots__ = (
        "capture", "given", "kept", "live", "number", "random", "region", "seen", "variant"
    )  # fmt: skip

    def __init__(self, variant, given, inputs):
        self.done = False
        self.variant, self.given, self.live = variant, given, None
        self.region, self.capture = variant.region, variant.capture
        self.random = self.kept = None
        r = self.region
        if r.writes:
            self.kept = _C._Kept(r.written, inputs, r.written_inputs, r.writes)

    def ran(self, made, inputs):
        """What it has made, with a history: passes are expected from here on."""
        r = self.region
        if not r.holds or self.given.copies:
            self.seen = _Seen(self.given, [t for t, w in zip(made, r.wanted) if w])
        else:
            self.seen = None
        if self.kept is not None:
            self.kept.ran()
        self.variant.expects(self)
        self.number = r.watch.begin(inputs, self.variant.pending)
        r.latest = self.number
        return r.with_history(self, made, r.sources(inputs))

    def about_to_change(self):
        """What it has read is about to be written: its tape is made before, if no pass has come."""
        if self.done:
            return
        if _C._capturing():
            _live.recording.capture.break_off("a write to what a captured call before has read")
        self._by_python()
        self._told(WRITTEN)
        self.done = True

    def _told(self, reason):
        if self.variant.region is self.region:
            self.region.step.missed(reason)
            self.variant.forget(reason)

    def backward(self, gradients):
        if self.live is not None:
            return self.live.backward(gradients)
        r = self.region
        if _C._capturing():
            _live.recording.capture.break_off("the backward pass of a captured call")
        asked = tuple([g is not None for g in gradients])
        if self.done:
            if self.given is None or r.latest != self.number:
                raise _C.AutogradError(
                    "pf.backward: the backward pass of a captured call runs a second time, and what it "
                    "needs was freed; pass retain_graph=True to the first"
                )
            self._by_python()
            # As the first pass would have left it.
            _C._release_region(
                [o for o, a in zip(self.live.outputs, r.asked) if a], self.live.edges
            )
            return self.live.backward(gradients)
        reason = AGAIN if _again() else OTHERS if asked != r.asked or not self._has_all() else ""
        if reason or not r.compared:
            self._by_python()
            if reason:
                self._told(reason)
            elif self.variant.region is r:
                self.variant.calls = 2  # which is what is compared
            self.done = True
            return self.live.backward(gradients)
        if self.seen is not None:
            self.seen.pass_on()
            gradients = [g for g in gradients if g is not None]
        capture = self.capture
        capture.start(1, [_as_laid_out(g, s) for g, s in zip(gradients, r.seeds)])
        capture.run(1, 0)
        made = capture.results(1)
        self.done = True
        r.watch.end()
        if r.free:
            self.random = capture.began()
        else:
            self.given = self.kept = None
        if len(made) == len(r.gives):
            return made
        made = iter(made)
        return [next(made) if there else None for there in r.gives]

    def _has_all(self):
        """Whether the capture has what the pass asks for."""
        if self.region.asks_all:
            return True
        now = _C._pass_asks(_C._Edges(self.region.sources(guards.once(self.given.tensors))))
        return all(a or not n for a, n in zip(self.region.asks, now))

    def _by_python(self):
        r, given = self.region, self.given
        r.watch.end()
        inputs = guards.once(given.tensors)
        if not self.capture.unchanged(inputs):
            raise _C.AutogradError(
                "pf.backward: a tensor that a captured call has used was changed in place since, and this "
                "backward pass needs it as it was; run the pass before that, or clone the tensor, or use "
                "mode='default' for the function"
            )
        if (seen := self.seen) is None:
            seen = _Seen(given, ())
            results = [g for g, w in zip(self.capture.given(), r.wanted) if w]
            seen.results = [[t, version] for t, version in results]
        random = self.random or self.capture.began()
        levels = _C._set_levels_aside()  # of vmaps and hooks around the pass, or the write
        if self.kept is not None:
            self.kept.put_back()
        outer = _C._set_runs_again(True)
        try:
            with r.surroundings.around(random), r.recomputing(), set_grad_enabled(r.with_grad):
                args, kwargs = given.taken()
                leaves, _ = tree_flatten(r.step.function(*args, **kwargs))
        finally:
            _C._set_runs_again(outer)
            _C._put_levels_back(levels)
            if self.kept is not None:
                self.kept.leave()
        made = {n: leaf for leaf, (kind, n) in zip(leaves, r.picks) if kind == "made"}
        outputs = [made.get(n) for n, w in enumerate(r.wanted) if w]
        if not all(isinstance(o, _C.Tensor) and o.requires_grad for o in outputs):
            raise _C.AutogradError(
                "pf.backward: a captured call would give other results now, and this backward pass needs "
                "those that it gave; run the pass before the program changes"
            )
        self.live = Live(outputs, r.sources(inputs), seen)
        _C._renumber_region(outputs, self.live.edges, self.number)
        self.given = self.kept = None


def _as_laid_out(gradient, seed):
    """Lying as (shape, strides, dtype, device) of a seed says."""
    strides = seed[1]
    if gradient.stride() == strides and not gradient.storage_offset():
        return gradient
    return gradient.new_empty_strided(gradient.shape, strides).copy_(gradient)
