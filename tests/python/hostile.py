"""Calls of the whole API that no program means: sizes of 0, tensors without dimensions, numbers beyond
any size, views that overlap, objects of wrong classes, tensors without anything inside.

`python hostile.py LOG KIND SEED FIRST END` makes the calls FIRST to END. Call number n of a seed is the
same whatever was called before it. What is being called stands in LOG, as "number text": whoever
watches knows what a child died of, or hangs in. On the CPU each block of memory ends at a page that
nobody may touch (PYFLAME_GUARD_PAGES). Kinds:

walk   arguments that an operation takes; then the same with each size of each tensor 0, and with a
       tensor of no dimensions in each place
wild   an operation of the table with some arguments that are hostile
names  functions and methods of Python's by name, with such arguments
empty  members of Tensor and functions of the extension module, with objects of the right class
       without a tensor inside, and of classes that are like it
chain, objects  short programs: hostile_programs.py
hooks  training whose hooks interfere: hostile_hooks.py
"""

import contextlib
import gc
import importlib
import inspect
import os
import random
import resource
import sys
import threading
import warnings

from differential import draw

import pyflame as pf

DRAWN = [*draw.MAIN, *draw.COMPLEX]
MEMORY = 2 << 30  # bytes of addresses that calls may take
NAN, INF = float("nan"), float("inf")
ROWS = [r for r in pf.ops.table() if not r["name"].startswith("test_")]
DTYPES = [v for v in vars(pf).values() if isinstance(v, pf.dtype)]
HUGE = [
    2**31 - 1,
    2**31,
    -(2**31),
    2**40,
    2**62,
    2**63 - 1,
    -(2**63),
    2**64,
    -(2**70),
    10**6,
    65537,
]
INTS = [0, 1, -1, 2, -2, 3, 7, 12, 13, 64, 100, *HUGE]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, NAN, INF, -INF, 1e300, 1e-320, 2.0**63, -1e30]
SIZES = [0, 0, 1, 1, 2, 3, 5, 17]
TEXTS = [
    "mean",
    "sum",
    "none",
    "x",
    "",
    "float32",
    "reflect",
    "bilinear",
    "ij,jk->ik",
    "\ud800",
    "a" * 300,
]

# What ends or changes the process, waits for others, or writes files.
LEFT_OUT = set(
    """
    set_device set_num_threads set_num_interop_threads set_default_dtype set_default_device compile
    save load set_strict set_printoptions from_file hub manual_seed seed set_default_tensor_type
    share_memory_ set_deterministic_debug_mode use_deterministic_algorithms fork wait load_inline
    set_warn_always set_flush_denormal set_grad_enabled set_anomaly_enabled import_ir_module
    clear_autocast_cache set_float32_matmul_precision set_rng_state
    """.split()
)


def empty_object(cls=pf.Tensor):
    """An object of the right class without a tensor inside."""
    return cls.__new__(cls)


class _Sub(pf.Tensor):
    def __init__(self):  # which does not call the base's
        pass


def _no_tensor(rng):
    return rng.choice([empty_object, _Sub, lambda: empty_object(pf.nn.Parameter)])()


# ---- values ---------------------------------------------------------------------------------------


def tensor(rng):
    """Any tensor: of any dtype and layout, small."""
    try:
        return _tensor(rng)
    except pf.PyFlameError:  # a dtype that cannot be made so
        return pf.ones(2, 3)


