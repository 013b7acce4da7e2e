"""Programs about sparse, nested and masked tensors, drawn: see test_beside_drawn.py."""

import re

SAFE = ("abs", "neg", "sin", "tanh", "sqrt", "relu", "asin", "atan", "sinh", "floor", "ceil", "round", "trunc", "sign",
        "sgn", "expm1", "log1p", "erf", "isnan", "isinf", "deg2rad", "rad2deg", "positive", "square", "frac", "signbit")  # fmt: skip


def numbers(r, shape, low=-4, high=4):
    if not shape:
        return r.choice([float(r.randint(low, high)), round(r.uniform(low, high), 2)])
    return [numbers(r, shape[1:], low, high) for _ in range(shape[0])]


class Drawing:
    def __init__(self, r):
        self.r, self.lines, self.leaves, self.n = r, [], [], 0

    def add(self, text, letter="v"):
        self.n += 1
        self.lines.append(f"{letter}{self.n} = {text}")
        return f"{letter}{self.n}"

    def do(self, text):
        self.lines.append(text)

    def dense(self, shape, grad=None, dtype="float64", low=-4, high=4):
        grad = self.r.random() < 0.5 if grad is None else grad
        tail = ", requires_grad=True" if grad and dtype.startswith("float") else ""
        values = numbers(self.r, shape, low, high)
        if dtype.startswith("int"):
            values = ints(values)
        x = self.add(f"m.tensor({values!r}, dtype=m.{dtype}).reshape({tuple(shape)})", "x")
        if tail:
            self.do(f"{x}.requires_grad_()")
            self.leaves.append(x)
        return x

    def gradients(self, of):
        """By backward, into .grad, or by grad."""
        if not self.leaves:
            return
        r = self.r
        if r.random() < 0.5:
            names = ", ".join(self.leaves) + ("," if len(self.leaves) == 1 else "")
            self.add(f"m.autograd.grad({of}, ({names}), allow_unused=True, retain_graph=True)", "g")
        else:
            self.do(f"{of}.backward(retain_graph=True)")
            for leaf in self.leaves:
                self.add(f"{leaf}.grad", "g")


def ints(values):
    return [ints(v) for v in values] if isinstance(values, list) else int(values)


def sparse(p, shape, layout, dtype, grad, dense=0):
    r = p.r
    rows, cols = shape[:2]
    if layout == "coo":
        if dense or len(shape) != 2 or r.random() < 0.7:
            n = r.randint(0, 5)
            index = [[r.randrange(s) for _ in range(n)] for s in shape[: len(shape) - dense]]
            values = numbers(r, (n, *shape[len(shape) - dense :]))
            values = ints(values) if dtype.startswith("int") else values
            v = p.add(
                f"m.tensor({values!r}, dtype=m.{dtype}).reshape({(n, *shape[len(shape) - dense :])})",
                "w",
            )
            if grad:
                p.do(f"{v}.requires_grad_()")
                p.leaves.append(v)
            i = p.add(f"m.tensor({index!r}, dtype=m.int64).reshape({len(shape) - dense}, {n})", "i")
            size = r.choice(
                [f", {tuple(shape)}", f", size={tuple(shape)}", f", m.Size({list(shape)})"]
            )
            more = r.choice(["", "", ", check_invariants=True", ", is_coalesced=False"])
            a = p.add(f"m.sparse_coo_tensor({i}, {v}{size}{more})", "a")
            return a
        x = p.dense(shape, grad, dtype)
        p.do(f"{x}_z = {x} * ({x} > 0)")
        return p.add(f"{x}_z.to_sparse({r.choice(['', '2', 'layout=m.sparse_coo'])})", "a")
    if r.random() < 0.5:
        x = p.dense(shape, grad, dtype)
        p.do(f"{x}_z = {x} * ({x} > 0)")
        return p.add(
            f"{x}_z.{r.choice([f'to_sparse_{layout}()', f'to_sparse(layout=m.sparse_{layout})'])}",
            "a",
        )
    outer, inner = (rows, cols) if layout == "csr" else (cols, rows)
    per = [sorted(r.sample(range(inner), r.randint(0, inner))) for _ in range(outer)]
    ends = [0]
    for q in per:
        ends.append(ends[-1] + len(q))
    values = numbers(r, (ends[-1],))
    values = ints(values) if dtype.startswith("int") else values
    v = p.add(f"m.tensor({values!r}, dtype=m.{dtype})", "w")
    if grad:
        p.do(f"{v}.requires_grad_()")
        p.leaves.append(v)
    kind = r.choice(["int64", "int64", "int32"])
    e = f"m.tensor({ends!r}, dtype=m.{kind})"
    c = f"m.tensor({sum(per, [])!r}, dtype=m.{kind})"
    return p.add(f"m.sparse_{layout}_tensor({e}, {c}, {v}, {tuple(shape)})", "a")


