"""Reads the pickles of torch.save without unpickling: an interpreter of the opcodes that tensors,
numbers, text and containers need. Names in a pickle are looked up in a table of ours; nothing is
imported and nobody's code runs.
"""

import argparse
import collections
import struct
import types

from .. import _C

_MOST_VALUES = 8_000_000  # containers and marks, as in pf.save
_MOST_LEVELS = 100
_MOST_MARKS = 10 * _MOST_LEVELS  # open at once
_KEYS = (str, int, float, bool, type(None), bytes)


class Pickle:
    """The reading of one pickle.

    `find(module, name)` gives what stands for a global: a value, or a :class:`Known`. `persistent`
    gives the value of a persistent id. `fail(text)` raises.
    """

    def __init__(self, data, find, persistent, fail, at=0):
        self.data, self.at = data, at
        self.find, self.persistent, self.fail = find, persistent, fail
        self.stack, self.marks, self.memo = [], [], {}
        self.count = 0
        self.heights = {}  # by id, of containers while they are made: levels below, as far as is known

    def load(self):
        """The value; `at` is behind it."""
        try:
            while True:
                code = self.data[self.at]
                self.at += 1
                if code == 0x2E:  # STOP
                    break
                step = _STEPS.get(code)
                if step is None:
                    self.fail(f"the opcode {bytes([code])!r}, which no tensors or numbers need")
                step(self)
            value = self.pop()
        except (IndexError, KeyError, struct.error, UnicodeDecodeError):
            self.fail("an instruction without what it is about")
        except RecursionError:
            self.fail("values nested too deep")
        check(value, self.fail)
        return value

    # ---- what the steps are made of -------------------------------------------------------------

    def take(self, size):
        end = self.at + size
        if end > len(self.data):
            raise IndexError
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def number(self, form):
        return form.unpack(self.take(form.size))[0]

    def line(self):
        end = self.data.find(b"\n", self.at)
        if end < 0 or end - self.at > 4096:
            raise IndexError
        text = self.data[self.at : end]
        self.at = end + 1
        return bytes(text).decode()

    def pop(self):
        if self.marks and len(self.stack) <= self.marks[-1]:
            raise IndexError
        return self.stack.pop()

    def to_mark(self):
        at = self.marks.pop()
        items = self.stack[at:]
        del self.stack[at:]
        return items

    def top(self):
        if self.marks and len(self.stack) <= self.marks[-1]:
            raise IndexError
        return self.stack[-1]

    def counted(self, value, items=()):
        """Puts a container of these items on the stack."""
        self.tally()
        self.heights[id(value)] = 1
        self.raised(value, items)
        self.stack.append(value)

    def raised(self, into, items):
        """Items go into a container. What is nested too deep is refused while it is made: a file of
        a few megabytes can hold millions of levels."""
        get = self.heights.get
        height = 1 + max((get(id(v), 1) for v in items if isinstance(v, _CONTAINERS)), default=0)
        if height > _MOST_LEVELS:
            self.fail(f"values nested deeper than {_MOST_LEVELS} levels")
        if height > get(id(into), 1):
            self.heights[id(into)] = height

    def tally(self):
        self.count += 1
        if self.count > _MOST_VALUES:
            self.fail(f"more than {_MOST_VALUES} lists, dicts and marks")

    def keep(self, index):
        self.tally()
        self.memo[index] = value = self.top()
        if isinstance(value, Pending):
            value.kept.append(index)

    def set_items(self, items):
        into = self.top()
        if not isinstance(into, dict) or len(items) % 2:
            self.fail(f"items for a {type(into).__name__}")
        for key, value in zip(items[::2], items[1::2]):
            if not is_key(key):
                self.fail(f"a {type(key).__name__} as the key of a dict")
            into[key] = value
        self.raised(into, items[1::2])

    def extend(self, items):
        into = self.top()
        if type(into) not in (list, collections.deque):
            self.fail(f"items for a {type(into).__name__}")
        into.extend(items)
        self.raised(into, items)

    def call(self, known, args):
        if not isinstance(known, Known) or known.call is None or type(args) is not tuple:
            self.fail(f"a call of {named(known)}, which is no part of tensors or numbers")
        self.counted(made(known, known.call, args, self.fail))

    def build(self, state):
        into = self.top()
        if isinstance(into, Pending):
            value = made(into.known, into.known.build, (*into.args, state), self.fail)
            self.stack[-1] = value
            self.memo.update((index, value) for index in into.kept)
        elif not fill(into, state):
            self.fail(f"a state for a {type(into).__name__}")


