"""A function whose launches are kept at its second call and made again, without Python, from the
third on.

A *variant* is a capture for arguments of one kind (shapes, dtypes, devices, numbers) under the same
settings. Its first call runs as always (libraries open, optimizers make their states), the second is
captured, which is a run as well, the third is compared with the capture by running once more; so is
every `verify_every`-th behind it. The backward pass that comes to results is captured and compared when
it comes (regions.py). What cannot be captured runs as always, with its reason kept.
"""

import functools
import threading
import warnings

from .. import _C, _live
from ..autograd.graph import recompute_cheap
from ..nn import module as _module
from ..optim import optimizer as _optimizer
from ..tuning import measured
from ..utils._pytree import tree_flatten
from . import _step, guards, regions, reports
from .recording import Recording
from .variant import Variant, rebuilt

Tensor = _C.Tensor
ALIKE = 4  # of them for the same arguments, by which tensors have gradients when they begin
IDLE_CHANGES = 8  # of one thing of Python's that made no difference, after which it is ignored
WRITES = (
    "writes to the memory of arguments that share it with each other or with other programs, or begin at "
    "an odd address"
)
REFILLS = "the program changes lists or dicts that it was given"
KNOWN = "arguments that are, or lie in, tensors of the program that the function reaches by itself"
IDLE = 1 << 30  # bytes that a run has left free, and that are given back beside a capture's own

_capturing = threading.Lock()  # one thread at a time


class CaptureError(_C.ValueError):
    """A captured step that would give wrong results, or (`fullgraph=True`) cannot be captured."""


_REPLACED = object()  # in place of a gradient that the step itself puts elsewhere


def _number_of_gradient(p):
    return None if p.grad is None else _C._storage_number(p.grad)