def _tensor(rng):
    shape = tuple(rng.choice(SIZES) for _ in range(rng.choice([0, 0, 1, 1, 2, 2, 3, 4, 5])))
    dtype = rng.choice([pf.float32, pf.float32, pf.float64, pf.int64, pf.bool, *DTYPES])
    values = rng.choice(["normal", "normal", "special", "large"])
    t = pf.randn(shape)
    if values == "special":
        t = pf.where(t > 0.5, rng.choice([NAN, INF, -INF, 0.0]), t)
    elif values == "large":
        t = t * rng.choice([1e30, 1e9, 1e-40])
    t = t.to(dtype)
    how = rng.random()
    if how < 0.12 and t.dim() > 1:
        t = t.transpose(0, -1)
    elif how < 0.2 and dtype.bits >= 8:
        t = t.unsqueeze(0).expand(rng.choice([0, 2, 3]), *shape)
    elif how < 0.26 and t.dim() and t.shape[0] and dtype.bits >= 8:
        t = t[:: rng.choice([1, 2, 3])]
    elif how < 0.32 and dtype.bits >= 8 and t.numel() > 3:  # elements that overlap
        t = t.contiguous().flatten().as_strided((2, t.numel() // 2), (rng.choice([0, 1]), 1))
    elif how < 0.36:
        t = pf.empty(rng.choice([(2**40, 0, 3), (0, 2**62), (0,) * 12, (1,) * 12]), dtype=dtype)
    elif how < 0.4 and dtype.bits >= 8:
        t = pf.zeros(1, dtype=dtype).expand(rng.choice([2**16, 2**24]))
    elif how < 0.44:
        t = pf.empty(shape, dtype=dtype, device="meta")
    if (dtype.is_floating_point or dtype.is_complex) and rng.random() < 0.25:
        with contextlib.suppress(pf.PyFlameError):
            t = t.detach().requires_grad_()
    return t


def anything(rng):
    """A value of any class."""
    return rng.choice(
        [
            lambda: tensor(rng), lambda: tensor(rng), lambda: tensor(rng), lambda: rng.choice(INTS),
            lambda: rng.choice(INTS), lambda: rng.choice(FLOATS), lambda: None, lambda: rng.random() < 0.5,
            lambda: tuple(rng.choice(INTS) for _ in range(rng.randint(0, 4))),
            lambda: [tensor(rng) for _ in range(rng.randint(0, 3))], lambda: rng.choice(TEXTS),
            lambda: rng.choice(DTYPES), lambda: _no_tensor(rng), object, lambda: b"x", lambda: {},
            lambda: 1j, lambda: rng.choice([slice(None, None, 2), Ellipsis, pf.Tensor, "meta", "cpu"]),
            lambda: [rng.choice(FLOATS) for _ in range(rng.randint(0, 14))],
        ]
    )()  # fmt: skip


def of_type(rng, kind):
    """A hostile value of a parameter's type (draw.Param.type)."""
    ints = lambda: rng.choice(INTS)  # noqa: E731
    return {
        "Tensor": lambda: tensor(rng),
        "Tensor[]": lambda: [tensor(rng) for _ in range(rng.randint(0, 4))],
        "int": ints,
        "int[]": lambda: rng.choice([tuple, list])(
            ints() for _ in range(rng.choice([0, 1, 2, 3, 13]))
        ),
        "float": lambda: rng.choice(FLOATS),
        "float[]": lambda: [rng.choice(FLOATS) for _ in range(rng.randint(0, 4))],
        "bool": lambda: rng.random() < 0.5,
        "Scalar": lambda: rng.choice([*INTS, *FLOATS, 1j, True]),
        "str": lambda: rng.choice(TEXTS),
        "dtype": lambda: rng.choice(DTYPES),
        "device": lambda: rng.choice(["cpu", "meta", "cpu:0"]),
    }[kind]()


def drawn(rng, row):
    """({parameter: value}, {parameter: type}) of arguments that the operation may well take."""
    form = draw.our_form(pf._C._parse_schema, row["schema"])
    d = draw.Draw(rng, row["name"], "function", form, DRAWN)
    d.plan = d.plan_shapes(sum(p.type == "Tensor" for p in form.params))
    present = [p for p in form.params if not p.has_default or rng.random() < 0.45]
    present = [p for p in present if p.type != "device"]
    texts = {}
    for p in sorted(present, key=lambda p: p.name in ("index", "indices")):
        texts[p.name] = d.argument(p)
    if len(d.case.names) > 12:
        raise TypeError("the thirteenth tensor would be called as the module is")
    space = {"m": pf, "nan": NAN, "inf": INF}
    for line in d.case.setup:
        exec(line, space)  # noqa: S102 (of our own making)
    return {n: eval(t, space) for n, t in texts.items()}, {p.name: p.type for p in form.params}


# ---- calls ----------------------------------------------------------------------------------------


def text_of(value):
    if isinstance(value, pf.Tensor):
        try:
            grad = " grad" if value.requires_grad else ""
            return f"<{value.dtype} {list(value.shape)} by {value.stride()} {value.device}{grad}>"
        except Exception:
            return f"<{type(value).__name__} without a tensor>"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(text_of, value)) + "]"
    try:
        return repr(value)[:60]
    except Exception:
        return f"<{type(value).__name__}>"


def look_at(result, rng):
    """Reads results and makes gradients of them."""
    some = result if isinstance(result, (list, tuple)) else [result]
    for t in some[:20]:
        if isinstance(t, pf.Tensor) and t.device.type == "cpu" and t.layout == "strided":
            if t.numel() < 10**6:
                repr(t)
                if t.requires_grad and rng.random() < 0.5:
                    (t.abs() if t.is_complex() else t).sum().backward()


class Caller:
    def __init__(self, log, allowed):
        self.log, self.allowed = log, allowed
        self.number = self.found = self.made = 0
        self.result = None  # of the last call that gave one

    def __call__(self, rng, name, function, args, named):
        """True when the call gave a result."""
        shown = [text_of(a) for a in args] + [f"{n}={text_of(v)}" for n, v in named.items()]
        text = f"{name}({', '.join(shown)})"
        self.log(self.number, text)
        self.made += 1
        try:
            self.result = function(*args, **named)
            look_at(self.result, rng)
            pf.synchronize()
            return True
        except (pf.PyFlameError, TypeError, OverflowError, UnicodeError) as error:
            if not isinstance(error, RecursionError):
                return False
            self.tell(text, error)
        except self.allowed as error:
            if isinstance(error, (SystemError, RecursionError)):
                self.tell(text, error)
        except BaseException as error:
            self.tell(text, error)
        return False

    def tell(self, text, error):
        self.found += 1
        print(f"call {self.number}: {text}: {error!r}", flush=True)


def copied(named):
    """Fresh tensors, since operations in place write to theirs."""
    with pf.no_grad():
        return {
            n: v.detach().clone().requires_grad_(v.requires_grad) if isinstance(v, pf.Tensor) else v
            for n, v in named.items()
        }


def smaller(t):
    """The same tensor with each size 0, one at a time, and one of no dimensions."""
    for d in range(t.dim()):
        shape = [*t.shape]
        shape[d] = 0
        yield pf.zeros(shape, dtype=t.dtype)
    if t.dim():
        yield pf.ones((), dtype=t.dtype)


def walk(rng, call, number):
    row = ROWS[number % len(ROWS)]
    function = pf.ops.get(row["name"])
    for _ in range(12):
        try:
            named, types = drawn(rng, row)
            # A view may not get a history; what no operation takes is drawn anew.
            taken = call(rng, row["name"], function, [], copied(named))
        except (pf.PyFlameError, TypeError):
            continue
        if taken:
            break
    else:
        return
    for name, value in list(named.items()):
        if types[name] == "Tensor" and isinstance(value, pf.Tensor):
            for other in smaller(value):
                call(rng, row["name"], function, [], copied(named) | {name: other})
        elif types[name] == "Tensor[]" and isinstance(value, (list, tuple)):
            for i, t in enumerate(value):
                for other in smaller(t):
                    some = [*value[:i], other, *value[i + 1 :]]
                    call(rng, row["name"], function, [], copied(named) | {name: some})
        elif types[name] == "int":
            for other in (0, -1):
                call(rng, row["name"], function, [], copied(named) | {name: other})
    # All at once: a dimension that all have.
    tensors = [n for n, v in named.items() if isinstance(v, pf.Tensor) and v.dim()]
    for d in (0, -1):
        none = {n: pf.zeros_like(named[n].detach()).narrow(d, 0, 0) for n in tensors}
        call(rng, row["name"], function, [], copied(named) | none)


def wild(rng, call, number):
    row = rng.choice(ROWS)
    function = pf.ops.get(row["name"])
    try:
        named, types = drawn(rng, row)
    except (pf.PyFlameError, TypeError):
        return
    for name in rng.sample(list(named), min(len(named), rng.choice([1, 1, 1, 2, 4]))):
        spoil = rng.random()
        tensors = [v for v in named.values() if isinstance(v, pf.Tensor)]
        if spoil < 0.1:
            named[name] = anything(rng)
        elif spoil < 0.2 and tensors and types[name] == "Tensor":
            named[name] = rng.choice(tensors)  # the same one twice
        else:
            named[name] = of_type(rng, types[name])
    call(rng, row["name"], function, [], named)


def _names():
    found = {}
    places = [("pf", pf, pf.__all__)]
    for path in (
        "nn.functional",
        "linalg",
        "fft",
        "special",
        "ops",
        "func",
        "nn.init",
        "nn.utils",
        "nn.utils.rnn",
        "signal.windows",
        "sparse",
        "nested",
        "masked",
        "autograd.functional",
        "amp",
        "finance",
        "flash_attn",
        "float8",
    ):
        module = importlib.import_module(f"pyflame.{path}")
        places.append((f"pf.{path}", module, dir(module)))
    places.append(("Tensor", pf.Tensor, dir(pf.Tensor)))
    places.append(("_C", pf._C, dir(pf._C)))
    for prefix, holder, names in places:
        for n in names:
            if n in LEFT_OUT or (n.startswith("_") and prefix not in ("Tensor", "_C")):
                continue
            if prefix == "_C" and not (n.startswith("_") and _harmless(n)):
                continue
            if n in _OF_OBJECTS:
                continue
            f = getattr(holder, n, None)
            if callable(f) and not inspect.ismodule(f):
                found.setdefault(f"{prefix}.{n}", f)
    return sorted(found.items())


# What every object of Python's has; they end the process or take it apart when called so.
_OF_OBJECTS = {"__class__", "__init_subclass__", "__subclasshook__", "__del__", "__getattribute__"}
_OF_OBJECTS |= {"__setattr__", "__delattr__", "__dir__", "__sizeof__", "__init__"}
# Of the extension module: functions that take tensors. Others set up the package, or hold the process.
_OURS = (
    "tensor",
    "grad",
    "view",
    "save",
    "give",
    "dlpack",
    "export",
    "hidden",
    "leaf",
    "version",
    "storage",
)


def _harmless(name):
    return any(word in name for word in _OURS) and not name.startswith("__")


NAMES = _names()


def names(rng, call, number):
    name, function = rng.choice(NAMES)
    args = [anything(rng) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4, 6]))]
    if rng.random() < 0.7 or name.startswith("Tensor."):
        first = tensor(rng) if rng.random() < 0.9 else _no_tensor(rng)
        args = [first, *args[1:]]
    named = {}
    with contextlib.suppress(TypeError, ValueError):
        known = list(inspect.signature(function).parameters)[len(args) :]
        named = {
            n: anything(rng) for n in known if rng.random() < 0.3 and n not in ("args", "kwargs")
        }
    call(rng, name, function, args, named)


