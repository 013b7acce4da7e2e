"""Streams and events: order, timing, and that memory is not handed out while a stream uses it."""

import os
import subprocess
import sys
import textwrap
import threading

import pytest
from conftest import DEVICE
from hangs import HANG

import pyflame as pf

ONE = DEVICE.split(":")[0]
queues = pytest.mark.skipif(ONE == "cpu", reason="on the CPU every call has finished at once")


def run(script, **environment):
    """Runs a script on the test backend, with long delays and a cache, in a process of its own."""
    settings = {"PYFLAME_PARANOID_DELAY_US": "3000", "PYFLAME_ALLOC_CONF": "caching:True"}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, **settings, **environment},
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def test_names_of_torch_cuda():
    for name in ("Stream", "Event", "stream", "current_stream", "default_stream", "set_stream"):
        assert hasattr(pf.cuda, name)
    assert pf.Stream is pf.cuda.Stream and pf.Event is pf.cuda.Event
    assert pf.cpu.current_stream("cpu") == pf.cuda.default_stream("cpu")


def test_current_stream():
    default = pf.cuda.default_stream(DEVICE)
    assert pf.cuda.current_stream(DEVICE) == default and default.stream_id == 0
    a, b = pf.cuda.Stream(DEVICE), pf.cuda.Stream(DEVICE, priority=-1)
    assert a != b and a != default and b.priority == -1 and a.device == pf.device(DEVICE)
    assert len({a, b, default, pf.cuda.current_stream(DEVICE)}) == 3
    with pf.cuda.stream(a) as entered:
        assert entered is a and pf.cuda.current_stream(DEVICE) == a
        with b:
            assert pf.cuda.current_stream(DEVICE) == b
        with pf.cuda.stream(None):
            assert pf.cuda.current_stream(DEVICE) == a
        seen = []
        thread = threading.Thread(target=lambda: seen.append(pf.cuda.current_stream(DEVICE)))
        thread.start()
        thread.join()
        assert seen == [default]
    with pytest.raises(ZeroDivisionError), pf.cuda.stream(a):
        raise ZeroDivisionError
    assert pf.cuda.current_stream(DEVICE) == default
    pf.cuda.set_stream(a)
    assert pf.cuda.current_stream(DEVICE) == a
    pf.cuda.set_stream(default)


def test_a_stream_that_nobody_has_is_handed_out_again():
    a = pf.cuda.Stream(DEVICE)
    number = a.stream_id
    b = pf.cuda.Stream(DEVICE)
    assert b.stream_id != number
    del a
    assert number in {s.stream_id for s in [pf.cuda.Stream(DEVICE) for _ in range(8)]}


def test_what_was_recorded_before_a_switch_goes_to_the_stream_before():
    side = pf.cuda.Stream(DEVICE)
    x = pf.ones(100)
    pf.synchronize()
    pf.debug.reset_stats()
    y = x + 1
    with pf.cuda.stream(side):
        side.wait_stream(pf.cuda.default_stream(DEVICE))
        z = y * 2
    stats = pf.debug.stats()
    assert stats["flush.stream_switch"] == 2 and stats["groups"] == 2
    side.synchronize()
    pf.cuda.current_stream(DEVICE).wait_stream(side)
    assert z.tolist() == [4.0] * 100


def test_events():
    e = pf.cuda.Event()
    assert e.query()
    e.synchronize()
    e.wait(pf.cuda.current_stream(DEVICE))
    start, end = pf.cuda.Event(enable_timing=True), pf.cuda.Event(enable_timing=True)
    for text, one, two in [("without timing", e, end), ("never recorded", start, end)]:
        with pytest.raises(pf.ValueError, match=text):
            one.elapsed_time(two)
    stream = pf.cuda.current_stream(DEVICE)
    x = pf.rand(200, 200)
    start.record(stream)
    pf.debug.reset_stats()
    for _ in range(20):
        x = x @ x
        x = x / x.max()
    end.record(stream)
    assert end.device == pf.device(DEVICE)
    end.synchronize()
    assert start.query() and end.query()
    stream.synchronize()
    assert stream.query()
    assert 0 < start.elapsed_time(end) < 60_000
    assert end.elapsed_time(start) < 0
    assert stream.record_event().query() in (True, False)
    with pytest.raises(pf.NotSupportedError):
        pf.cuda.Event(interprocess=True)


