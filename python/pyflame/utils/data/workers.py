"""Worker processes of a DataLoader.

Batch i is made by worker i modulo their number and read from that worker's own pipe: the order of
batches does not depend on timing. A worker's error is raised where the batch is asked for, with the
worker's traceback; a worker that dies is an error that says how, one that gives no batch in time an
error that says what it is doing.
"""

import itertools
import multiprocessing
import multiprocessing.connection
import os
import pickle
import queue
import random
import signal
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from typing import Any

from ... import _C
from ..._processes import start_thread
from .dataloader import WorkerError
from .shared import Receiver, Sender

_ALONE = 5.0  # seconds after which an idle worker looks whether its parent is still there
_WHERE = "where"  # asks a worker what it is doing
_FOR_WORKERS = {signal.SIGINT, signal.SIGTERM}  # whose handlers are the main process's own

_info = None


@dataclass(frozen=True)
class WorkerInfo:
    """What get_worker_info() says inside a worker."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info():
    """In a worker: its `id`, `num_workers`, `seed` and `dataset`; None in the main process."""
    return _info


class _Text(str):
    """Lines that a KeyError shows as lines."""

    __repr__ = str.__str__


class _Failure:
    """An exception on its way to the main process."""

    def __init__(self, error, worker):
        self.type = type(error)
        self.text = (
            f"Caught {self.type.__name__} in DataLoader worker process {worker}.\n"
            f"Original {''.join(traceback.format_exception(error))}"
        )
        try:
            pickle.dumps(self.type)
        except Exception:  # a class that only the worker knows
            self.type = RuntimeError

    def error(self):
        try:
            made = self.type(_Text(self.text) if issubclass(self.type, KeyError) else self.text)
        except Exception:  # its constructor wants other arguments
            made = None
        return made if isinstance(made, Exception) else RuntimeError(self.text)


class _End:
    """A worker's part of an IterableDataset is at its end."""


def _seed(seed):
    from ... import manual_seed

    manual_seed(seed)
    random.seed(seed)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed(seed % 2**32)


def _stack(thread):
    """Where a thread is, as in a traceback, from what it does for the loader on."""
    frames = traceback.extract_stack(sys._current_frames()[thread])
    names = [f.name for f in frames]
    first = names.index("_work") if "_work" in names else 0
    return "".join(traceback.format_list(frames[first:]))


def _listen(pipe, answers, messages, parent):
    """Takes messages from the pipe at once, so that the main process never waits to send one."""
    try:
        while True:
            while not pipe.poll(_ALONE):
                if os.getppid() != parent:
                    os._exit(1)
            message = pipe.recv()
            if message == _WHERE:
                answers.send(_stack(threading.main_thread().ident))
            else:
                messages.put(message)
    except (EOFError, OSError):
        os._exit(1)  # the main process is gone


def _work(pipe, answers, number, count, fetch, init, parent, others):
    """A worker's life: (epoch, seed, None, freed) begins an epoch, (epoch, None, request, freed) wants
    a batch; `freed` are segments of memory that may be used again. `answers` takes what _WHERE asks."""
    global _info
    for other in others:  # so that a pipe ends when the main process lets go of its own end
        other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # and by this one: its handler is not for them
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FOR_WORKERS)
    _C.set_device("cpu")
    _C.set_num_threads(1)
    sender = Sender(pipe, parent)
    messages = queue.SimpleQueue()
    listener = threading.Thread(target=_listen, args=(pipe, answers, messages, parent), daemon=True)
    start_thread(listener, ("utils.data.DataLoader", "take fewer workers"))
    stream = failure = None
    while True:
        epoch, seed, request, freed = messages.get()
        sender.free += freed
        if seed is not None:
            _seed(seed)
            first, failure = _info is None, None
            _info = WorkerInfo(number, count, seed, fetch.dataset)
            try:
                if first and init is not None:
                    init(number)
                stream = fetch.stream()
            except Exception as error:
                failure = _Failure(error, number)
            continue
        try:
            result = failure or (fetch(request) if stream is None else next(stream, _End()))
        except Exception as error:
            result = _Failure(error, number)
        try:
            sender.send((epoch, result))
        except OSError:
            os._exit(1)  # the main process is gone, and nobody is left to be told
        except Exception as error:  # a batch that cannot be sent
            sender.send((epoch, _Failure(error, number)))


class _NoInterrupt:
    """Ctrl-C is heard when the block has ended. A mask does not do: other threads take the signal, and
    Python calls the handler in the main thread all the same."""

    def __enter__(self):
        self.handler, self.heard = None, False
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if callable(handler):
                self.handler = handler
                signal.signal(signal.SIGINT, self._note)

    def _note(self, *_):
        self.heard = True

    def __exit__(self, *_):
        if self.handler is not None:
            signal.signal(signal.SIGINT, self.handler)
            if self.heard:
                self.handler(signal.SIGINT, sys._getframe())


