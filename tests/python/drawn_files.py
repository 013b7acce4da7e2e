"""Programs about generators, files, copies and loaders, drawn: see test_beside_drawn.py. The numbers of PyTorch's
generator are others: what is compared is which of them are equal."""

import re

DRAWS = ("m.rand(2)", "m.randn(3)", "m.randint(0, 1000000, (2,))", "m.randperm(20)", "m.bernoulli(m.full((64,), 0.5))", "m.empty(3).normal_()",
         "m.empty(3).uniform_()", "m.nn.functional.dropout(m.ones(64), 0.5)", "m.multinomial(m.ones(64), 8)", "D.Normal(0.0, 1.0).sample((2,))", "m.nn.Linear(2, 2).weight.detach()",
         "m.normal(0.0, 1.0, (2,))", "m.rand_like(m.ones(3))", "m.nn.init.xavier_uniform_(m.empty(2, 3))", "D.Gamma(2.0, 1.0).sample((3,))", "m.empty(3).exponential_()")  # fmt: skip


def generators(r):
    """Which draws are the same."""
    lines, states, drawn, gens = ["m.manual_seed(0)"], [], [], []
    n = 0

    def draw(generator=None):
        nonlocal n
        text = r.choice(DRAWS)
        if generator:
            text = r.choice(["m.rand(2, generator={g})", "m.randn(3, generator={g})", "m.randperm(20, generator={g})", "m.randint(0, 1000000, (2,), generator={g})",
                             "m.empty(3).uniform_(generator={g})", "m.bernoulli(m.full((64,), 0.5), generator={g})", "m.multinomial(m.ones(64), 8, generator={g})"]).format(g=generator)  # fmt: skip
        n += 1
        drawn.append(f"d{n}")
        return f"d{n}__ = {text}; K['d{n}'] = (d{n}__.tolist() if hasattr(d{n}__, 'tolist') else d{n}__)"

    lines.append("K = {}")
    last = None
    for _ in range(r.randint(4, 12)):
        what = r.choice(
            [
                "draw",
                "draw",
                "repeat",
                "seed",
                "state",
                "back",
                "fork",
                "generator",
                "own",
                "tell",
                "clone",
            ]
        )
        if what == "draw":
            lines.append(draw())
            last = lines[-1]
        elif what == "repeat" and last:
            n += 1
            drawn.append(f"d{n}")
            lines.append(re.sub(r"d\d+__", f"d{n}__", re.sub(r"K\['d\d+'\]", f"K['d{n}']", last)))
        elif what == "seed":
            lines.append(
                r.choice(
                    [
                        "m.manual_seed(1)",
                        "m.manual_seed(0)",
                        "m.random.manual_seed(1)",
                        "m.default_generator.manual_seed(0)",
                        "m.seed() * 0",
                        "m.manual_seed(-1)",
                    ]
                )
            )
            if "seed()" in lines[-1]:
                lines[-1] = "m.manual_seed(7)"
        elif what == "state":
            states.append(f"st{len(states)}")
            lines.append(
                f"{states[-1]}__ = {r.choice(['m.get_rng_state()', 'm.random.get_rng_state()', 'm.default_generator.get_state()'])}"
            )
        elif what == "back" and states:
            lines.append(
                f"{r.choice(['m.set_rng_state', 'm.random.set_rng_state', 'm.default_generator.set_state'])}({r.choice(states)}__)"
            )
        elif what == "fork":
            body = draw().replace("; ", "\n    ")
            lines.append(
                f"with m.random.fork_rng({r.choice(['', 'enabled=False', 'devices=[]'])}):\n    {r.choice(['m.manual_seed(3)', 'pass', 'm.manual_seed(5)', 'm.rand(3)'])}\n    {body}"
            )
            if "m.seed()" in lines[-1]:
                drawn.pop()
        elif what == "generator":
            gens.append(f"gen{len(gens)}")
            lines.append(
                f"{gens[-1]}__ = m.Generator(); {gens[-1]}__.manual_seed({r.randint(0, 2)})"
            )
        elif what == "own" and gens:
            lines.append(draw(f"{r.choice(gens)}__"))
        elif what == "clone" and gens:
            g = r.choice(gens)
            gens.append(f"gen{len(gens)}")
            lines.append(r.choice([f"{gens[-1]}__ = m.Generator(); {gens[-1]}__.set_state({g}__.get_state())", f"{gens[-1]}__ = {g}__.clone_state()",
                                   f"import copy, pickle; {gens[-1]}__ = pickle.loads(pickle.dumps({g}__.get_state())); {gens[-1]}__s = {gens[-1]}__; {gens[-1]}__ = m.Generator(); {gens[-1]}__.set_state({gens[-1]}__s)"]))  # fmt: skip
        elif what == "tell":
            g = r.choice([f"{x}__" for x in gens] or ["m.default_generator"])
            lines.append(
                f"t = ({g}.initial_seed() if 'seed()' not in str(K) else 0, str({g}.device), {g}.get_state().dtype, {g}.get_state().dim())"
            )
    lines.append("same = [[a, b] for i, a in enumerate(K) for b in list(K)[:i] if K[a] == K[b]]")
    return lines