def test_an_event_flushes_what_was_recorded():
    x = pf.ones(10)
    pf.synchronize()
    pf.debug.reset_stats()
    y = x + 1
    event = pf.cuda.current_stream(DEVICE).record_event()
    assert pf.debug.stats()["flush.event"] == 1
    event.synchronize()
    assert y.tolist() == [2.0] * 10


@queues
def test_work_of_two_streams_is_ordered_by_events():
    """Producer and consumer on streams of their own, many times."""
    one, two = pf.cuda.Stream(DEVICE), pf.cuda.Stream(DEVICE)
    for i in range(50):
        with pf.cuda.stream(one):
            x = pf.full((2000,), float(i))
            for _ in range(5):
                x = (x + 1).cumsum(0) * 0 + x + 1
            done = one.record_event()
        with pf.cuda.stream(two):
            done.wait()
            y = x * 2
            two.record_event().wait(pf.cuda.default_stream(DEVICE))
        assert y.tolist() == [2.0 * (i + 5)] * 2000


@queues
def test_errors_of_a_stream_come_when_it_is_waited_for():
    side = pf.cuda.Stream(DEVICE)
    table = pf.ones(4, 3)
    wrong = pf.tensor([1, 9])
    pf.synchronize()
    with pf.cuda.stream(side):
        pf.nn.functional.embedding(wrong, table)
        with pytest.raises(pf.IndexError, match="9"):
            side.synchronize()
    side.synchronize()
    with pf.cuda.stream(side):
        y = table + 1
        assert y.sum().item() == 24


@queues
def test_a_thread_with_a_stream_of_its_own():
    x = pf.ones(1000)
    pf.synchronize()
    results = {}

    def work(i):
        pf.set_device(DEVICE)
        stream = pf.cuda.Stream(DEVICE)
        with pf.cuda.stream(stream):
            y = x
            for _ in range(30):
                y = (y + i).cumsum(0) * 0.5
                y = y / y.max()
            results[i] = y.tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, 4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for i in range(1, 4):
        y = x
        for _ in range(30):
            y = (y + i).cumsum(0) * 0.5
            y = y / y.max()
        assert results[i] == y.tolist()


@queues
def test_pageable_sources_are_read_when_the_call_returns():
    x = pf.zeros(100_000, device="cpu")
    side = pf.cuda.Stream(DEVICE)
    with pf.cuda.stream(side):
        for i in range(20):
            x.fill_(i)
            y = x.to(DEVICE, non_blocking=True)
            x.fill_(-1)
            assert y[-1].item() == i


def test_copies_to_the_cpu_have_their_values():
    x = pf.arange(100_000)
    for _ in range(10):
        x = x + 1
    assert x.to("cpu", non_blocking=True)[0].item() == 10


# ---- memory across streams: the test backend with long delays --------------------------------------

CROSS = """
    import pyflame as pf
    pf.set_device("paranoid")
    main, side = pf.cuda.default_stream(), pf.cuda.Stream()
    for i in range(60):
        x = pf.full((4000,), float(i)) + 1
        side.wait_stream(main)
        with pf.cuda.stream(side):
            y = x
            for _ in range(4):
                y = (y + 1).cumsum(0) * 0 + x + 1     # reads x late
        del x                                         # its block goes back to the main stream
        junk = [pf.full((4000,), -1000.0) + j for j in range(4)]
        pf.flush()
        side.synchronize()
        got = y.cpu().tolist()
        assert got == [i + 2.0] * 4000, (i, got[:3])
    print("ok")
"""


def test_memory_that_another_stream_uses_is_not_handed_out():
    assert run(CROSS) == "ok"


def test_such_memory_is_active_until_the_stream_is_done_with_it():
    script = """
        import pyflame as pf
        pf.set_device("paranoid")
        side = pf.cuda.Stream()
        x = pf.ones(1 << 20)
        pf.synchronize()
        event = pf.cuda.Event()
        with pf.cuda.stream(side):
            for _ in range(30):
                y = x + 1
                pf.flush()
        before = pf.memory.memory_stats()
        del x
        after = pf.memory.memory_stats()
        assert after["allocated_bytes.all.current"] == before["allocated_bytes.all.current"] - (4 << 20)
        side.synchronize()
        end = pf.memory.memory_stats()
        assert end["active_bytes.all.current"] == end["allocated_bytes.all.current"]
        waiting = after["active_bytes.all.current"] - after["allocated_bytes.all.current"]
        print(waiting)
    """
    assert run(script, PYFLAME_PARANOID_DELAY_US="20000") == str(4 << 20)