class Pool:
    """The workers of one loader; lives for an epoch, or as long as the loader if persistent."""

    pipes = answers = (
        processes
    ) = ()  # a signal may end __init__ before it has its own, and __del__ follows

    def __init__(self, count, fetch, init, context, timeout):
        if context is None or isinstance(context, str):
            method = context or (
                "fork" if "fork" in multiprocessing.get_all_start_methods() else None
            )
            context = multiprocessing.get_context(method)
        self.timeout, self.epoch, self.busy = timeout, 0, False
        self.pipes, self.answers, self.processes, self.receivers = [], [], [], []
        if "numpy" in sys.modules:  # whole, before a fork: a child waits for ever for half of it
            import numpy.random  # noqa: F401
        _C.flush()  # a child must not find work of this thread half done
        try:
            forks = context.get_start_method() == "fork"  # which copies open files
            for number in range(count):
                here, there = context.Pipe()
                answer, answers = context.Pipe(duplex=False)
                others = [*self.pipes, here, *self.answers, answer] if forks else []
                process = context.Process(
                    target=_work,
                    args=(there, answers, number, count, fetch, init, os.getpid(), others),
                    name=f"pyflame-data-{number}",
                    daemon=True,
                )
                with _NoInterrupt():  # a child without its note would be nobody's to wait for
                    # Until the worker has set its own: the handlers of this process are not for it.
                    before = signal.pthread_sigmask(signal.SIG_BLOCK, _FOR_WORKERS)
                    try:
                        process.start()
                    finally:
                        signal.pthread_sigmask(signal.SIG_SETMASK, before)
                    self.processes.append(process)
                    there.close()
                    answers.close()
                    self.pipes.append(here)
                    self.answers.append(answer)
                    self.receivers.append(Receiver(here))
        except BaseException:
            self.close()
            raise

    def close(self):
        """Ends the workers, at once."""
        with _NoInterrupt():
            for process in self.processes:
                process.terminate()
            for process in self.processes:
                process.join(5)
                if process.is_alive():
                    process.kill()
                    process.join()
                process.close()
            for pipe in (*self.pipes, *self.answers):
                pipe.close()
            self.pipes, self.answers, self.processes, self.receivers = [], [], [], []

    def __del__(self):
        self.close()

    def _send(self, worker, message):
        try:
            self.pipes[worker].send((*message, self.receivers[worker].freed()))
        except (BrokenPipeError, ConnectionResetError):
            raise self._death(worker) from None

    def _death(self, worker):
        process = self.processes[worker]
        process.join(1)
        code = process.exitcode
        how = (
            f"was killed by {signal.Signals(-code).name}"
            if code and code < 0
            else f"ended ({code})"
        )
        return WorkerError(
            f"pf.utils.data.DataLoader: worker {worker} (pid {process.pid}) {how}; expected a "
            "batch; if memory ran out, use fewer workers or smaller batches, and num_workers=0 "
            "shows an error of the dataset itself"
        )

    def _hang(self, worker):
        """The error of a worker that gives no batch, with what it is doing."""
        where = "It does not say where it is: stopped, or inside a library."
        try:
            self.pipes[worker].send(_WHERE)
            if self.answers[worker].poll(1.0):
                where = "It is at:\n" + self.answers[worker].recv()
        except (EOFError, OSError):
            return self._death(worker)
        process = self.processes[worker]
        process.kill()  # what asks it to end might wait, too
        return WorkerError(
            f"pf.utils.data.DataLoader: worker {worker} (pid {process.pid}) gave no "
            f"batch within {self.timeout} s; expected one in that time; raise timeout. {where}"
        )

    def _receive(self, worker):
        pipe, process = self.pipes[worker], self.processes[worker]
        end = time.monotonic() + self.timeout if self.timeout else None
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            ready = multiprocessing.connection.wait([pipe, process.sentinel], left)
            if not ready:
                raise self._hang(worker)
            if pipe not in ready:
                raise self._death(worker)
            try:
                epoch, result = self.receivers[worker].receive()
            except (EOFError, OSError):  # also within a message
                raise self._death(worker) from None
            if epoch == self.epoch:  # not one of an epoch that was given up
                return result

    def run(self, requests, prefetch, seed):
        """The batches for the requests, in order; `requests` is endless for streams."""
        self.epoch += 1
        self.busy = True
        workers = list(range(len(self.pipes)))
        for worker in workers:
            self._send(worker, (self.epoch, seed + worker, None))
        requests, turns = iter(requests), itertools.count()
        waiting = []  # workers, in the order in which their batches are due

        def ask(worker):
            for request in itertools.islice(requests, 1):
                self._send(worker, (self.epoch, None, request))
                waiting.append(worker)

        for _ in range(prefetch * len(workers)):
            ask(workers[next(turns) % len(workers)])
        while waiting:
            worker = waiting.pop(0)
            result = self._receive(worker)
            if isinstance(result, _Failure):
                raise result.error()
            if isinstance(result, _End):
                if worker in workers:
                    workers.remove(worker)
                continue
            if worker in workers:
                ask(worker)
            yield result