def saved(r):
    """What is written to a file and read back."""
    lines = ["import io, copy, pickle, collections", "b__ = io.BytesIO()"]
    n = 0
    names = []

    def add(text):
        nonlocal n
        n += 1
        names.append(f"x{n}")
        lines.append(f"x{n} = {text}")
        return f"x{n}"

    add(
        f"m.arange(12, dtype=m.{r.choice(['float32', 'float64', 'int64', 'int32', 'uint8', 'bool', 'complex64', 'float16', 'bfloat16'])}).reshape(3, 4)"
    )
    for _ in range(r.randint(0, 4)):
        src = r.choice(names)
        add(r.choice([
            "{s}.t()", "{s}[1:]", "{s}[:, ::2]", "{s}.reshape(-1)", "{s}.clone()", "{s}", "{s}.detach()", "{s}[0]", "m.nn.Parameter({s}.float())", "{s}.double().requires_grad_()", "{s}.expand(2, *{s}.shape)",
            "filled(m.nn.Linear(2, 3))", "filled(m.nn.Sequential(m.nn.Linear(2, 2), m.nn.BatchNorm1d(2)))", "filled(m.nn.Linear(2, 3)).state_dict()", "m.tensor(3.5)", "m.zeros(0, 3)", "3", "'text'", "None", "(1, 2.5, True)", "[1, {{'a': {s}}}]",
            "collections.OrderedDict(a=1, b={s})", "m.float32", "m.device('cpu')", "m.Size([1, 2])", "{{1: 'a', (2, 3): {s}}}", "b'bytes'", "complex(1, 2)", "slice(1, 3)", "{{1, 2}}", "range(4)", "m.optim.Adam([m.nn.Parameter(m.ones(2))]).state_dict()",
            "float('inf')", "m.get_rng_state().dtype", "m.eye(3).to_sparse()", "filled(m.nn.Embedding(3, 2)).state_dict()", "collections.defaultdict(int, a=2)", "bytearray(b'x')", "m.strided", "m.nested.nested_tensor([m.ones(2), m.ones(3)], layout=m.jagged)", "collections.Counter('aab')", "2**70", "m.contiguous_format",
            "m.quantization if False else m.preserve_format",
        ]).format(s=src))  # fmt: skip
    tree = r.choice(
        ["{{{items}}}", "[{list}]", "({list},)", "{one}", "collections.OrderedDict({{{items}}})"]
    ).format(items=", ".join(f"'{x}': {x}" for x in names), list=", ".join(names), one=names[-1])
    lines.append(f"tree = {tree}")
    how = r.choice(["save", "save", "save", "deepcopy", "pickle", "save"])
    if how == "deepcopy":
        lines.append("back = copy.deepcopy(tree)")
    elif how == "pickle":
        lines.append(f"back = pickle.loads(pickle.dumps(tree, protocol={r.choice([2, 4, 5])}))")
    else:
        lines.append("m.save(tree, b__)")
        lines.append("b__.seek(0)")
        lines.append(
            f"back = m.load(b__{r.choice(['', '', ', weights_only=True', ', weights_only=False', ', map_location=' + repr('cpu'), ', map_location=m.device(' + repr('cpu') + ')', ', mmap=False'])})"
        )
    if tree.startswith(("{", "[", "(")):
        keys = [repr(x) if tree.startswith("{") else str(i) for i, x in enumerate(names)]
        tensors = "[(i, v) for i, v in (back.items() if isinstance(back, dict) else enumerate(back)) if isinstance(v, m.Tensor) and v.layout == m.strided and not v.is_nested]"
        lines.append(
            f"flags = [(str(i), v.stride(), v.storage_offset(), v.is_contiguous(), v.requires_grad, type(v).__name__) for i, v in {tensors}]"
        )
        lines.append(
            f"shared = [(str(i), str(j)) for i, v in {tensors} for j, w in {tensors} if v.untyped_storage().data_ptr() == w.untyped_storage().data_ptr() and v.numel() and w.numel()]"
        )
        lines.append(f"sizes = [(str(i), v.untyped_storage().nbytes()) for i, v in {tensors}]")
        lines.append(
            f"same = [(str(i), str(j)) for i, v in {tensors} for j, w in {tensors} if v is w]"
        )
        if keys:
            k = r.choice(keys)
            lines.append(f"kept = back[{k}]")
    return lines