class Step:
    """Calls a function, by its captures where there are. `how`: what compile() has made of its options."""

    def __init__(self, function, how, modules=()):
        self.how = how
        self.name = getattr(function, "__qualname__", type(function).__name__)
        self.calls(function)
        self.modules = tuple(modules)
        self.variants = {}
        self.structure = None
        self.reason = None
        self._replays = self.always = 0
        self.quick = None  # makes calls as the last two without Python
        self.hasty = None  # the variant that was replayed last
        self.misses = {}  # (why a call ran as always, file and line of it) -> how often
        self.warned = False

    def calls(self, function):
        """This function from now on."""
        self.seen = function  # what guards look through: a module's own class hides what wraps it
        self.function = fast(function) if self.how.numerics == "fast" else function
        if self.how.measures:
            self.function = measured(self.function)
        if self.how.frugal:
            self.function = saves_less(self.function)

    def instead_of(self, module):
        """What is to be the module's `forward`."""
        self.modules = (module,)
        self.calls(module.forward)
        return self

    def __reduce__(self):  # a copy has captured nothing
        return _step, (self.seen, self.how, self.modules)

    def forget(self):
        """Drops all captures."""
        self._restart()

    def report(self, *, launches=False, plan=False, svg=None):
        """How calls have run, and why: text. See pyflame.compiler.report()."""
        return reports.text(self, launches, plan, svg)

    # ---- a call ------------------------------------------------------------------------------

    def __call__(self, *args, **kwargs):
        if (quick := self.quick) is not None:
            if not kwargs and (result := quick(*args)) is not NotImplemented:
                return result
            self._slow_down()
        if _C._capturing() or _live.recording is not None or _C._runs_again():
            # Within another capture, or a run for the tape of one or of a checkpoint: that has all nodes
            # itself, and writes no statistics of layers.
            return self.function(*args, **kwargs)
        given = guards.Arguments(args, kwargs)
        if given.reason:
            return self._as_always(None, given.reason, args, kwargs)
        if self.structure is not None and not self.structure.same():
            self._restart()
        variant = self._variant(given)
        if variant is None:
            return self._as_always(None, self.reason, args, kwargs)
        variant.called = self.replays + self.always
        if variant.reason:
            return self._as_always(variant, variant.reason, args, kwargs)
        if variant.calls == 0:
            self.always += 1
            before = given.versions()
            result = self.function(*args, **kwargs)
            variant.calls = max(variant.calls, 1)  # others may have captured it meanwhile
            if before != given.versions():
                variant.reason = WRITES
            elif given.refilled():
                variant.reason = REFILLS
            elif given.shown_in(result):
                variant.reason = "results that look at arguments which share memory with each other"
            return result
        if not variant.lock.acquire(blocking=False):
            return self._aside("another thread is at it", args, kwargs)
        capturing = None
        try:  # only from here on is a variant as it was found
            if variant.waiting() is not None:  # which needs what the next run would write over
                why = "the backward pass of the call before is still to come"
            elif variant.reason:
                return self._as_always(variant, variant.reason, args, kwargs)
            elif variant.capture is not None and variant.knows_otherwise(given.originals):
                return self._as_always(None, KNOWN, args, kwargs)
            else:
                changed = self._to_be_compared(variant)
                if changed is None and variant.capture is not None:
                    variant.since_verified += 1
                    run = self._replay(variant, given)
                    if run is None:
                        return self._as_always(variant, variant.reason, args, kwargs)
                    return run[0]
                capturing = self.turn()
                if capturing is not None and variant.capture is None:
                    return self._capture(variant, given, args, kwargs)
                if capturing is not None:
                    return self._verify(variant, given, args, kwargs, changed)
                why = "another thread is at it"
        finally:
            if capturing is not None:
                capturing.release()
            variant.lock.release()
        return self._aside(why, args, kwargs)

    def _to_be_compared(self, variant):
        """What of Python's has changed if the call is to be compared with the capture, "" where its turn
        has come without; None: it is not."""
        if variant.capture is None:
            return None
        changed = variant.state.changed()
        if not changed and variant.calls != 2 and variant.since_verified < self.how.verify_every:
            return None
        if variant.calls <= 2 or variant.capture.room_for_trial():
            return changed
        variant.since_verified = 0  # it would not fit beside the capture
        if changed:
            variant.forget(f"{changed} is not as it was")
        else:
            self.missed("not compared with Python's run, for which there is no memory beside it")
        return None

    def _aside(self, why, args, kwargs):
        """Runs as always, this once."""
        self.missed(why)
        self.always += 1
        return self.function(*args, **kwargs)

    def turn(self):
        """The lock of who captures, taken; None where somebody else does."""
        return _capturing if not _C._capturing() and _capturing.acquire(blocking=False) else None

    def _variant(self, given):
        """The one for these arguments and what the program's tensors are now, perhaps a new one."""
        alike = self.variants.get(given.key)
        if alike is None:
            if (
                sum(map(len, list(self.variants.values()))) >= self.how.limit
                and not self._made_room()
            ):
                self.reason = f"more than {self.how.limit} kinds of arguments"
                return None
            alike = self.variants[given.key] = [Variant(given.objects)]
        for variant in alike:
            if variant.unfinished is not None:
                variant.settle()
            if variant.still_true():
                return variant
        if len(alike) < ALIKE:
            variant = Variant(given.objects)
            variant.calls = 1
            alike.append(variant)
            return variant
        variant = alike[0]
        if variant.lock.acquire(blocking=False):
            try:
                if variant.waiting() is None:
                    variant.forget(
                        "tensors of the program are replaced, or have gradients at times"
                    )
                    return variant
            finally:
                variant.lock.release()
        return Variant(given.objects)  # for this call, while another thread has that one

    def _made_room(self):
        """dynamic=True: the kind of arguments that was not used for longest goes."""
        if not self.how.dynamic:
            return False
        kinds = list(self.variants.items())  # other threads find more meanwhile
        idle = [(k, alike) for k, alike in kinds if not any(v.waiting() for v in alike)]
        if not idle:
            return False
        self.variants.pop(min(idle, key=lambda kind: max(v.called for v in kind[1]))[0], None)
        return True

    def missed(self, reason):
        if not reason:
            return
        key = reason, _C._call_site()
        if key in self.misses or len(self.misses) < 100:
            self.misses[key] = self.misses.get(key, 0) + 1

    def _as_always(self, variant, reason, args, kwargs):
        self._check_allowed(reason)
        self.missed(reason)
        if not self.warned:
            self.warned = True
            warnings.warn(
                f"pf.compile: {self.name} runs as always, without a capture: {reason}; "
                "report() tells of further ones",
                stacklevel=4,
            )
        if variant is None:
            self.reason = reason
        self.always += 1
        return self.function(*args, **kwargs)

    def _check_allowed(self, reason, more=""):
        if self.how.fullgraph:
            raise CaptureError(
                f"pf.compile: the step cannot be captured: {reason}; expected that with "
                f"fullgraph=True; change it, or leave fullgraph out{more}"
            )

    def _restart(self):
        """The model is another: what was captured of it holds no more."""
        self.variants.clear()
        self.structure = None

    # ---- capturing -----------------------------------------------------------------------------

    def _capture(self, variant, given, args, kwargs):
        state = self.state(variant)
        modules, optimizers, tensors = guards.reached(
            self.seen, (*self.modules, *variant.objects), state
        )
        structure = guards.Structure(modules)
        if (hooked := structure.hooked()) is not None or _module._any_call_hooks:
            where = type(hooked).__name__ if hooked is not None else "every module"
            variant.reason = f"hooks of {where}, which Python has to call"
            self.structure = structure  # until they go
            return self._as_always(variant, variant.reason, args, kwargs)
        outside = {id(t): t for t in (*tensors, *structure.tensors())}
        outside |= {id(p): p for o in optimizers for g in o.param_groups for p in g["params"]}
        variant.theirs = frozenset(map(_C._storage_number, outside.values()))
        if variant.knows_otherwise(given.originals):
            return self._as_always(None, KNOWN, args, kwargs)
        for t in given.tensors:
            outside.pop(id(t), None)
        watched = list(outside.values())
        begins_with = {p: p.grad is not None for p in watched if p.is_leaf}
        versions = {
            _C._storage_number(t): _C._storage_version(t) for t in (*given.tensors, *watched)
        }
        made_by = [(t, t.grad_fn) for t in (*given.tensors, *watched)]
        # Not the gradients: they would not end where the step clears them.
        gradients = {p: _number_of_gradient(p) for p in begins_with}

        capture = _C._capture_begin(_device_of(given.tensors, watched), None)
        capture.watch(watched)
        capture.moves = variant.moves
        recording = Recording(capture, arrays=[])
        leaves = [t for t in watched if t.requires_grad and t.is_leaf]
        try:
            _live.recording = recording
            _C.clear_autocast_cache()
            capture.open_stage(guards.once(given.tensors))
            args, kwargs = given.taken()
            result = self.function(*args, **kwargs)
            outputs, tree = tree_flatten(result)
            variant.tree = tree
            variant.outside = outside
            tensors_out, variant.picks = _sorted_out(outputs, given.tensors, variant, recording)
            wanted = [o.requires_grad for o in tensors_out]
            capture.close_stage(tensors_out)
            region = None
            if any(wanted) and not capture.broken():
                region = self._region(
                    variant, capture, recording, tensors_out, wanted, given.tensors, leaves
                )
            at_end = recording.gradients()
            if not capture.broken() and region is None:
                capture.end()
        finally:
            _live.recording = None
            capture.abandon()  # of one that has not ended
            _C.clear_autocast_cache()
        wrote = self._wrote(variant, given)
        heard = [p for p, _ in capture.leaves()] + (leaves if capture.passes else [])
        if any(_C._has_hooks(p) for p in heard):
            variant.reason = "hooks of parameters, which Python has to call"
        elif wrote:
            variant.reason = wrote
        elif given.refilled():
            variant.reason = REFILLS
        elif any(p is t for p, _ in capture.leaves() for t in given.tensors):
            variant.reason = "gradients of the arguments are made within"
        elif not capture.watched_still_there():
            variant.reason = "the program gives a tensor another memory, shape or requires_grad"
        elif _C._capture_signature(given.tensors) != given.signature:
            variant.reason = "the program changes more of an argument than its values"
        elif any(t.grad_fn is not f for t, f in made_by):
            variant.reason = "the program writes what wants gradients to a tensor that it was given"
        elif changed := state.changed():
            variant.reason = f"the program changes {changed}, which a replay would not"
        if capture.read_again():  # the next call is captured without
            variant.moves = False
            self.always += 1
            return regions.handed_back(given, result)
        if capture.broken():
            variant.reason = capture.broken()
        if variant.reason:
            self._check_allowed(variant.reason, ". This call has run")
            self.missed(variant.reason)
            self.always += 1
            return regions.handed_back(given, result)
        variant.state = state.add_copied(recording.arrays).stays()
        variant.where = _C._call_site()
        if self.how.times:
            capture.time_launches()
        variant.recording = recording
        variant.at_end = at_end
        variant.begins_with = begins_with
        variant.had_gradient = {
            p: (p.grad if gradients.get(p, now) == now else _REPLACED) if had else None
            for p, had in capture.leaves()
            for now in [_number_of_gradient(p)]
        }
        self.structure = structure
        made = capture.copied_results(0)
        if region is None:
            variant.capture = capture
            variant.calls = 2
            return variant.result(made, given.originals)
        variant.unfinished = capture, region
        region.note_writes(capture, guards.once(given.tensors), versions)
        outputs = [o for o, w in zip(tensors_out, wanted) if w]
        copies = [o for o, w in zip(made, wanted) if w]
        sources = region.sources(guards.once(given.tensors))
        run = regions.Captured(outputs, sources, given, variant, region, capture, recording, copies)
        with_history = iter(regions.with_history(variant.expects(run), copies, sources))
        made = [next(with_history) if w else o for o, w in zip(made, wanted)]
        return variant.result(made, given.originals)

    def _region(self, variant, capture, recording, made, wanted, given, leaves):
        """That of the results that want gradients; None where the step makes its own, or has broken."""
        outputs = [o for o, w in zip(made, wanted) if w]
        inputs = [t for t in guards.once(given) if t.requires_grad]
        reason, reached, gone = _C._look_at_region(outputs, [*inputs, *leaves])
        if capture.leaves():
            if not gone:
                capture.break_off("gradients of a result of a step that makes some itself")
            capture.spend(wanted)
            return None
        theirs = {_C._storage_number(t) for t in (*given, *variant.outside.values())}
        numbers = [_C._storage_number(o) for o in outputs]
        if not theirs.isdisjoint(numbers) or len(numbers) != len(set(numbers)):
            reason = reason or (
                "results that want gradients and share memory with each other or with arguments"
            )
        if recording.calls():
            reason = "gradients of a step that calls an optimizer"
        elif any(_C._has_hooks(p) for p in leaves):
            reason = "hooks of parameters, which Python has to call"
        if reason:
            capture.break_off(reason)
            return None
        of_inputs, of_leaves = reached[: len(inputs)], reached[len(inputs) :]
        leaves = [p for p, r in zip(leaves, of_leaves) if r]
        return regions.Region(self, variant.picks, wanted, of_inputs, leaves)

    def _wrote(self, variant, given):
        """Why a step runs as always that has written to copies of its arguments, or None."""
        if not given.wrote():
            return None
        if given.overlap:
            variant.reason = WRITES
            variant.forget("")
            raise CaptureError(
                f"pf.compile: {self.name} wrote to arguments that share memory with each other, and did "
                "not at its first call; this call has worked on copies, so its results may be wrong; "
                "pass tensors of their own (.clone()), or use mode='default'"
            )
        return WRITES

    def state(self, variant):
        """What of Python's it can reach, as it is now."""
        ignored = {what for what, n in variant.idle.items() if n > IDLE_CHANGES}
        return guards.State(self.seen, (*self.modules, *variant.objects), ignored)

    # ---- replaying -----------------------------------------------------------------------------

    def _replay(self, variant, given):
        """A tuple with the result; None: it cannot be replayed from now on."""
        capture = variant.capture
        inputs = guards.once(given.tensors)
        try:
            capture.plan()
        except _C.OutOfMemoryError as e:
            variant.capture = None
            variant.reason = f"no memory for a captured step ({str(e).splitlines()[0]})"
            return None
        self._replays += 1
        region = variant.region
        run = None if region is None else regions.Replayed(variant, given, inputs)
        variant.recording.replay(inputs, variant.at_end)
        outputs = capture.results(0)
        if capture.cells_differed():
            variant.forget("tensors of an optimizer are replaced")
        if region is None:
            self._hasten(variant, given)
            return (variant.result(outputs, given.originals),)
        return (variant.result(run.ran(outputs, inputs), given.originals),)

    def _hasten(self, variant, given):
        """Calls as this one need no Python from now on, where the variant ran the last one, too."""
        recording = variant.recording
        if variant is not self.hasty:
            self._slow_down()
            self.hasty = variant
            return
        if (
            variant.capture is None
            or recording.outside_calls
            or any(c.groups is None for c in recording.cells)
            or given.rest
            or len(given.tensors) != len(guards.once(given.tensors))
        ):
            return
        cells = [(c.number, c.optimizer, c.groups) for c in recording.cells]
        alone = variant.tree.is_leaf() and variant.picks == [("made", 0)]
        quick = _C._Replay(
            variant.capture, given.signature, self.how.verify_every - variant.since_verified,
            (
                variant, variant.capture, _module.changes, _module.changes[0], _live, variant.lock,
                variant.state.places, variant.had_gradient,
                variant.begins_with, variant.at_end, cells, _optimizer._before_all,
                _optimizer._after_all, None if alone else variant.result, variant.theirs,
            ),
        )  # fmt: skip
        self._slow_down(quick)

    def _slow_down(self, then=None):
        """Python runs again, or `then` without: it has the numbers of the calls without."""
        quick, self.quick = self.quick, then  # of threads that come at once one has it
        if quick is not None:
            variant, runs = quick.end()
            self._replays += runs
            variant.since_verified += runs
            variant.called = self.replays + self.always

    @property
    def replays(self):
        quick = self.quick
        return self._replays + (0 if quick is None else quick.runs)

    # ---- verifying -----------------------------------------------------------------------------

    def _verify(self, variant, given, args, kwargs, changed):
        """Runs the function once more, as always, and compares what it launches. `changed`: what Python
        has otherwise than it was, "" if nothing."""
        device = _device_of(given.tensors, list(variant.begins_with))
        trial = _C._capture_begin(device, variant.capture)
        trial.moves = variant.moves
        recording = Recording(trial, arrays=[])
        state = self.state(variant)
        at_end = None
        if variant.calls > 2 or variant.recording.gives_gradients:
            at_end = variant.at_end  # they stay
        else:
            variant.let_go()
        try:
            _live.recording = recording
            _C.clear_autocast_cache()
            trial.open_stage(guards.once(given.tensors))
            args, kwargs = given.taken()
            result = self.function(*args, **kwargs)
            leaves, tree = tree_flatten(result)
            made, picks = _sorted_out(leaves, given.tensors, variant, recording)
            trial.close_stage(made)
            if at_end is None:
                at_end = recording.gradients()
        finally:
            _live.recording = None
            if at_end is None:
                variant.forget("the run that it was to be compared with failed")
            trial.abandon()
            _C.clear_autocast_cache()
        _give_back(device)
        self.always += 1
        what, numbers = ("", False)
        variant.reason = self._wrote(variant, given)
        if trial.read_again():
            variant.moves = False
            variant.forget(trial.broken())
            return regions.handed_back(given, result)
        if trial.broken():
            variant.reason = trial.broken()
        else:
            what, numbers = variant.capture.difference(trial, 0)
            if not what and at_end is not variant.at_end:
                if recording.gives_gradients or not variant.take_over(recording, at_end):
                    what = "its gradients are others"
        if not variant.reason and (by_itself := state.changed()):
            variant.reason = f"the program changes {by_itself}, which a replay would not"
        region = variant.region

        def tell(what, numbers):
            self._compared(variant, recording, changed, what, numbers)

        if variant.reason or what or region is None or region.asked is None:
            tell(what, numbers)
            return regions.handed_back(given, result)
        if [o.requires_grad for o in made] != region.wanted:
            tell("other results want gradients", False)
            return regions.handed_back(given, result)
        # Its backward pass is compared when it comes.
        if not changed:
            variant.calls, variant.since_verified = 3, 0
        outputs = [o for o, w in zip(made, region.wanted) if w]
        sources = region.sources(guards.once(given.tensors))
        run = regions.Compared(outputs, sources, given, variant, region, trial, recording, tell)
        given_out = iter(
            regions.with_history(variant.expects(run), [o.detach() for o in outputs], sources)
        )
        made = [next(given_out) if w else o for o, w in zip(made, region.wanted)]
        return rebuilt(tree, picks, made, given.originals)

    def _compared(self, variant, recording, changed, what, numbers):
        """What follows from how a run by Python differs from the capture. `changed`: see _verify()."""
        variant.calls = 3
        variant.since_verified = 0
        if what and changed:  # seen before a call has run without it
            what, numbers = f"{changed} is not as it was: {what}", False
        if numbers:
            variant.forget(what)
            raise CaptureError(
                f"pf.compile: a captured step has changed: {what}. A number that the program takes "
                "from elsewhere than variables, lists, dicts and attributes is not seen by "
                "mode='reduce-overhead'; pass it as a tensor, change it in place, or use "
                "mode='default'. (Learning rates, schedules and random numbers may change.) This call "
                f"has run with the new number; those since the last check ran with the old, {self.how.verify_every} at most"
            )
        if what:
            variant.forget(what)
        elif changed and variant.capture is not None:
            variant.idle[changed] = variant.idle.get(changed, 0) + 1
            variant.state = self.state(variant).add_copied(recording.arrays).stays()