class Known:
    """A global of a pickle that stands in our table: `call` is what it does when it is called,
    `build` makes a value of such arguments and the state that follows them."""

    __slots__ = ("build", "call", "name", "value")

    def __init__(self, name, call=None, build=None, value=None):
        self.name, self.call, self.build, self.value = name, call, build, value


class Pending:
    """A value whose state has not come yet."""

    __slots__ = ("args", "kept", "known")

    def __init__(self, known, args):
        self.known, self.args, self.kept = known, args, []


def named(value):
    return value.name if isinstance(value, Known) else f"a {type(value).__name__}"


def made(known, call, args, fail):
    try:
        return call(*args)
    except (MemoryError, ImportError, _C.FileError, _C.OutOfMemoryError):
        raise
    except Exception as e:
        fail(f"arguments of {known.name} that make none ({type(e).__name__}: {e})")


def fill(into, state):
    """Gives a value the state that its type may have. False for other types."""
    if type(into) is collections.OrderedDict and type(state) is dict:
        if "_metadata" in state:  # of state dicts
            into._metadata = state["_metadata"]
        return True
    if type(into) in (argparse.Namespace, types.SimpleNamespace) and type(state) is dict:
        if not all(type(name) is str for name in state):
            return False
        vars(into).update(state)
        return True
    return False


def is_key(key, levels=3):
    if type(key) is tuple:
        return levels > 0 and all(is_key(k, levels - 1) for k in key)
    # Python's hash of a whole number is its remainder by 2**61 - 1: large ones can be made to
    # collide.
    if type(key) is int:
        return abs(key) < 1 << 64
    return type(key) in _KEYS or isinstance(key, (_C.dtype, _C.device))


def check(value, fail):
    """Looks through a value: nothing may be left that only stands for something, nothing may
    contain itself or be nested too deep."""
    levels = {}  # id of a container: how many levels of containers it is, 0 while it is open
    todo, open_ = [(value, False)], 0
    while todo:
        v, closing = todo.pop()
        if isinstance(v, (Known, Pending)):
            fail(f"{v.name if isinstance(v, Known) else v.known.name} in place of a value")
        inner = _inside(v)
        if not inner:
            continue
        if closing:
            open_ -= 1
            levels[id(v)] = 1 + max(levels.get(id(i), 0) for i in inner)
            if levels[id(v)] > _MOST_LEVELS:
                fail(f"values nested deeper than {_MOST_LEVELS} levels")
        elif id(v) not in levels:
            levels[id(v)] = 0
            open_ += 1
            if open_ > _MOST_LEVELS:
                fail(f"values nested deeper than {_MOST_LEVELS} levels")
            todo.append((v, True))
            todo.extend((i, False) for i in inner if not isinstance(i, _PLAIN))
        elif levels[id(v)] == 0:
            fail("a value that contains itself")


_CONTAINERS = (list, tuple, dict, collections.deque, set, frozenset)
_PLAIN = (int, float, str, bytes, type(None))


def _inside(v):
    """The values that a value holds."""
    if isinstance(v, dict):
        inner = list(v.values())
    elif isinstance(v, (list, tuple, set, frozenset, collections.deque)):
        inner = list(v)
    else:
        inner = []
    attributes = getattr(v, "__dict__", None)
    if attributes and not isinstance(v, type):
        inner += attributes.values()
    return inner


def _binary(text):
    return bytes(text).decode("utf-8", "surrogatepass")


_U1, _U2, _I4, _U4 = (struct.Struct(f"<{c}") for c in "BHiI")
_U8, _F8 = struct.Struct("<Q"), struct.Struct(">d")


def _long(p, size):
    p.stack.append(int.from_bytes(p.take(size), "little", signed=True))


def _global(p):
    module, name = p.line(), p.line()
    p.stack.append(p.find(module, name))


def _stack_global(p):
    name, module = p.pop(), p.pop()
    if type(name) is not str or type(module) is not str:
        p.fail("a global without a name")
    p.stack.append(p.find(module, name))


def _reduce(p):
    args, known = p.pop(), p.pop()
    p.call(known, args)


def _newobj(p):
    args, known = p.pop(), p.pop()
    if isinstance(known, Known) and known.build is not None and type(args) is tuple:
        p.counted(Pending(known, args))
    else:
        p.call(known, args)


