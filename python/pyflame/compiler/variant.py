"""A capture for arguments of one kind, and what it has been found to depend on."""

import threading
import weakref

from .. import _C
from ..utils._pytree import tree_unflatten
from .recording import Cell

RENEWALS = 8  # times that a variant is captured again


class Variant:
    def __init__(self, objects):
        # Of the thread that captures, replays, compares or forgets. The backward pass of the last call does
        # so without: until it is done, everybody else finds it waiting.
        self.lock = threading.Lock()
        self.objects = objects  # by whose ids it is found
        self.calls = 0
        self.renewals = -1
        self.reason = None  # why it runs as always
        self.moves = True  # logits that nobody reads give their memory to their gradient
        self.called = 0  # number of the function's call that used it last
        self.where = ""  # file and line of the call that was captured
        self.renewed = []  # (why it was captured again, file and line of that call)
        self.idle = {}  # what of it has changed and made no difference -> how often
        self.forget("")

    def forget(self, reason):
        """Is captured again at the next call, unless that has been done too often."""
        self.renewals += 1
        if reason:
            self.renewed.append((reason, _C._call_site()))
        if self.renewals > RENEWALS:
            self.reason = f"{reason} ({RENEWALS} times and more)"
        self.capture = None
        self.calls = min(self.calls, 1)
        self.since_verified = 0
        self.recording = None
        self.state = None
        self.at_end = []  # gradients
        self.theirs = frozenset()  # numbers of the storages of the program's tensors
        self.had_gradient = {}
        self.region = None  # of results that want gradients
        self.unfinished = None  # (capture, region) whose backward pass is still to be captured
        self.pending = lambda: None  # the last forward pass, if it lives

    def finish(self):
        """What was captured is all of it."""
        (self.capture, self.region), self.unfinished = self.unfinished, None
        self.region.watch = _C._RunWatch(self.capture)
        self.calls = 2

    def settle(self):
        """Where no backward pass has come to the call that was captured, nor can, it needs none."""
        if not self.lock.acquire(blocking=False):
            return
        try:
            # In this order: nobody changes what is unfinished once its pass is done.
            if self.waiting() is None and self.unfinished is not None:
                capture = self.unfinished[0]
                capture.end()
                capture.results(0)  # which nobody wants
                self.finish()
        finally:
            self.lock.release()

    def waiting(self):
        """The forward pass whose backward pass may still come, or None."""
        run = self.pending()
        return None if run is None or run.done else run

    def knows_otherwise(self, arguments):
        """Whether some argument is a tensor that the function also reaches by itself: which one, and whether
        it is, may be otherwise at the next call of the kind."""
        return any(_C._storage_number(t) in self.theirs for t in arguments)

    def lists_of_gradients(self, recording, at_end):
        calls = [*recording.outside_calls, *recording.cells]
        return [at_end, *[c.before if isinstance(c, Cell) else c[3] for c in calls]]

    def let_go(self):
        """Of the gradients of the captured call, which the next one makes anew: where it clears them,
        they end."""
        for pairs in self.lists_of_gradients(self.recording, self.at_end):
            for i, (p, g) in enumerate(pairs):
                if g is not None and (slot := self.capture.slot_of_made(g)) >= 0:
                    pairs[i] = p, slot

    def take_over(self, trial, at_end):
        """Those of the trial are in their place; whether they can be."""
        ours = self.lists_of_gradients(self.recording, self.at_end)
        theirs = self.lists_of_gradients(trial, at_end)
        for pairs, found in zip(ours, theirs):
            found = dict(found)
            for i, (p, slot) in enumerate(pairs):
                if not isinstance(slot, int):
                    continue
                g = found.get(p)
                if g is None or not self.capture.put_in_place(slot, g):
                    return False
                pairs[i] = p, g
        return len(ours) == len(theirs)

    def expects(self, run):
        """A backward pass, of this call."""
        self.pending = weakref.ref(run)
        return run

    def still_true(self):
        """Whether the tensors of the program, and which of them have gradients, are as captured, or nothing
        is captured."""
        capture, recording = self.capture, self.recording  # another thread may forget them
        if capture is None or recording is None:
            return True
        if not capture.watched_still_there() or not recording.cells_hold():
            return False
        return _C._gradients_hold(self.had_gradient, self.begins_with)

    def result(self, made, tensors):
        """What the function gives of `tensors`, for those that were made."""
        return rebuilt(self.tree, self.picks, made, tensors)


def rebuilt(tree, picks, made, tensors):
    leaves = [
        made[value] if kind == "made" else tensors[value] if kind == "given" else value
        for kind, value in picks
    ]
    return tree_unflatten(leaves, tree)