def _give_back(device):
    """What an ordinary run of a large step took lies idle beside the capture's own memory."""
    stats = _C._memory_stats(device)
    if stats["reserved"] - stats["allocated"] > IDLE:
        _C._empty_cache(device)


def fast(function):
    """Calls it with numerics="fast": results within programs are not rounded to 16 bits."""

    @functools.wraps(function, updated=())
    def called(*args, **kwargs):
        before = _C._set_fast_numerics(True)
        try:
            result = function(*args, **kwargs)
            _C.flush()
            return result
        finally:
            _C._set_fast_numerics(before)

    return called


class _Unasked(recompute_cheap):
    _unasked = True


def saves_less(function):
    """Calls it so that what is cheap to make again is not kept for gradients on the CPU."""

    @functools.wraps(function, updated=())
    def called(*args, **kwargs):
        with _Unasked():
            return function(*args, **kwargs)

    return called


def _device_of(*lists):
    for tensors in lists:
        for t in tensors:
            return t.device
    return _C.get_device()


def _sorted_out(leaves, given, variant, recording):
    """(tensors that the step made, how each leaf of its result is found again)"""
    made, picks, numbers = [], [], {}
    places = {id(t): i for i, t in enumerate(given)}
    # Gradients stay where they are, in the capture's memory; results get other memory each time.
    staying = {_C._storage_number(g) for _, g in recording.gradients() if g is not None}
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            if id(leaf) in places:
                picks.append(("given", places[id(leaf)]))
                continue
            if id(leaf) in variant.outside:  # a parameter, or another tensor of the program
                picks.append(("as it was", leaf))
                continue
            number = numbers.setdefault(id(leaf), len(made))  # one that is there twice is one again
            picks.append(("made", number))
            if number < len(made):
                continue
            stays = _C._storage_number(leaf) in staying
            made.append(leaf.detach().clone() if stays else leaf)
            recording.gives_gradients |= stays
            continue
        if type(leaf) not in guards.PLAIN:
            recording.capture.break_off(f"a result of class {type(leaf).__name__}")
        picks.append(("as it was", leaf))
    return made, picks
