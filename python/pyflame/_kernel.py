"""`pyflame.kernel`: kernels in CUDA's or HIP's dialect, on the GPU that is there.

This file reads what a kernel declares, checks arguments against it and prepares the text; the
plug-in puts kernels/user.h before it (the names that one vendor has and the other lacks), compiles
it and keeps the result in the cache on disk.
"""

import math
import operator
import re
import struct

from . import _C

__all__ = ["Kernel", "kernel"]

# Headers whose content is there without them.
_KNOWN_HEADERS = {
    *("cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h"),
    *("cuda_fp16.h", "cuda_fp16.hpp", "cuda_bf16.h", "cuda_bf16.hpp", "device_functions.h"),
    *("vector_types.h", "hip/hip_runtime.h", "hip/hip_runtime_api.h", "hip/hip_fp16.h"),
    *("hip/hip_bf16.h", "hip/hip_bfloat16.h", "hip/hip_vector_types.h"),
    *("math.h", "cmath", "stdint.h", "cstdint", "stddef.h", "cstddef", "float.h", "cfloat"),
    *("limits.h", "climits", "stdio.h", "cstdio"),
}
_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"]([^>\"]+)[>\"][^\n]*", re.M)
_HALF = re.compile(
    r"\b(?:__half2?|half2?|_Float16|(?:__|)nv_bfloat16\w*|__hip_bfloat16\w*|hip_bfloat16)\b"
)
# Text that names the lanes it means was written for warps of 32.
_LANES_OF_32 = re.compile(
    r"\b__(?:shfl\w*_sync|ballot_sync|any_sync|all_sync|reduce_\w+_sync|match_\w+_sync|syncwarp"
    r"|activemask)\b"
)
_ATTRIBUTES = {"__launch_bounds__", "__attribute__", "__cluster_dims__", "__maxnreg__", "alignas"}
_QUALIFIERS = {
    *("const", "volatile", "__restrict__", "__restrict", "restrict", "struct", "register"),
    *("__grid_constant__", "constexpr"),
}
_WORDS = {"signed", "unsigned", "short", "long", "int", "char", "float", "double", "bool", "void"}
# As declared: dtypes that a tensor may have, and how struct packs a number.
_TYPES = {
    "bool": (("bool",), "?"),
    "char": (("int8", "uint8", "bool"), "b"),
    "signed char": (("int8",), "b"),
    "unsigned char": (("uint8", "bool"), "B"),
    "short": (("int16",), "h"),
    "unsigned short": (("uint16", "int16"), "H"),
    "int": (("int32",), "i"),
    "unsigned int": (("uint32", "int32"), "I"),
    "long": (("int64",), "q"),
    "unsigned long": (("uint64", "int64"), "Q"),
    "float": (("float32",), "f"),
    "double": (("float64",), "d"),
    "half": (("float16",), "e"),
    "bfloat16": (("bfloat16",), "bfloat16"),
    "void": ((), None),
}
_NAMES = {
    **{"int8_t": "signed char", "uint8_t": "unsigned char", "uchar": "unsigned char"},
    **{"int16_t": "short", "uint16_t": "unsigned short", "ushort": "unsigned short"},
    **{"int32_t": "int", "uint32_t": "unsigned int", "uint": "unsigned int"},
    **{"int64_t": "long", "uint64_t": "unsigned long", "size_t": "unsigned long"},
    **{"ptrdiff_t": "long", "ssize_t": "long", "intptr_t": "long", "uintptr_t": "unsigned long"},
    **{"__half": "half", "_Float16": "half", "__half2": "half", "half2": "half"},
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "__hip_bfloat16", "hip_bfloat16"), "bfloat16"),
    **dict.fromkeys(("__nv_bfloat162", "nv_bfloat162", "__hip_bfloat162"), "bfloat16"),
}
_VECTOR = re.compile(r"(float|double|int|uint|short|ushort|char|uchar|long|ulong)([1234])")
_VECTOR_BASE = {"uint": "unsigned int", "ushort": "unsigned short", "uchar": "unsigned char"}
_VECTOR_BASE |= {"ulong": "unsigned long", "char": "signed char"}


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


def _without_comments(source):
    """The text with comments and long literals blanked: every position stays where it is."""
    pattern = r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    return re.sub(
        pattern, lambda m: m[0] if m[0] == '"C"' else _blank(m[0]), source, flags=re.DOTALL
    )