def states(r):
    """State dicts of modules and optimizers."""
    p = ["import copy, io, collections", "m.manual_seed(0)"]
    parts = [
        "m.nn.Linear(3, 3)",
        "m.nn.BatchNorm1d(3)",
        "m.nn.Linear(3, 3, bias=False)",
        "m.nn.LayerNorm(3)",
        "m.nn.Sequential(m.nn.Linear(3, 3), m.nn.ReLU())",
        "m.nn.GroupNorm(1, 3)",
        "m.nn.PReLU()",
        "m.nn.Dropout(0.0)",
    ]
    make = f"m.nn.Sequential({', '.join(r.choice(parts) for _ in range(r.randint(1, 3)))})"
    p.append(f"a = {make}")
    p.append(
        f"c = {make if r.random() < 0.7 else 'm.nn.Sequential(' + r.choice(parts) + ', ' + r.choice(parts) + ')'}"
    )
    p.append(
        "with m.no_grad():\n    [q.copy_(m.arange(q.numel(), dtype=q.dtype).reshape(q.shape)) for q in list(a.parameters())]"
    )
    p.append("with m.no_grad():\n    [q.fill_(2.0) for q in list(c.parameters())]")
    for _ in range(r.randint(2, 6)):
        what = r.choice(["state", "load", "change", "optimizer", "tell", "step", "hook"])
        if what == "state":
            p.append(
                f"s = a.state_dict({r.choice(['', '', 'prefix=' + repr('p.'), 'keep_vars=True'])})"
            )
            p.append("k = list(s.keys())")
            p.append("v = [list(s.items()), type(s).__name__, getattr(s, '_metadata', None)]")
        elif what == "load":
            p.append("s = a.state_dict()")
            if r.random() < 0.5:
                p.append(
                    r.choice(
                        [
                            "s['extra'] = m.ones(1)",
                            "[s.pop(q) for q in list(s)[:1]]",
                            "s = dict(s)",
                            "[s.__setitem__(q, m.ones(5)) for q in list(s)[:1]]",
                            "[s.__setitem__(q, s[q].double()) for q in list(s)[:1]]",
                            "s = copy.deepcopy(s)",
                            "[s.__setitem__(q, 3) for q in list(s)[:1]]",
                        ]
                    )
                )
            p.append(
                f"e = c.load_state_dict(s{r.choice(['', ', strict=False', ', assign=True', ', strict=False, assign=True'])})"
            )
            p.append("f = [(tuple(e.missing_keys), tuple(e.unexpected_keys)), repr(e)]")
            p.append("w = [(q, t, t.dtype) for q, t in c.state_dict().items()]")
        elif what == "change":
            p.append(
                r.choice(
                    [
                        "a.double()",
                        "c.requires_grad_(False)",
                        "a.eval()",
                        "c.half()",
                        "a.to(m.float64)",
                        "c.zero_grad()",
                        "a.register_buffer('extra', m.ones(2), persistent=False)",
                        "a.register_buffer('more', m.ones(2))",
                        "a[0] = filled(m.nn.Linear(3, 3, bias=False))",
                        "a.append(m.nn.Tanh())",
                        "a.register_parameter('none', None)",
                    ]
                )
            )
        elif what == "optimizer":
            kind = r.choice(
                [
                    "SGD({q}, lr=0.1, momentum=0.9)",
                    "Adam({q})",
                    "AdamW({q}, amsgrad=True)",
                    "RMSprop({q})",
                    "Adagrad({q})",
                    "Adadelta({q})",
                    "NAdam({q})",
                    "Rprop({q})",
                    "Adamax({q}, lr=0.01)",
                    "ASGD({q})",
                    "RAdam({q})",
                    "LBFGS({q}, lr=0.01, max_iter=2)",
                ]
            )
            groups = r.choice(
                [
                    "a.parameters()",
                    "[{'params': list(a.parameters()), 'lr': 0.5}]",
                    "a.named_parameters()",
                    "list(a.parameters())",
                ]
            )
            p.append("a.float(); a.requires_grad_()")
            p.append(f"o = m.optim.{kind.format(q=groups)}")
            p.append(
                "def closure():\n    o.zero_grad()\n    l = sum((q * q).sum() for q in a.parameters())\n    l.backward()\n    return l"
            )
            p.append("l = o.step(closure)")
            p.append(
                "def plain(d):\n    return {str(x): plain(y) for x, y in sorted(d.items(), key=str) if x not in ('step', 'eta', 'mu', 'mu_product', 'ax', 't', 'func_evals', 'n_iter')} if isinstance(d, dict) else [plain(y) for y in d] if isinstance(d, (list, tuple)) else d"
            )
            p.append("sd = plain(o.state_dict())")
            p.append("od__ = o.state_dict()")
            p.append(
                r.choice(
                    [
                        "od__ = copy.deepcopy(od__)",
                        "bb__ = io.BytesIO(); m.save(od__, bb__); bb__.seek(0); od__ = m.load(bb__)",
                        "o = copy.deepcopy(o)",
                        "pass",
                    ]
                )
            )
            p.append("o.load_state_dict(od__)")
            p.append(r.choice(["pass", "pass", "a.double()", "a.to(m.bfloat16)"]))
            p.append("l = o.step(closure)")
            p.append("w = [t for t in a.state_dict().values()]")
        elif what == "tell":
            p.append(
                f"t = {r.choice(['[q for q, _ in a.named_parameters()]', '[q for q, _ in a.named_buffers()]', 'repr(a)', '[q for q, _ in a.named_modules()]', 'len(a)', '[type(q).__name__ for q in a.children()]', 'a.training', '[q.requires_grad for q in c.parameters()]', 'sorted(k for k in dir(a) if not k.startswith(chr(95)) and not k.startswith(chr(95)))[:0]'])}"
            )
        elif what == "step":
            p.append(
                "y = a(m.arange(12.0).reshape(4, 3).to(next(iter(a.parameters()), m.ones(1)).dtype))"
            )
        else:
            p.append(
                "u__ = a.register_state_dict_post_hook(lambda mod, st, prefix, meta: st.__setitem__('hooked', m.ones(1)))"
            )
            p.append("z = list(a.state_dict())")
    return p