# Of the extension module: what sets up the process, or holds it.
_SETS = (
    "_enter",
    "_exit",
    "_import",
    "_await",
    "_forget",
    "_push",
    "_pop",
    "set_",
    "_set",
    "_begin",
    "_end",
)


def _holders():
    found = [("Tensor", n) for n in sorted(dir(pf.Tensor)) if n not in LEFT_OUT | _OF_OBJECTS]
    for n in sorted(dir(pf._C)):
        f = getattr(pf._C, n)
        if callable(f) and not n.startswith(_SETS) and not isinstance(f, type):
            found.append(("_C", n))
    return [f for f in found if f[1] not in LEFT_OUT]


HOLDERS = _holders()


def empty(rng, call, number):
    """A member of Tensor or a function of the extension module with objects that hold nothing."""
    holder, name = HOLDERS[number % len(HOLDERS)]
    masked = pf.masked.masked_tensor(pf.ones(3), pf.tensor([True, False, True]))
    makers = [
        empty_object,
        lambda: empty_object(pf.nn.Parameter),
        lambda: masked,
        pf.ones(2, 2).to_sparse,
    ]
    if holder == "Tensor":
        member = inspect.getattr_static(pf.Tensor, name)
        if not callable(member) and hasattr(member, "__get__"):
            for make in makers:
                call(rng, f"get {name}", member.__get__, [make(), pf.Tensor], {})
                if hasattr(member, "__set__"):
                    call(rng, f"set {name}", member.__set__, [make(), pf.ones(3)], {})
                    call(rng, f"set {name}", member.__set__, [pf.ones(3), make()], {})
            return
        function = getattr(pf.Tensor, name)
    else:
        function = getattr(pf._C, name)
    if not callable(function):
        return
    for make in makers:
        some = [
            [make()], [make(), make()], [make(), 1], [1, make()], [pf.ones(3), make()],
            [make(), pf.ones(3)], [[make()]], [[make()], [make()]], [make(), "x"], ["x", make()],
            [{"x": make()}], [make(), None, None], [make(), make(), make()], [make(), 0, 1],
            [lambda *a: None, make()], [make(), [1], make()],
        ]  # fmt: skip
        for args in some:
            call(rng, f"{holder}.{name}", function, args, {})