def coo_csr(r, layouts=("coo", "coo", "csr")):
    p = Drawing(r)
    layout = r.choice(layouts)
    dtype = r.choice(["float64", "float64", "float32", "int64"])
    grad = dtype != "int64" and r.random() < 0.6
    dense = r.choice([0, 0, 0, 1]) if layout == "coo" else 0
    shape = (
        tuple(r.randint(1, 4) for _ in range(r.choice([2, 2, 2, 1, 3]) if layout == "coo" else 2))
        + (2,) * dense
    )
    if len(shape) < 2 and dense:
        shape += (2,)
    a = sparse(p, shape if len(shape) > 1 else shape, layout, dtype, grad, dense) if len(shape) > 1 else sparse(
        p, (*shape, 2), layout, dtype, grad, 0)  # fmt: skip
    if len(shape) == 1:
        shape = (*shape, 2)
    for _ in range(r.randint(2, 5)):
        two = len(shape) == 2 and not dense
        what = r.choice(STEPS)
        out = None
        if what == "unary":
            out = p.add(f"{r.choice(['m.{f}({a})', '{a}.{f}()']).format(f=r.choice(SAFE), a=a)}")
        elif what == "mm" and two:
            k = r.randint(1, 3)
            b = p.dense((shape[1], k), None, dtype)
            out = p.add(
                r.choice(
                    ["{a} @ {b}", "m.mm({a}, {b})", "m.sparse.mm({a}, {b})", "m.matmul({a}, {b})"]
                ).format(a=a, b=b)
            )
        elif what == "mv" and two:
            b = p.dense((shape[1],), None, dtype)
            out = p.add(
                r.choice(["{a} @ {b}", "m.mv({a}, {b})", "{a}.matmul({b})"]).format(a=a, b=b)
            )
        elif what == "addmm" and two:
            k = r.randint(1, 3)
            b, c = p.dense((shape[1], k), None, dtype), p.dense((shape[0], k), None, dtype)
            out = p.add(
                f"{r.choice(['m.addmm', 'm.sparse.addmm'])}({c}, {a}, {b}{r.choice(['', ', beta=2', ', alpha=3'])})"
            )
        elif what == "left" and two:
            b = p.dense((2, shape[0]), None, dtype)
            out = p.add(f"{b} @ {a}")
        elif what == "spsp" and two:
            b = sparse(
                p, (shape[1], 3), r.choice(["coo", layout]), dtype, grad and r.random() < 0.5
            )
            out = p.add(r.choice(["{a} @ {b}", "m.sparse.mm({a}, {b})"]).format(a=a, b=b))
        elif what == "binary":
            b = sparse(p, shape, layout, dtype, grad and r.random() < 0.5, dense)
            out = p.add(
                r.choice(
                    [
                        "{a} + {b}",
                        "{a} - {b}",
                        "{a} * {b}",
                        "m.add({a}, {b}, alpha=2)",
                        "m.sub({a}, {b})",
                        "m.mul({a}, {b})",
                        "{a}.add({b})",
                    ]
                ).format(a=a, b=b)
            )
        elif what == "number":
            out = p.add(
                r.choice(
                    [
                        "{a} * 2",
                        "3 * {a}",
                        "{a} / 2",
                        "-{a}",
                        "{a} * m.tensor(2)",
                        "{a}.mul(2.5)",
                        "{a}.div(4)",
                        "{a} ** 2",
                        "{a}.pow(3)",
                    ]
                ).format(a=a)
            )
        elif what == "with dense":
            b = p.dense(shape if r.random() < 0.7 else shape[-1:], None, dtype)
            out = p.add(
                r.choice(
                    [
                        "{a} + {b}",
                        "{b} + {a}",
                        "{a} * {b}",
                        "{b} * {a}",
                        "{b} - {a}",
                        "m.add({b}, {a}, alpha=2)",
                    ]
                ).format(a=a, b=b)
            )
        elif what == "sum":
            d = r.choice(["", "0", "1", "-1", "(0, 1)", "dim=0", "dim=[1]", "0, keepdim=True"])
            out = p.add(
                r.choice(
                    [
                        f"m.sparse.sum({a}{', ' + d if d else ''})",
                        f"{a}.sum({d})",
                        f"m.sum({a}{', ' + d if d else ''})",
                    ]
                )
            )
        elif what == "softmax":
            out = p.add(
                f"m.sparse.{r.choice(['softmax', 'log_softmax'])}({a}, {r.choice(['0', '1', '-1', 'dim=1'])}{r.choice(['', '', ', dtype=m.float64'])})"
            )
        elif what == "shape":
            out = p.add(r.choice([
                "{a}.t()", "{a}.transpose(0, 1)", "{a}.T", "{a}.mT", "{a}.unsqueeze(0)", "{a}[0]", "{a}[-1]", "{a}.select(0, 0)", "{a}.select(1, 0)",
                "{a}.index_select(0, m.tensor([0, 0]))", "{a}.index_select(1, m.tensor([0]))", "{a}.permute(1, 0)", "m.cat([{a}, {a}])", "m.cat([{a}, {a}], 1)",
                "m.stack([{a}, {a}])", "{a}.narrow_copy(0, 0, 1)", "{a}.squeeze()", "{a}.flatten()", "{a}.reshape(-1)", "{a}[:, 0]", "{a}[0, 0]", "{a}[0:1]",
                "{a}.expand_as({a})", "{a}.diagonal()",
            ]).format(a=a))  # fmt: skip
        elif what == "convert":
            out = p.add(r.choice([
                "{a}.to_dense()", "{a}.coalesce()", "{a}.to_sparse_csr()", "{a}.to_sparse_coo()", "{a}.to_sparse()", "{a}.to_sparse(layout=m.sparse_csr)",
                "{a}.clone()", "{a}.detach()", "{a}.float()", "{a}.to(m.float64)", "{a}.double()", "{a}.to_sparse(1)", "{a}.coalesce().coalesce()",
                "m.clone({a})", "{a}.long()", "{a}.to_dense(dtype=m.float32)", "{a}.contiguous()", "{a}.bool()", "{a}.half()", "m.zeros_like({a})",
                "m.empty_like({a}).shape", "{a}.new_zeros(2, 2)", "m.ones_like({a})", "{a}.cpu()", "{a}.type(m.float32)",
            ]).format(a=a))  # fmt: skip
        elif what == "parts":
            p.add(r.choice([
                "{a}.coalesce().indices()", "{a}.coalesce().values()", "{a}._nnz()", "({a}.sparse_dim(), {a}.dense_dim())", "{a}.is_coalesced()",
                "{a}._indices()", "{a}._values()", "{a}.crow_indices()", "{a}.col_indices()", "{a}.values()", "{a}.indices()", "{a}.is_sparse",
                "{a}.layout", "{a}.is_sparse_csr", "{a}.numel()", "len({a})", "{a}.dim()", "{a}.size()", "{a}.shape", "{a}.dtype", "{a}.requires_grad",
                "{a}.is_leaf", "{a}.norm()", "{a}.is_floating_point()", "{a}.element_size()", "{a}.nelement()", "{a}.stride()", "{a}.is_contiguous()",
                "{a}.mean()", "{a}.any()", "{a}.all()", "{a}.max()", "{a}.numpy()", "{a}.tolist()", "{a}.item()", "bool({a})", "list({a})", "{a} == {a}",
                "{a}.data_ptr() == 0", "{a}.ccol_indices()", "str({a})", "repr({a}.detach())", "m.equal({a}, {a})", "m.allclose({a}, {a})", "{a}.grad_fn is None",
            ]).format(a=a))  # fmt: skip
        elif what == "mask":
            x = p.dense(shape, None, dtype)
            out = p.add(f"{x}.sparse_mask({a}{'.coalesce()' if layout == 'coo' else ''})")
        elif what == "in place":
            p.do(r.choice([
                "{a}.mul_(2)", "{a}.div_(2)", "{a}.zero_()", "{a}.neg_()", "{a}.abs_()", "{a}.add_({a})", "{a}.copy_({a})", "{a}.requires_grad_()",
                "{a}.sin_()", "{a}._coalesced_(True)", "{a}.sub_({a})", "{a}.mul_({a})", "{a}.resize_as_({a})", "{a}.sparse_resize_({a}.shape, {a}.sparse_dim(), {a}.dense_dim())",
                "{a}.fill_(0)", "{a}.detach_()", "{a}.sparse_resize_and_clear_((3, 3), 2, 0)", "{a}.relu_()",
            ]).format(a=a))  # fmt: skip
            p.add(f"{a} if True else 0", "b")
        elif what == "sampled" and two:
            b, c = p.dense((shape[0], 2), None, dtype), p.dense((2, shape[1]), None, dtype)
            s = p.add(f"{a}.to_sparse_csr()", "c") if layout == "coo" else a
            out = p.add(
                f"m.sparse.sampled_addmm({s}, {b}, {c}{r.choice(['', ', beta=0.5', ', alpha=2.0'])})"
            )
        elif what == "function":
            out = p.add(r.choice([
                "m.sparse.sum({a} * {a})", "m.linalg.norm({a})", "m.norm({a})", "m.nn.functional.relu({a})", "m.nn.functional.linear(m.ones(2, {a}.shape[1], dtype={a}.dtype), {a})",
                "m.where({a}, 1, 0)", "m.sparse.spdiags(m.ones(2, 3), m.tensor([0, -1]), (3, 3))", "m.hspmm({a}, {a}.to_dense().t())", "m.smm({a}, {a}.to_dense().t())",
                "m.sspaddmm({a}, {a}, {a}.to_dense())", "m.sparse.as_sparse_gradcheck", "m.dsmm({a}, {a}.to_dense().t())", "m.nonzero({a})", "{a}.to_dense().to_sparse().coalesce()",
                "m.bmm({a}, {a}.to_dense())", "m.kron({a}, {a})", "m.einsum('ij->ji', {a})", "m.maximum({a}, {a})", "m.dot({a}, {a})", "m.nan_to_num({a})", "m.clamp({a}, 0, 1)",
                "m.isfinite({a})", "m.count_nonzero({a})", "m.trace({a})", "m.argmax({a})", "m.cumsum({a}, 0)", "m.dropout({a}, 0.0, True)", "m.native_norm({a})",
            ]).format(a=a))  # fmt: skip
        if out is None:
            continue
        if p.leaves and r.random() < 0.7:
            s = p.add(
                r.choice(
                    [
                        "({o}.to_dense() * {o}.to_dense()).sum()",
                        "m.sparse.sum({o})",
                        "{o}.sum()",
                        "{o}.to_dense().sin().sum()",
                    ]
                ).format(o=out),
                "s",
            )
            p.gradients(s)
        if r.random() < 0.3:
            return_to = out
            p.do(f"{a} = {return_to}")
            p.add(f"{a} if True else 0", "b")
            shape = None
            break
    return p.lines