def _mark(p):
    p.tally()
    if len(p.marks) >= _MOST_MARKS:
        p.fail(f"values nested deeper than {_MOST_LEVELS} levels")
    p.marks.append(len(p.stack))


def _frame(p):
    if p.number(_U8) > len(p.data) - p.at:
        raise IndexError


def _tuple(n):
    def step(p):
        items = [p.pop() for _ in range(n)]
        p.counted(tuple(reversed(items)), items)

    return step


def _add_items(p):
    items = p.to_mark()
    into = p.top()
    if type(into) is not set or not all(map(is_key, items)):
        p.fail("items for something that is no set of plain values")
    into.update(items)


def _frozen(p):
    items = p.to_mark()
    if not all(map(is_key, items)):
        p.fail("a frozenset of what is no plain value")
    p.counted(frozenset(items))


def _pop(p):
    # A mark may be popped, too.
    if p.marks and p.marks[-1] == len(p.stack):
        p.marks.pop()
    else:
        p.pop()


def _proto(p):
    if p.number(_U1) > 5:
        p.fail("a protocol past 5")


def _set_item(p):
    value, key = p.pop(), p.pop()
    p.set_items([key, value])


def _append(p):
    value = p.pop()
    p.extend([value])


def _push(value):
    return lambda p: p.stack.append(value)


def _bytes(form):
    return lambda p: p.stack.append(bytes(p.take(p.number(form))))


def _text(form):
    return lambda p: p.stack.append(_binary(p.take(p.number(form))))


def _latin(form):
    return lambda p: p.stack.append(bytes(p.take(p.number(form))).decode("latin-1"))


_STEPS = {
    b"\x80": _proto,
    b"\x95": _frame,
    b"N": _push(None),
    b"\x88": _push(True),
    b"\x89": _push(False),
    b"J": lambda p: p.stack.append(p.number(_I4)),
    b"K": lambda p: p.stack.append(p.number(_U1)),
    b"M": lambda p: p.stack.append(p.number(_U2)),
    b"\x8a": lambda p: _long(p, p.number(_U1)),
    b"\x8b": lambda p: _long(p, p.number(_U4)),
    b"G": lambda p: p.stack.append(p.number(_F8)),
    b"X": _text(_U4),
    b"\x8c": _text(_U1),
    b"\x8d": _text(_U8),
    b"U": _latin(_U1),  # text of Python 2
    b"T": _latin(_U4),
    b"C": _bytes(_U1),
    b"B": _bytes(_U4),
    b"\x8e": _bytes(_U8),
    b"\x96": lambda p: p.counted(bytearray(p.take(p.number(_U8)))),
    b"}": lambda p: p.counted({}),
    b"]": lambda p: p.counted([]),
    b"\x8f": lambda p: p.counted(set()),
    b")": _push(()),
    b"(": _mark,
    b"t": lambda p: p.counted(tuple(items := p.to_mark()), items),
    b"l": lambda p: p.counted(items := p.to_mark(), items),
    b"d": lambda p: (items := p.to_mark(), p.counted({}), p.set_items(items)),
    b"\x85": _tuple(1),
    b"\x86": _tuple(2),
    b"\x87": _tuple(3),
    b"a": _append,
    b"e": lambda p: (items := p.to_mark(), p.extend(items)),
    b"s": _set_item,
    b"u": lambda p: (items := p.to_mark(), p.set_items(items)),
    b"\x90": _add_items,
    b"\x91": _frozen,
    b"q": lambda p: p.keep(p.number(_U1)),
    b"r": lambda p: p.keep(p.number(_U4)),
    b"\x94": lambda p: p.keep(len(p.memo)),
    b"h": lambda p: p.stack.append(p.memo[p.number(_U1)]),
    b"j": lambda p: p.stack.append(p.memo[p.number(_U4)]),
    b"0": _pop,
    b"1": lambda p: p.to_mark(),
    b"2": lambda p: p.stack.append(p.top()),
    b"c": _global,
    b"\x93": _stack_global,
    b"R": _reduce,
    b"\x81": _newobj,
    b"b": lambda p: (state := p.pop(), p.build(state)),
    b"Q": lambda p: p.counted(p.persistent(p.pop())),
}
_STEPS = {code[0]: step for code, step in _STEPS.items()}