DATA = (
    "class Squares(m.utils.data.Dataset):\n    def __len__(self):\n        return {n}\n    def __getitem__(self, i):\n        if isinstance(i, slice): raise TypeError('no')\n        if i >= {n}: raise IndexError(i)\n        return {item}",
    "class Stream(m.utils.data.IterableDataset):\n    def __iter__(self):\n        w = m.utils.data.get_worker_info()\n        a, b = (0, 1) if w is None else (w.id, w.num_workers)\n        return iter([{item} for i in range({n}) if i % b == a])",
)
ITEMS = ("i", "m.tensor(i)", "(i, float(i))", "{{'a': i, 'b': m.full((2,), float(i))}}", "[m.ones(2) * i, str(i)]", "m.arange(3) + i", "__import__('numpy').full(2, i)", "(m.tensor([i]), (i, {{'c': i * 0.5}}))", "str(i)", "None if i == 99 else i",
         "__import__('collections').namedtuple('P', 'x y')(i, i)", "bool(i % 2)", "m.ones(i % 3 + 1)", "complex(i)", "b'x'", "__import__('numpy').float32(i)")  # fmt: skip


def loaders(r):
    p = []
    n = r.choice([0, 1, 5, 8, 9])
    stream = r.random() < 0.3
    item = r.choice(ITEMS).replace("{{", "{").replace("}}", "}")
    p.append(DATA[stream].replace("{n}", str(n)).replace("{item}", item))
    p.append(f"d__ = {'Stream' if stream else 'Squares'}()")
    if not stream and r.random() < 0.4:
        p.append("d__ = " + r.choice(["m.utils.data.Subset(d__, [0, 2, 2])", "m.utils.data.ConcatDataset([d__, d__])", "m.utils.data.TensorDataset(m.arange(6), m.ones(6, 2))", "list(range(7))", "m.utils.data.StackDataset(d__, d__)", "m.utils.data.StackDataset(a=d__, b=d__)",
                                      "m.utils.data.Subset(d__, range(2))", "d__ + d__", "'abcde'", "m.arange(5)", "{i: i * 2 for i in range(4)}"]))  # fmt: skip
    elif stream and r.random() < 0.3:
        p.append("d__ = " + r.choice(["m.utils.data.ChainDataset([d__, d__])", "d__ + d__"]))
    p.append("len_ = len(d__)")
    options = []
    if r.random() < 0.8:
        options.append(f"batch_size={r.choice([1, 2, 3, 4, 'None', 0, -1, 100, 2.5])}")
    for text, chance in (("drop_last=True", 0.25), (f"sampler={r.choice(SAMPLERS)}", 0.2), (f"batch_sampler={r.choice(BATCHES)}", 0.1), ("collate_fn=lambda b: b", 0.15), ("collate_fn=list", 0.05),
                         ("timeout=-1", 0.03), ("worker_init_fn=lambda i: None", 0.1), ("generator=m.Generator()", 0.1), ("pin_memory=False", 0.1), ("prefetch_factor=2", 0.05), ("persistent_workers=True", 0.05),
                         ("shuffle=False", 0.1), ("in_order=False", 0.05), ("shuffle=True", 0.05), ("num_workers=-1", 0.02), ("multiprocessing_context='fork'", 0.03)):  # fmt: skip
        if r.random() < chance:
            options.append(text)
    p.append(f"l__ = m.utils.data.DataLoader(d__{''.join(', ' + o for o in options)})")
    p.append("size = len(l__)")
    shuffled = "shuffle=True" in options or "Random" in str(options)
    p.append("batches = list(l__)" if not shuffled else "count = len(list(l__))")
    for _ in range(r.randint(0, 3)):
        p.append(r.choice([
            "again = list(l__)" if not shuffled else "pass", "t = (l__.batch_size, l__.drop_last, l__.num_workers, l__.pin_memory, l__.timeout, l__.prefetch_factor, l__.persistent_workers)",
            "s = [type(l__.sampler).__name__, type(l__.batch_sampler).__name__]", "first = next(iter(l__))" if not shuffled else "pass", "l__.batch_size = 7", "l__.sampler = None", "i__ = iter(l__); f = [type(i__).__name__, len(i__)]",
            "bs = list(l__.batch_sampler)" if not shuffled and not stream else "pass", "c = l__.collate_fn is not None", "w = m.utils.data.get_worker_info()", "x = l__.dataset is d__", "k = m.utils.data.default_collate([1, 2])", "k = m.utils.data.default_convert([1, 2.0])", "l__.num_workers = 0",
            "k = m.utils.data.default_collate([])", "k = m.utils.data.default_collate([{'a': 1}, {'a': 2, 'b': 3}])", "k = m.utils.data.default_collate([m.ones(2), m.ones(3)])", "k = m.utils.data.default_collate([(1, 2), (1,)])", "k = m.utils.data.default_collate([object()])",
        ]))  # fmt: skip
    return p


