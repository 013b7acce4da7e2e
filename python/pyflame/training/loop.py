"""The loop of every training command: steps with progress, records, checkpoints, and Ctrl-C."""

import math
import os
import signal

from .. import _C
from . import output
from .output import say
from .runs import write_json


class Interrupts:
    """Turns the first Ctrl-C (or SIGTERM) into a flag; the second one is an ordinary Ctrl-C."""

    def __init__(self):
        self.signal = None

    def _on_signal(self, number, frame):
        if self.signal is not None:
            raise KeyboardInterrupt
        self.signal = number

    def __enter__(self):
        self._before = {}
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                self._before[number] = signal.signal(number, self._on_signal)
            except ValueError:  # not the main thread: nothing to do
                pass
        return self

    def __exit__(self, *_):
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Job:
    """What a command trains. `step` of `total` are done; what a step computes follows from the
    configuration and the number of the step alone, so that a run that goes on is the same run."""

    step = 0
    total = 0
    done = False  # nothing is left to learn before `total`: an early stop

    def train_step(self):
        """One step; returns the loss as a tensor, which nobody has waited for."""
        raise NotImplementedError

    def shown(self, loss):
        """The number that stands for a loss in the progress line."""
        return loss

    def entry(self, shown):
        """What is recorded of a step, beside its number."""
        return {"loss": shown}

    def after_step(self, records):
        """Work between steps, such as a look at held-out data; may set `done`."""

    def state(self):
        raise NotImplementedError

    def load(self, state):
        raise NotImplementedError


def run_steps(job, checkpoints, interrupts, progress, records, *, every, log_every, saved=None):
    """Steps to the end, a checkpoint `every` so many and at the end, a record `log_every` so many.

    `saved` is the step of the newest checkpoint. Returns the signal that stopped it, or None, and
    the error that kept the last checkpoint from being written, or None.
    """
    average = problem = None
    if job.step >= job.total or job.done:
        return None, None
    try:
        while job.step < job.total and not job.done and interrupts.signal is None:
            loss = job.train_step()
            step = job.step
            logged = step % log_every == 0 or step == job.total
            if logged or progress.due():
                value = job.shown(loss.item())
                if math.isnan(value):
                    raise _C.ValueError(
                        f"pf.train: the loss is NaN at step {step}; expected a number; lower "
                        "--lr, the last checkpoint is kept"
                    )
                average = value if average is None else 0.9 * average + 0.1 * value
                if logged:
                    records.add({"step": step, **job.entry(value)})
                if progress.due():
                    progress.show(step, average)
                    records.flush()
            job.after_step(records)
            if step % every == 0 or step == job.total or job.done:
                records.flush()
                try:
                    checkpoints.save(step, job.state())
                    saved, problem = step, None
                except OSError as e:  # a full disk: training is worth more than this copy
                    problem = e
                    progress.close()
                    if step < job.total:
                        newest = f"the newest is of step {saved}" if saved else "there is none yet"
                        say(f"warning: no checkpoint at step {step}, {newest}: {e}")
        if average is not None:
            progress.show(job.step, average)
    finally:
        progress.close()
        records.flush()
    if interrupts.signal is not None and saved != job.step:
        try:
            checkpoints.save(job.step, job.state())
            problem = None
        except OSError as e:
            problem = e
    return interrupts.signal, problem


def interrupted(job, number, problem, again):
    """Says where the signal `number` stopped a run, and with which command it goes on; returns the
    exit status."""
    kept = "a checkpoint is kept" if problem is None else f"no checkpoint of it: {problem}"
    say(f"interrupted at step {job.step} of {job.total}; {kept}; go on with: {again}")
    return 128 + number


def keep_result(directory, result, problem, again):
    """Writes a run's result beside it, and says what of the run could not be kept or told. Returns
    the first error that kept something from being written, or None."""
    path = os.path.join(directory, "result.json")
    if output.lost:
        result["output_lost"] = dict(output.lost)
    try:
        write_json(path, result)
    except OSError as e:
        problem = problem or e
    if problem is not None:
        say(
            f"\nwarning: the trained model could not be kept: {problem}\nwhen there is room, make "
            f"it again from the newest checkpoint: {again}"
        )
    if note := output.note():
        say(f"\nnote: {note}; the result stands in {path}")
    return problem