def test_record_stream():
    """Work that PyFlame does not see: recorded by hand, the memory waits for the stream."""
    script = """
        import pyflame as pf
        pf.set_device("paranoid")
        side = pf.cuda.Stream()
        for recorded in (False, True):
            x = pf.ones(1 << 18)
            at = x.data_ptr()
            with pf.cuda.stream(side):
                y = pf.ones(1000)
                for _ in range(40):
                    y = (y + 1).cumsum(0)
            if recorded:
                x.record_stream(side)
            del x
            z = pf.ones(1 << 18)
            print(z.data_ptr() == at, end=" ")
            side.synchronize()
            del z
        try:
            pf.ones(3).record_stream(5)
        except TypeError as error:
            print("expected a Stream" in str(error))
    """
    assert run(script, PYFLAME_PARANOID_DELAY_US="20000") == "True False True"


def test_blocks_of_a_stream_go_to_its_own_later_work():
    script = """
        import pyflame as pf
        pf.set_device("paranoid")
        side = pf.cuda.Stream()
        with pf.cuda.stream(side):
            x = pf.ones(1 << 18)
            at = x.data_ptr()
            del x
        y = pf.ones(1 << 18)
        with pf.cuda.stream(side):
            z = pf.ones(1 << 18)
        print(y.data_ptr() == at, z.data_ptr() == at)
        print([s["stream"] for s in pf.memory.memory_snapshot() if s["allocated_size"] >= 1 << 20])
    """
    assert run(script).split("\n")[0] == "False True"


def test_asynchronous_copies_from_pinned_memory():
    """The call does not wait: the copy reads its source when the stream comes to it."""
    script = """
        import pyflame as pf
        pf.set_device("paranoid")
        side = pf.cuda.Stream()
        late = 0
        for i in range(30):
            p = pf.full((3000,), 1, dtype=pf.int64, device="cpu").pin_memory()
            with pf.cuda.stream(side):
                busy = pf.ones(100)
                for _ in range(10):
                    busy = busy.cumsum(0) * 0.5
                pf.flush()
                x = p.to("paranoid", non_blocking=True)
            late += not side.query()
            p.fill_(2)                       # too early: what PyTorch warns of
            side.synchronize()
            late += x[0].item() == 2
        print(late > 30)
        # Without non_blocking, or after an event, the source may be used again.
        for i in range(30):
            p = pf.full((1 << 18,), i, dtype=pf.int64, device="cpu").pin_memory()
            with pf.cuda.stream(side):
                x = p.to("paranoid")
                y = p.to("paranoid", non_blocking=True)
                copied = side.record_event()
            copied.synchronize()
            p.fill_(-1)
            side.synchronize()
            assert x[7].item() == i and y[1 << 17].item() == i
        print("ok")
    """
    assert run(script) == "True\nok"


def test_prefetching_of_batches():
    """The pattern of data loaders: the next batch is copied while this one is computed with."""
    script = """
        import pyflame as pf
        pf.set_device("paranoid")
        side = pf.cuda.Stream()
        batches = [pf.full((64, 100), float(i), device="cpu").pin_memory() for i in range(20)]

        def fetch(i):
            with pf.cuda.stream(side):
                return batches[i].to("paranoid", non_blocking=True)

        total, ahead = 0.0, fetch(0)
        sums = []
        for i in range(20):
            pf.cuda.current_stream().wait_stream(side)
            x = ahead
            x.record_stream(pf.cuda.current_stream())
            if i + 1 < 20:
                ahead = fetch(i + 1)
            sums.append((x * 2).sum())
        assert [s.item() for s in sums] == [i * 2.0 * 6400 for i in range(20)]
        print("ok")
    """
    assert run(script) == "ok"


def test_waiting_releases_the_interpreter():
    script = """
        import threading, time
        import pyflame as pf
        pf.set_device("paranoid")
        x = pf.ones(100)
        pf.synchronize()
        ticks, stop = [0], False
        def tick():
            while not stop:
                ticks[0] += 1
                time.sleep(0.001)
        thread = threading.Thread(target=tick)
        thread.start()
        for _ in range(100):
            x = x + 1
            pf.flush()
        event = pf.cuda.Event()
        event.record()
        before = ticks[0]
        event.synchronize()
        waited = ticks[0] - before
        stop = True
        thread.join()
        print(waited > 0)
    """
    assert run(script, PYFLAME_PARANOID_DELAY_US="50000") == "True"