STEPS = ("unary", "mm", "mv", "addmm", "left", "spsp", "binary", "number", "with dense", "sum", "softmax", "shape", "shape",
         "convert", "convert", "parts", "parts", "mask", "in place", "sampled", "function")  # fmt: skip


def nested(r):
    p = Drawing(r)
    layout = r.choice(["jagged", "jagged", "jagged", "strided"])
    n, width = r.randint(1, 3), r.choice([2, 4])
    lengths = [r.randint(1, 4) for _ in range(n)]
    dtype = r.choice(["float64", "float64", "float32"])
    parts = [p.dense((k, width), False, dtype) for k in lengths]
    how = r.choice(["nested", "nested", "as", "values"])
    if how == "nested":
        grad = r.random() < 0.6
        t = p.add(
            f"m.nested.nested_tensor([{', '.join(parts)}], layout=m.{layout}{', requires_grad=True' if grad else ''})",
            "t",
        )
        if grad:
            p.leaves.append(t)
    elif how == "as":
        for q in parts:
            if r.random() < 0.7:
                p.do(f"{q}.requires_grad_()")
                p.leaves.append(q)
        t = p.add(f"m.nested.as_nested_tensor([{', '.join(parts)}], layout=m.{layout})", "t")
    else:
        layout = "jagged"
        values = p.dense((sum(lengths), width), None, dtype)
        ends = [0]
        for k in lengths:
            ends.append(ends[-1] + k)
        t = p.add(
            f"m.nested.nested_tensor_from_jagged({values}, m.tensor({ends}){r.choice(['', f', min_seqlen={min(lengths)}, max_seqlen={max(lengths)}'])})",
            "t",
        )
    weight = p.dense((3, width), None, dtype)
    told = {"n": n, "width": width, "half": width // 2, "dtype": dtype, "lengths": lengths}
    for _ in range(r.randint(2, 5)):
        what = r.choice(
            ["unary", "binary", "layer", "reduce", "shape", "parts", "dense", "attend", "other"]
        )
        if what == "unary":
            out = p.add(r.choice(["{t}.sin()", "m.exp({t})", "{t}.relu()", "m.nn.functional.gelu({t})", "m.tanh({t})", "{t}.abs()", "-{t}", "{t} * 2", "{t} + 1", "2 - {t}", "{t} ** 2", "{t} / 2", "{t} > 0",
                                  "{t}.clamp(-1, 1)", "m.sigmoid({t})", "{t}.float()", "{t}.clone()", "{t}.detach()", "m.zeros_like({t})", "m.ones_like({t})", "{t}.to(m.float64)", "{t}.contiguous()",
                                  "m.nn.functional.silu({t})", "m.nn.functional.dropout({t}, 0.0)", "{t}.isnan()", "m.where({t} > 0, {t}, {t} * 2)", "{t}.masked_fill({t} > 0, 1.0)"]).format(t=t, **told))  # fmt: skip
        elif what == "binary":
            out = p.add(r.choice(["{t} + {t}", "{t} * {t}.cos()", "{t} - {t} * 2", "{t} / ({t}.abs() + 1)", "m.maximum({t}, {t})", "{t} == {t}", "m.add({t}, {t}, alpha=2)",
                                  "{t} + m.ones({width}, dtype=m.{dtype})", "{t} * m.ones({n}, 1, 1, dtype=m.{dtype})", "{t} * m.ones({n}, 1, {width}, dtype=m.{dtype})", "{t} @ {t}.transpose(1, 2)"]).format(t=t, **told))  # fmt: skip
        elif what == "layer":
            out = p.add(r.choice(["m.nn.functional.linear({t}, {w})", "{t} @ {w}.t()", "m.nn.functional.layer_norm({t}, ({width},))", "m.nn.functional.rms_norm({t}, ({width},))", "m.nn.functional.softmax({t}, -1)", "{t}.softmax(dim=1)",
                                  "m.nn.functional.log_softmax({t}, -1)", "m.matmul({t}, {w}.t())", "m.nn.functional.normalize({t}, dim=-1)", "m.nn.functional.linear({t}, {w}, m.ones(3, dtype=m.{dtype}))"]).format(t=t, w=weight, **told))  # fmt: skip
        elif what == "reduce":
            out = p.add(r.choice(["{t}.sum()", "{t}.sum(1)", "{t}.sum(-1)", "{t}.mean()", "{t}.mean(1)", "{t}.mean(-1)", "{t}.sum(dim=1, keepdim=True)", "{t}.amax(1)", "{t}.amax(-1)", "{t}.max()", "{t}.min()", "{t}.sum(0)",
                                  "{t}.any()", "{t}.all()", "{t}.norm()", "{t}.var()", "{t}.prod()", "{t}.mean((1, 2))", "{t}.sum((0, 1))", "m.max({t}, dim=2)", "{t}.argmax(-1)", "{t}.logsumexp(-1)", "{t}.sum(-1, keepdim=True)", "{t}.std(-1)"]).format(t=t, **told))  # fmt: skip
        elif what == "shape":
            out = p.add(r.choice(["{t}.transpose(1, 2)", "{t}.unflatten(-1, (2, {half}))", "{t}.unsqueeze(-1)", "{t}.flatten(1, 2)", "{t}[..., :1]", "{t}[0]", "{t}[-1]", "{t}.select(0, 0)", "{t}[:, :, 0]", "{t}.chunk(2, -1)[0]",
                                  "{t}.split(1, -1)[1]", "m.cat([{t}, {t}], -1)", "m.stack([{t}, {t}], -1)", "{t}.reshape({n}, -1, 2, {half})", "{t}.view({n}, -1, {width})", "{t}.permute(0, 2, 1)", "{t}.squeeze()", "{t}.unsqueeze(1)",
                                  "{t}.narrow(0, 0, 1)", "{t}[:1]", "m.cat([{t}, {t}])", "{t}[0, 0]", "{t}[..., 0]", "{t}.unflatten(-1, (2, {half})).transpose(1, 2)", "{t}.view(-1)", "{t}.expand(2)"]).format(t=t, **told))  # fmt: skip
        elif what == "parts":
            p.add(r.choice(["{t}.values()", "{t}.offsets()", "{t}.unbind()", "{t}.is_nested", "{t}.layout", "{t}.dim()", "{t}.size(0)", "{t}.size(2)", "{t}.size(-1)", "{t}.numel()", "{t}.is_contiguous()", "{t}.requires_grad", "len({t})", "list({t})", "[c for c in {t}]",
                            "{t}.dtype", "{t}.shape[0]", "{t}.shape[2]", "{t}.lengths()", "{t}.is_leaf", "{t}.element_size()", "{t}.tolist()", "{t}.is_floating_point()", "{t}.layout == m.jagged", "{t}.is_sparse", "{t}.device", "{t}.numpy()", "{t}._min_seqlen", "{t}._max_seqlen", "isinstance({t}, m.Tensor)", "{t}.size(1) == {t}.size(1)", "({t} * 2).size(1) == {t}.size(1)", "{t}.shape == ({t} + 1).shape"]).format(t=t, **told))  # fmt: skip
            continue
        elif what == "dense":
            out = p.add(r.choice(["{t}.to_padded_tensor(0.0)", "m.nested.to_padded_tensor({t}, -1.0)", "{t}.to_padded_tensor(0.0, ({n}, 5, {width}))", "{t}.to_padded_tensor(1.5)"]).format(t=t, **told))  # fmt: skip
        elif what == "attend":
            q = p.add(f"{t}.unflatten(-1, (2, {width // 2})).transpose(1, 2)", "q")
            out = p.add(
                f"m.nn.functional.scaled_dot_product_attention({q}, {q}, {q}).transpose(1, 2).flatten(-2)"
            )
        else:
            out = p.add(r.choice(["m.nested.as_nested_tensor({t})", "m.nested.nested_tensor({t}.unbind(), layout=m.jagged)", "m.nested.as_nested_tensor({t}.unbind(), layout=m.strided)", "m.nested.narrow(m.ones({n}, 5, 2), 1, 0, m.tensor({lengths}), layout=m.jagged)",
                                  "m.nn.functional.embedding(m.nested.nested_tensor([m.tensor([0, 1]), m.tensor([2])], layout=m.jagged), {w})", "m.nested.masked_select(m.ones(2, 3), m.tensor([[True, False, True], [True, True, True]]))", "{t}.copy_({t} * 2)", "m.randn_like({t}).shape[0]",
                                  "m.nested.nested_tensor([[1, 2], [3]], layout=m.jagged)", "m.nested.nested_tensor([], layout=m.jagged)", "m.nested.nested_tensor([m.ones(2), m.ones(3)], dtype=m.float64, layout=m.jagged)"]).format(t=t, w=weight, **told))  # fmt: skip
        if p.leaves and r.random() < 0.7:
            s = p.add(
                r.choice(
                    [
                        "{o}.sum()",
                        "({o} * {o}).sum()",
                        "{o}.sin().sum()",
                        "{o}.values().sum()",
                        "{o}.to_padded_tensor(0.0).sum()",
                    ]
                ).format(o=out),
                "s",
            )
            p.gradients(s)
        if r.random() < 0.3:
            p.do(f"{t} = {out}")
            p.add(f"{t} if True else 0", "b")
            break
    return p.lines


def masked(r):
    p = Drawing(r)
    shape = r.choice([(3,), (2, 3), (3, 3), (2, 2, 3), ()])

    def mask():
        def one(s):
            return [one(s[1:]) for _ in range(s[0])] if s else r.random() < 0.6

        return f"m.tensor({one(shape)!r})"

    k = p.add(mask(), "k")
    x = p.dense(shape, None, r.choice(["float64", "float64", "float32", "int64"]))
    t = p.add(
        r.choice(
            [
                "m.masked.masked_tensor({x}, {k})",
                "m.masked.masked_tensor({x}, {k}, requires_grad=True)",
                "m.masked.as_masked_tensor({x}, {k})",
                "m.masked.MaskedTensor({x}, {k})",
            ]
        ).format(x=x, k=k),
        "t",
    )
    for _ in range(r.randint(2, 5)):
        what = r.choice(["unary", "binary", "reduce", "function", "shape", "parts", "place"])
        if what == "unary":
            out = p.add(r.choice(["{t}.sin()", "m.exp({t})", "-{t}", "{t}.abs()", "{t}.sqrt()", "{t}.log()", "m.tanh({t})", "{t}.relu()", "{t}.sigmoid()", "{t}.square()", "{t}.round()", "{t}.float()", "{t}.sgn()", "{t}.reciprocal()", "m.nan_to_num({t})", "{t}.isnan()", "{t}.clone()", "{t}.detach()", "{t}.logical_not()"]).format(t=t))  # fmt: skip
        elif what == "binary":
            other = r.choice(
                [
                    t,
                    t,
                    f"m.masked.masked_tensor({x} * 2, {k})",
                    x,
                    "2",
                    f"m.masked.masked_tensor({x}, {mask()})",
                ]
            )
            out = p.add(r.choice(["{t} + {o}", "{t} * {o}", "{t} - {o}", "{t} / {o}", "m.maximum({t}, {o})", "{t} == {o}", "{t} < {o}", "{t} ** 2", "m.add({t}, {o})", "{t}.mul({o})", "{o} + {t}", "m.atan2({t}, {o})", "m.where({k}, {t}, {o})", "{t} // {o}", "m.logical_and({t}, {o})"]).format(t=t, o=other, k=k))  # fmt: skip
        elif what == "reduce":
            d = r.choice(["", "0", "-1", "dim=0", "dim=0, keepdim=True", "(0,)", "dim=-1"])
            out = p.add(r.choice(["{t}.sum({d})", "{t}.mean({d})", "{t}.amax({d})", "{t}.amin({d})", "{t}.prod({d})", "{t}.argmax({d})", "{t}.all({d})", "m.sum({t}{e})", "{t}.var({d})", "{t}.std({d})", "{t}.max({d})", "{t}.norm()"]).format(t=t, d=d, e=", " + d if d else ""))  # fmt: skip
        elif what == "function":
            f = r.choice(
                [
                    "sum",
                    "mean",
                    "amax",
                    "amin",
                    "prod",
                    "argmax",
                    "argmin",
                    "norm",
                    "var",
                    "std",
                    "logsumexp",
                    "cumsum",
                    "cumprod",
                    "softmax",
                    "log_softmax",
                    "softmin",
                    "normalize",
                    "median",
                ]
            )
            d = r.choice(["0", "-1", "None", "dim=0", "(0,)", "[]"])
            if f in ("norm", "normalize"):
                d = r.choice(["2, ", "1, ", "float('inf'), ", "0.5, "]) + d
            out = p.add(
                f"m.masked.{f}({x}, {d}, mask={r.choice([k, k, k, 'None', mask()])}{r.choice(['', '', ', keepdim=True', ', dtype=m.float64'])})"
            )
        elif what == "shape":
            out = p.add(r.choice(["{t}[0]", "{t}.unsqueeze(0)", "{t}.reshape(-1)", "{t}.t()", "{t}.transpose(0, 1)", "{t}.expand(2, *{t}.shape)", "{t}.view(-1)", "{t}.flatten()", "m.stack([{t}, {t}])", "m.cat([{t}, {t}])", "{t}.select(0, 0)", "{t}.permute(0)", "{t}.unbind()", "{t}.split(1)", "{t}.squeeze()", "{t}[..., 0]", "{t}.contiguous()", "{t}.narrow(0, 0, 1)", "{t}.unfold(0, 1, 1)"]).format(t=t))  # fmt: skip
        elif what == "parts":
            p.add(r.choice(["{t}.get_data()", "{t}.get_mask()", "{t}.to_tensor(0)", "{t}.to_tensor(-1.5)", "m.masked.is_masked_tensor({t})", "m.masked.is_masked_tensor({x})", "{t}.shape", "{t}.dtype", "str({t})", "repr({t})", "{t}.requires_grad", "{t}.dim()", "{t}.numel()", "{t}.device", "len({t})", "{t}.layout", "{t}.is_leaf", "{t}.tolist()", "{t}.size(0)", "{t}.is_sparse()", "{t}.is_sparse", "{t}.stride()", "{t}.data"]).format(t=t, x=x))  # fmt: skip
            continue
        else:
            p.do(
                r.choice(
                    [
                        "{t}.add_({t})",
                        "{t}.mul_({t})",
                        "{t}.neg_()",
                        "{t}.exp_()",
                        "{t}.sin_()",
                        "{t}[0] = 1",
                        "{x}.mul_(2)",
                        "{t}.copy_({t})",
                        "{t}.zero_()",
                    ]
                ).format(t=t, x=x)
            )
            p.add(f"{t} if True else 0", "b")
            continue
        if r.random() < 0.5:
            s = p.add(
                r.choice(
                    [
                        "{o}.sum()",
                        "({o} * {o}).sum()",
                        "{o}.sum().to_tensor(0.0)",
                        "{o}.to_tensor(0.0).sum()",
                        "{o}.mean()",
                    ]
                ).format(o=out),
                "s",
            )
            p.do(f"{s}.backward(retain_graph=True)")
            p.add(f"{x}.grad", "g")
            p.add(f"{t}.grad", "g")
        if r.random() < 0.25:
            p.do(f"{t} = {out}")
            p.add(f"{t} if True else 0", "b")
            break
    return p.lines


DIGITS = "float32"
# Of what is made (the program has this), in which line, what differs, and why. docs/pytorch_differences.md and
# docs/sparse.md, nested.md list them.
SPARSE, NESTED, MASKED = r"sparse", r"nested", r"m\.masked"
ABSENT = r"refuses: NotSupportedError|error: (NotSupported|Attribute|Runtime|Shape|Type)Error"
MEANT = (
    (MASKED, r"^g\d+ = .*\.grad$", r"'masked'|masked: \[", "the gradient of a dense tensor is dense; what is masked is 0 in it"),
    (MASKED, r"\.get_data\(\)$", r"leaf", "the data is the tensor itself"),
    (MASKED, r"\.(zero_|unbind|max|tolist)\(|\.is_sparse\(\)", r"error: (Attribute|Type)Error", "what masked tensors do not have"),
    (MASKED, r"\[0\] = 1$", r"'MaskedTensor' object does not support item", "masked tensors are not written to by index"),
    (MASKED, r"\.permute\(0\)", r"error: ShapeError", "too few dimensions have the class of a wrong shape"),
    (MASKED, r"\.(mean|var|std)\(|masked\.(mean|softmax|log_softmax|softmin|var|std|norm|normalize)\(", r"error: DTypeError", "the class of what is refused for integers"),
    (MASKED, r"masked\.(logsumexp|mean|var|std|norm|median)\(", r"'float\d\d', not '(int64|float32)'|DTypeError", "fractions of integers are kept, and the dtype that is asked for"),
    (MASKED, r" < |\.copy_\(", r"different masks in (lt|copy_)", "masks that differ are refused"),
    (r"(softmax\(.*(1|dim=1)\))[^$]*", r"^g\d+ = |\.grad$", r"nested: |tensor: |tuple: ", "the slope of softmax along the ragged dimension has rows that add up to 0"),
    (r"to_sparse[^$]*sparse\.(log_)?softmax", r"^g\d+ = |\.grad$", r"tensor|sparse_coo", "and that of sparse softmax behind to_sparse"),
    (r"sparse|nested", r"\.(contiguous|clone|float|double)\(|\.to\(|m\.(clone|dropout)\(", r"leaf (True|False)', not", "what returns itself or a copy"),
    (SPARSE, r" \* |m\.mul\(|sspaddmm", r"sparse_coo: int64\[|float", "places that one of two factors has alone are not kept"),
    (SPARSE, r"sparse\.mm\(| @ |\.sum\(|m\.sum\(", r"sparse_c|int64\[", "the layout of a product of two layouts, and the order within a row"),
    (SPARSE, r" = ", r"sparse_coo: False, not True$", "that one element or none is in order is not noted"),
    (SPARSE, r"^b\d+", r"grad False, leaf True', not 'grad True", "zero_ of a sparse tensor is without history"),
    (r"", r"(str|repr)\(", r"", "words"),
    (SPARSE, r"\.grad$", r"'sparse_coo'", "the gradient of a dense tensor beside a sparse one is dense"),
    (SPARSE, r"\.t\(\)|\.transpose\(0, 1\)|\.m?T$|\.permute\(1, 0\)", r"csr', not 'sparse_csc", "the transpose of CSR is CSR"),
    (SPARSE, r"m\.(native_norm|dsmm|hspmm|sspaddmm|smm)\(|m\.sparse\.spdiags|\.(sparse_resize_|sparse_resize_and_clear_|resize_as_|new_zeros|fill_)\(", r"AttributeError|NotSupported|has no attribute", "rare"),
    (SPARSE, r"sparse\.(log_)?softmax\(", r"error: DTypeError", "the class of what is refused for integers"),
    (SPARSE, r"\[(:, 0|0, 0|0:1|0|-1)\]$|\.(narrow_copy|squeeze|flatten|reshape|diagonal|expand_as|select|unsqueeze|permute)\(|m\.(stack|cat)\(", ABSENT, "views of sparse tensors that are not here"),
    (SPARSE, r"\.(ccol_indices|crow_indices|col_indices|_?indices|_?values|_coalesced_|is_coalesced|coalesce|to_sparse_csr|to_sparse|sparse_mask)\(", ABSENT, "parts of another layout"),
    (SPARSE, r"\.(any|all|max|mean|norm|numpy|tolist|item|data_ptr|stride|index_select)\(|(bool|list|len)\(| == |\*\* 2|\.pow\(", ABSENT, "what sparse tensors do not have"),
    (SPARSE, r"m\.(einsum|dot|kron|bmm|where|trace|argmax|cumsum|nonzero|maximum|clamp|isfinite|count_nonzero|nan_to_num|dropout|norm|equal|allclose|linalg\.norm|nn\.functional\.\w+)\(", ABSENT, "functions of dense tensors"),
    (SPARSE, r"\.is_contiguous\(", r"True, not False", "values are contiguous"),
    (NESTED, r"to_padded_tensor\(", r"tensor: \d, not \d|\(", "as wide as the longest component"),
    (NESTED, r"\.squeeze\(\)|\.numpy\(|to_padded_tensor\(", r"error:", "the class of what is refused for nested tensors"),
    (NESTED, r"\.size\(1\) == ", r"refuses: RuntimeError", "the ragged dimension has no size"),
    (NESTED, r" @ .*transpose\(|\.narrow\(0|m\.cat\(", r"NotSupportedError pf\.nested", "ragged in two dimensions"),
    (r"nested\.narrow\(", r"^[gs]\d+ = |narrow", r"tensor: ", "narrow copies: what lies between its parts is not in sums"),
)  # fmt: skip


def meant(lines, i, text):
    """Differences that docs/pytorch_differences.md lists."""
    before = "\n".join(lines[: i + 1])
    return any(
        re.search(made, before) and re.search(line, lines[i]) and re.search(found, text)
        for made, line, found, _ in MEANT
    )