def bounded():
    """Takes most memory away, so that what asks for much of it gets an error and not the machine's."""
    with open("/proc/self/statm") as f:
        used = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.RLIM_INFINITY))


def main(path, kind, seed, first, end):
    os.environ.setdefault("PYFLAME_GUARD_PAGES", "1")
    warnings.simplefilter("ignore")
    device = os.environ.get("PYFLAME_TEST_DEVICE", "cpu")
    pf.set_device(device)
    pf.ones(3).sum().item()
    bounded()
    sys.modules.setdefault("hostile", sys.modules[__name__])  # hostile_programs imports this file
    import hostile_hooks
    import hostile_programs

    programs = {"chain": hostile_programs.chain, "objects": hostile_programs.objects}
    programs["hooks"] = hostile_hooks.hooks
    make = {"walk": walk, "wild": wild, "names": names, "empty": empty, **programs}[kind]
    with open(path, "w", errors="backslashreplace") as f:

        def log(number, text):
            f.seek(0)
            f.write(f"{number} {text}"[:600].ljust(600))
            f.flush()

        call = Caller(log, () if kind in ("walk", "wild") else Exception)
        for n in range(int(first), int(end)):
            rng = random.Random(f"{seed}-{kind}-{n}")
            pf.manual_seed(n)
            call.number = n
            log(n, "is drawn")
            make(rng, call, n)
            if n % 64 == 0:
                gc.collect()
        f.seek(0)
        f.truncate()
    print(f"{call.made} calls, {call.found} with findings", flush=True)
    sys.exit(1 if call.found else 0)


def on_stack(size, *args):
    """main() in a thread whose stack has so many bytes."""
    ended = []

    def run():
        try:
            main(*args)
        except SystemExit as e:
            ended.append(e.code)

    threading.stack_size(size)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    sys.exit(ended[0] if ended else 2)


if __name__ == "__main__":
    if stack := int(os.environ.get("PYFLAME_TEST_STACK", "0")):
        on_stack(stack, *sys.argv[1:])
    main(*sys.argv[1:])