SAMPLERS = ("m.utils.data.SequentialSampler(d__)", "[0, 2, 1]", "m.utils.data.SubsetRandomSampler([0])", "range(3)", "m.utils.data.RandomSampler(d__)", "m.utils.data.WeightedRandomSampler([1.0, 0.0], 2)", "m.utils.data.BatchSampler(range(4), 2, False)",
            "m.utils.data.RandomSampler(d__, replacement=True, num_samples=3)", "m.utils.data.distributed.DistributedSampler(range(5), 2, 1, shuffle=False)", "iter([0, 1])")  # fmt: skip
BATCHES = (
    "m.utils.data.BatchSampler(range(4), 3, False)",
    "[[0, 1], [2]]",
    "m.utils.data.BatchSampler(m.utils.data.SequentialSampler(d__), 2, True)",
    "m.utils.data.BatchSampler(range(4), 0, False)",
    "m.utils.data.BatchSampler(range(4), 2, 1)",
)


def filled(m):
    def fill(module):
        with m.no_grad():
            for p in module.parameters():
                p.fill_(0.5)
        return module

    return fill


# Steps amplify what is rounded: some of these weights end near 0.
DIGITS = {"states": "float16"}
STRICT = ("loaders",)  # what PyTorch refuses is refused
NAMES = {"filled": filled}
MEANT = (
    (r"sampler\)", r"NoneType|Sampler", "a loader of a stream has no sampler"),
    (r"sizes|flags", r"not (48|96|24|192|0|1)", "pickle writes the elements of a view"),
    (r"same", r"list", "a generator of the same seed gives the same numbers as the one of all"),
    (r"save", r"type '(layout|memory_format|range|slice)'", "docs/files.md lists what is written"),
    (r"arange|Parameter", r"error:|DType", "the class of what is refused"),
    (r"c\.state_dict", r"tensor:", "load_state_dict changes nothing where something does not fit"),
)


def meant(lines, i, text):
    """Differences that docs/pytorch_differences.md lists."""
    return any(re.search(a, lines[i]) and re.search(b, text) for a, b, _ in MEANT)