def _matching(text, start):
    """The position behind the bracket that closes the one at `start`; -1 when none does."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return i + 1
    return -1


def _split(text):
    """At the commas that stand in no bracket."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append(text[last:i])
            last = i + 1
    return [*parts, text[last:]]


class _Declaration:
    """One `__global__` function: its name, where it begins, its parameters' text."""

    def __init__(self, text, at):
        self.name = self.parameters = None
        i = at + len("__global__")
        while m := re.compile(r"[^\w({;]*(\w+)\s*").match(text, i):
            i = m.end()
            if i >= len(text) or text[i] != "(":
                continue
            end = _matching(text, i)
            if end < 0:
                return
            if m[1] not in _ATTRIBUTES:
                self.name, self.parameters = m[1], text[i + 1 : end - 1]
                break
            i = end
        begin = max(text.rfind(c, 0, at) for c in ";{}") + 1
        head = text[begin:at]
        for m in re.finditer(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*\n?", head, re.M):
            begin = at - len(head) + m.end()
        head = text[begin:at]
        self.start = begin + len(head) - len(head.lstrip())
        self.is_template = re.search(r"\btemplate\b", head) is not None
        self.has_linkage = re.search(r'\bextern\s+"C"', head) is not None


class Parameter:
    """What a kernel declares for one argument.

    `name`; `pointer`; `written` (a pointer to what is not const); `dtypes`, names of the dtypes
    that fit, None where the type could not be read; `format`, how a number is packed.
    """

    def __init__(self, text, aliases):
        tokens = re.findall(r"\w+|[*&\[<]", text.replace("std::", "").split("=")[0])
        self.text = " ".join(text.split())
        depth = tokens.count("*") + tokens.count("[")
        self.pointer = depth > 0
        plain = [t for t in tokens if t not in _QUALIFIERS]
        words, name = plain, ""
        if self.pointer:
            cut = plain.index("*") if "*" in plain else plain.index("[") - 1
            words = plain[:cut]
            name = next((t for t in reversed(plain[cut:]) if re.match(r"[A-Za-z_]", t)), "")
            first = tokens.index("*") if "*" in tokens else tokens.index("[")
            self.written = "const" not in tokens[:first]
        else:
            self.written = False
            if len(plain) > 1 and plain[-1] not in _WORDS:
                words, name = plain[:-1], plain[-1]
        self.name = name
        kind, self.width = _resolve(words, aliases)
        if "<" in tokens or "&" in tokens or kind not in _TYPES:
            self.dtypes = self.format = None
        elif depth > 1:
            self.dtypes, self.format = ("int64", "uint64"), None
        else:
            dtypes, self.format = _TYPES[kind]
            self.dtypes = dtypes or None
        if not self.pointer and self.width > 1:
            self.format = None

    def __repr__(self):
        return self.text


def _resolve(words, aliases):
    """(key of _TYPES or what was found, elements of a vector type)."""
    for _ in range(8):
        if len(words) == 1 and words[0] in aliases:
            words = aliases[words[0]].split()
    words = [w for w in words if w not in _QUALIFIERS]
    if len(words) == 1:
        word = words[0]
        if m := _VECTOR.fullmatch(word):
            return _VECTOR_BASE.get(m[1], m[1]), int(m[2])
        return _NAMES.get(word, word), 2 if word.endswith(("half2", "bfloat162")) else 1
    if not set(words) <= _WORDS:
        return " ".join(words), 1
    base = next((w for w in ("char", "short", "long", "double", "float") if w in words), "int")
    if base == "char":
        return next((f"{w} char" for w in ("signed", "unsigned") if w in words), "char"), 1
    return ("unsigned " if "unsigned" in words else "") + base, 1


def _aliases(text, options):
    found = {}
    for m in re.finditer(r"\btypedef\s+([\w\s:]+?)\s+(\w+)\s*;", text):
        found[m[2]] = m[1].replace("std::", "")
    for m in re.finditer(r"\busing\s+(\w+)\s*=\s*([\w\s:]+?)\s*;", text):
        found[m[1]] = m[2].replace("std::", "")
    for m in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+([\w \t]+?)[ \t]*$", text, re.M):
        found[m[1]] = m[2]
    for option in options:
        if m := re.fullmatch(r"-D(\w+)=([\w ]+)", option):
            found[m[1]] = m[2]
    return found


_BITS = struct.Struct("=I")


def _pack(value, parameter):
    if parameter.format == "bfloat16":
        bits = _BITS.unpack(struct.pack("=f", value))[0]
        if math.isnan(value):
            return struct.pack("=H", (bits >> 16 | 0x40) & 0xFFFF)
        return struct.pack("=H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
    return struct.pack("=" + parameter.format, value)


def _three(value, what, name):
    try:
        sizes = (
            tuple(map(operator.index, value))
            if isinstance(value, (tuple, list))
            else (operator.index(value),)
        )
    except TypeError:
        sizes = ()
    if not 1 <= len(sizes) <= 3 or min(sizes) < 0:
        raise TypeError(
            f"pf.kernel {name}: got {what}={value!r}; expected one to three integers that are not "
            "negative, such as 128 or (16, 16)"
        )
    return sizes + (1,) * (3 - len(sizes))


_limits = {}


def _limits_of(device):
    key = str(device)
    if key not in _limits:
        info = _C.device_info(device)
        _limits[key] = tuple(
            int(info.get(k, 0))
            for k in ("warp_size", "max_threads_per_block", "shared_memory_per_block")
        )
    return _limits[key]


class Kernel:
    """A kernel of yours, made by `pyflame.kernel`. `k(grid, block, args, shared_mem=0)` runs it."""

    def __init__(self, source, name=None, *, options=(), outputs=None, warp=None, strided=False):
        if not isinstance(source, str):
            raise TypeError(
                f"pf.kernel: got a {type(source).__name__} as source; expected a string"
            )
        options = tuple(options.split() if isinstance(options, str) else options)
        for option in options:
            if not isinstance(option, str) or len(option.split()) != 1:
                raise TypeError(
                    f"pf.kernel: got the option {option!r}; expected strings without blanks, such "
                    "as '-DN=4'"
                )
        text = _without_comments(source)
        declarations = [_Declaration(text, m.start()) for m in re.finditer(r"\b__global__\b", text)]
        names = list(dict.fromkeys(d.name for d in declarations if d.name))
        if name is None and len(names) == 1:
            name = names[0]
        if name not in names:
            said = "no name" if name is None else f"the name {name!r}"
            there = ", ".join(names) or "none"
            raise _C.ValueError(
                f"pf.kernel: got {said}, and the source's __global__ functions are: {there}; "
                "expected one of those; name it"
            )
        mine = [d for d in declarations if d.name == name]
        if mine[0].is_template:
            raise _C.NotSupportedError(
                f"pf.kernel {name}: got a template; expected a plain function, since a template has "
                "no single entry; write one that calls it, or use '-DT=float' in options"
            )
        self.name, self.source, self.options = name, source, options
        aliases = _aliases(text, options)
        listed = mine[0].parameters.strip()
        parts = [] if listed in ("", "void") else _split(listed)
        self.parameters = tuple(Parameter(p, aliases) for p in parts)
        if warp not in (None, 32, 64):
            raise _C.ValueError(f"pf.kernel {name}: got warp={warp!r}; expected 32, 64 or None")
        self.warp = warp or (32 if _LANES_OF_32.search(text) else None)
        self.strided = bool(strided)
        self.outputs = self._check_outputs(outputs or {})

        prepared = source
        if not mine[0].has_linkage:
            prepared = source[: mine[0].start] + 'extern "C" ' + source[mine[0].start :]
        prepared = _INCLUDE.sub(lambda m: "" if m[1] in _KNOWN_HEADERS else m[0], prepared)
        words = list(options)
        if _HALF.search(text):
            words.append("-DPF_USER_HALF")
        if self.warp:
            words.append(f"-DPF_USER_WARP={self.warp}")
        self._prepared = prepared, words
        self._made = _C._UserKernel(prepared, name, " ".join(words))

    def __repr__(self):
        return f"<pyflame.Kernel {self.name}({', '.join(map(repr, self.parameters))})>"

    def _fail(self, kind, message):
        raise kind(f"pf.kernel {self.name}: {message}")

    def _check_outputs(self, outputs):
        index = {p.name: i for i, p in enumerate(self.parameters)}
        checked = {}
        for key, shape in outputs.items():
            i = index.get(key)
            if i is None or not self.parameters[i].written:
                self._fail(
                    _C.ValueError,
                    f"got the output {key!r}; expected the name of a pointer parameter that is not "
                    f"const, and the kernel is {self!r}",
                )
            if isinstance(shape, str):
                if (
                    shape not in index
                    or shape in outputs
                    or not self.parameters[index[shape]].pointer
                ):
                    self._fail(
                        _C.ValueError,
                        f"the output {key!r} is to have the shape of {shape!r}; expected the name "
                        "of another tensor parameter",
                    )
                shape = index[shape]
            elif self.parameters[i].dtypes is None:
                self._fail(
                    _C.DTypeError,
                    f"the dtype of the output {key!r} cannot be read from {self.parameters[i]!r}; "
                    "pass a tensor for it instead",
                )
            elif not callable(shape):
                shape = (shape,) if isinstance(shape, int) else tuple(shape)
            checked[i] = shape
        return checked

    def _tensor(self, i, value):
        p = self.parameters[i]
        if not isinstance(value, _C.Tensor):
            self._fail(
                TypeError,
                f"got a {type(value).__name__} for the parameter '{p!r}'; expected a Tensor",
            )
        if p.dtypes and value.dtype.name not in p.dtypes:
            self._fail(
                _C.DTypeError,
                f"got a tensor of {value.dtype} for the parameter '{p!r}'; expected "
                f"{' or '.join(p.dtypes)}; convert it with .to()",
            )
        if not self.strided and not value.is_contiguous():
            self._fail(
                _C.ValueError,
                f"got a tensor of shape {tuple(value.shape)} with strides {tuple(value.stride())} "
                f"for the parameter '{p!r}'; expected contiguous memory; pass .contiguous(), or "
                "make the kernel with strided=True if it takes strides into account",
            )
        return value

    def _number(self, i, value):
        p = self.parameters[i]
        if isinstance(value, _C.Tensor):
            self._fail(
                TypeError,
                f"got a Tensor for the parameter '{p!r}'; expected a number; pass .item(), which "
                "waits for the GPU, or declare a pointer",
            )
        if p.format is None:
            self._fail(
                TypeError,
                f"the type of the parameter '{p!r}' is none that can be passed by value; expected "
                "a number or a pointer; put the value into a tensor",
            )
        try:
            if isinstance(value, (str, bytes)):
                raise TypeError
            whole = p.format in "?bBhHiIqQ"
            return _pack(operator.index(value) if whole else float(value), p)
        except (TypeError, OverflowError, struct.error):
            self._fail(
                TypeError if not isinstance(value, (int, float)) else _C.ValueError,
                f"got {value!r} for the parameter '{p!r}'; expected a number of that type",
            )

    def _make_outputs(self, args, device):
        """The arguments in the kernel's order, with fresh tensors where the outputs are."""
        given = iter(args)
        full = [None if i in self.outputs else next(given) for i in range(len(self.parameters))]
        empty = _C._functions["empty"]
        for i, shape in self.outputs.items():
            dtypes = self.parameters[i].dtypes
            if isinstance(shape, int):
                like = self._tensor(shape, full[shape])
                name = like.dtype.name if not dtypes or like.dtype.name in dtypes else dtypes[0]
                shape = tuple(like.shape)
            else:
                name = dtypes[0]
                shape = shape(*args) if callable(shape) else shape
            full[i] = empty(shape, dtype=getattr(_C, name), device=device)
        return full

    def compile(self, device=None):
        """Compiles for a device now (the current one by default), not at the first launch."""
        self._made.compile(_C.get_device() if device is None else device)
        return self

    def __call__(self, grid, block, args=(), shared_mem=0):
        """Launches the kernel behind everything recorded so far on its arguments.

        grid, block: the numbers of blocks and of threads in a block, integers or tuples of up to
        three; a grid with a zero launches nothing. args: tensors for pointers, numbers for the
        rest, in the order of the parameters, without those in `outputs`. shared_mem: bytes of
        dynamic shared memory. Returns the outputs (a tuple when there are several), or None.
        """
        grid, block = _three(grid, "grid", self.name), _three(block, "block", self.name)
        expected = len(self.parameters) - len(self.outputs)
        if len(args) != expected:
            self._fail(
                TypeError,
                f"got {len(args)} arguments; expected {expected}, as the kernel declares: {self!r}",
            )
        inputs = (p for i, p in enumerate(self.parameters) if i not in self.outputs)
        tensors, written, read = [], [], []
        for p, a in zip(inputs, args):
            if isinstance(a, _C.Tensor):
                tensors.append(a)
                (written if p.written else read).append(a)
        device = self._made.target(written, read)
        if _C.is_grad_enabled() and any(t.requires_grad for t in tensors):
            self._fail(
                _C.AutogradError,
                "got a tensor that requires grad, and a kernel of yours has no gradient by itself; "
                "launch it in forward() of a pf.autograd.Function, whose backward() gives the "
                "gradient, or within pf.no_grad()",
            )
        if device.type == "cpu":
            self._fail(
                _C.NotSupportedError,
                "got tensors on cpu; expected a GPU, since kernels are compiled for one; move them "
                "with .to('gpu'), or call pf.set_device('gpu') first; pf.backend_status() says which GPUs "
                "can be used",
            )
        warp, most_threads, most_shared = _limits_of(device)
        threads = block[0] * block[1] * block[2]
        if threads == 0 or (most_threads and threads > most_threads):
            self._fail(
                _C.ValueError,
                f"got a block of {threads} threads; expected 1 to {most_threads} on {device}",
            )
        if grid[1] > 65535 or grid[2] > 65535 or grid[0] > 2147483647:
            self._fail(
                _C.ValueError,
                f"got grid={grid}; expected at most (2147483647, 65535, 65535) blocks",
            )
        if not 0 <= shared_mem <= most_shared:
            self._fail(
                _C.ValueError,
                f"got shared_mem={shared_mem}; expected 0 to {most_shared} bytes on {device}",
            )
        if self.warp and warp and self.warp > warp:
            self._fail(
                _C.NotSupportedError,
                f"the kernel is written for warps of {self.warp}, and {device} has warps of {warp}; "
                "use warpSize in the text, without warp=",
            )
        full = self._make_outputs(args, device) if self.outputs else args
        passed = []
        for i, (p, value) in enumerate(zip(self.parameters, full)):
            if p.pointer:
                passed.append((self._tensor(i, value), p.written))
            else:
                passed.append(self._number(i, value))
        if min(grid) > 0:
            self._made.launch(device, grid, block, shared_mem, passed)
        made = [full[i] for i in sorted(self.outputs)]
        return (made[0] if len(made) == 1 else tuple(made)) if made else None


def kernel(source, name=None, *, options=(), outputs=None, warp=None, strided=False):
    """A kernel in CUDA's or HIP's dialect, for whichever vendor's GPU there is.

        scale = pf.kernel('''
            __global__ void scale(const float* x, float* y, float by, int n) {
              int i = blockIdx.x * blockDim.x + threadIdx.x;
              if (i < n) y[i] = by * x[i];
            }''')
        scale(grid, block, (x, y, 2.0, n))

    source: text with at least one `__global__` function; `#include` lines of the vendors' runtime
    headers may stay. name: which function, when there are several.
    options: for the compiler: -D, -U, -I, and in either vendor's spelling those for contraction,
    fast mathematics and debugging. outputs: a dict of parameter names to shapes: these are made by
    the call and returned, uninitialised, and are left out of its arguments; a shape is a tuple, the
    name of the parameter that has it, or a function of the other arguments. warp: the width of the
    warps that the text is written for; by default 32 where it uses CUDA's `_sync` functions (on a
    GPU with warps of 64, each then counts as two), else the device's own, `warpSize`. strided: take
    tensors of any strides; otherwise they must be contiguous.

    Compiled at the first launch (or by `.compile(device)`) and kept in the cache on disk. Arguments
    are checked against the declaration: number, tensors and numbers, dtypes. Pointers that are not
    const are written: their tensors' versions change. Gradients come from a
    `pyflame.autograd.Function` around it. Raises `BackendError` with the compiler's log.

    Source: the launch reads like CuPy's RawKernel and PyTorch's torch.cuda._compile_kernel.
    """
    return Kernel(source, name, options=options, outputs=outputs, warp=warp, strided=strided)
