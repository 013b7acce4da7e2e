"""SIGINT and SIGTERM in the middle of work: KeyboardInterrupt, or the program's own handler; then the
state that is left is whole, and work goes on."""

import random
import signal
import tempfile
import time

from harness import Finding, Victim, rounds

LOOPS = """
import os, random, signal, sys
import pyflame as pf

dice = random.Random(int(sys.argv[1]))
path = sys.argv[2]


class Asked(Exception):
    pass


def asked(number, frame):
    at = []
    while frame:
        code = frame.f_code
        at.append(f"{os.path.basename(code.co_filename)}:{code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    # Where an exception is lost, this tells where it was raised.
    os.write(1, f"handler at {' < '.join(at)}\\n".encode())
    # While Python compiles a module, what a handler raises in the arithmetic of constants (2**63) is
    # dropped, but for KeyboardInterrupt.
    compiling = any(":source_to_code:" in place for place in at[:3])
    raise Asked if number == signal.SIGTERM and not compiling else KeyboardInterrupt


def dropped(what):
    # Python drops what a handler raises inside a finaliser, in any program: counted, no more.
    if isinstance(what.exc_value, (KeyboardInterrupt, Asked)):
        count()
    elif not (isinstance(what.exc_value, AttributeError) and python_s_own(what.exc_traceback)):
        sys.__unraisablehook__(what)


def python_s_own(trace):
    # A signal in the middle of a constructor of Python's library (multiprocessing.util.Finalize)
    # leaves an object whose finaliser then misses its attributes.
    while trace and "pyflame" not in trace.tb_frame.f_globals.get("__name__", ""):
        trace = trace.tb_next
    return trace is None


def count():
    global hits
    hits += 1
    print(hits, flush=True)


hits = 0
sys.unraisablehook = dropped
signal.signal(signal.SIGTERM, asked)
signal.signal(signal.SIGINT, asked)
m = pf.nn.Sequential(pf.nn.Linear(64, 256), pf.nn.GELU(), pf.nn.LayerNorm(256), pf.nn.Linear(256, 8))
o = pf.optim.AdamW(m.parameters(), lr=1e-3)
x, y = pf.randn(256, 64), pf.randint(0, 8, (256,))
big = pf.randn(700, 700)


def training():
    o.zero_grad()
    pf.nn.functional.cross_entropy(m(x), y).backward()
    o.step()


def product():
    (big @ big @ big).sum().item()


def saving():
    pf.save({"x": pf.ones(10000), "y": [pf.zeros(3)] * 3}, path)
    assert pf.load(path)["x"].sum().item() == 10000


def hook():
    t = pf.ones(100000, requires_grad=True)
    t.register_hook(lambda g: g * len([i for i in range(300)]))
    (t * 2).sum().backward()


def loading():
    data = pf.utils.data.TensorDataset(x, y)
    for _ in pf.utils.data.DataLoader(data, batch_size=32, num_workers=dice.choice([0, 0, 1])):
        pass


def what_is_left_works():
    assert (pf.ones(1000) + 1).sum().item() == 2000
    loss = pf.nn.functional.cross_entropy(m(x), y)
    loss.backward()
    assert pf.isfinite(loss).item()
    assert not any(pf.isnan(p.grad).any().item() for p in m.parameters())
    o.zero_grad()
    try:
        assert pf.load(path)["x"].sum().item() == 10000
    except FileNotFoundError:
        pass


work = [training, product, saving, hook, loading]
caught = None
while True:
    try:
        while True:  # in here Python hears what came at the end of a turn, too
            if caught is None:  # a signal comes as soon as something is printed
                print("go", flush=True)
            elif caught:
                what_is_left_works()
                caught = False
                count()
            caught = False
            job = dice.choice(work)
            for _ in range(20):
                job()
    except (KeyboardInterrupt, Asked):
        caught = True
"""


def run(seed: int, seconds: float) -> None:
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        victim = Victim(LOOPS, seed, f"{folder}/x.pf")
        if not victim.wait_for("go", 60):
            raise Finding(f"before any signal: {victim.end(0.1)}")
        for count, _ in enumerate(rounds(seconds, 3), 1):
            time.sleep(dice.random() * 0.2)
            victim.send(dice.choice([signal.SIGINT, signal.SIGTERM]))
            if not victim.wait_for(str(count), 30):
                raise Finding(f"after {count} signals: {victim.end(0.1)}")
        victim.send(signal.SIGKILL)
        ended = victim.end(10)
        if ended.err:
            raise Finding(str(ended))
