"""Training programs whose hooks do what no hook should, for hostile.py: each place where the library
calls Python (hooks of tensors, nodes, modules, optimizers and saved tensors, custom functions,
captured and checkpointed ones, finalizers) runs passes over the graph that is being walked, takes
memory, layers and parameters away, changes modes, returns what nobody expects, or raises.
"""

import contextlib
import copy
import gc
import random
import threading
import weakref

import pyflame as pf

N = 4
EXPECTED = (pf.PyFlameError, RuntimeError, TypeError, IndexError, AttributeError)
RAISED = (ValueError, KeyboardInterrupt, SystemExit, MemoryError, RecursionError, StopIteration)
DEPTH = 3  # of hooks within hooks


class _Last:
    """Does something when it goes away."""

    def __init__(self, act):
        self.act, self.itself = act, self

    def __del__(self):
        self.act()


class _Program:
    def __init__(self, rng, told):
        self.rng, self.told, self.depth, self.done = rng, told, 0, []
        self.live = [pf.randn(N, N, requires_grad=True) for _ in range(3)]
        middle = rng.choice(
            [pf.nn.ReLU, pf.nn.GELU, lambda: pf.nn.Dropout(0.5), lambda: pf.nn.LayerNorm(N),
             lambda: pf.nn.BatchNorm1d(N)]
        )  # fmt: skip
        self.module = pf.nn.Sequential(pf.nn.Linear(N, N), middle(), pf.nn.Linear(N, N))
        weights = [*self.module.parameters(), *self.live]
        rule = rng.choice([pf.optim.SGD, pf.optim.AdamW, pf.optim.LBFGS])
        self.optimizer = rule(weights, lr=0.1)
        self.losses = []
        self.captured = pf.compile(self._region)
        program = self

        class Product(pf.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.save_for_backward(x, y)
                program.act(x, y)
                return x * y

            @staticmethod
            def backward(ctx, g):
                other = program.act(g)
                x, y = ctx.saved_tensors
                program.act(g, x, y)
                return rng.choice([(g * y, g * x), (g, None), other, (other, other), (g,)])

        self.product = Product.apply

    def _region(self, x):
        if self.rng.random() < 0.1:
            self.act(x)
        return pf.tanh(self.module(x) * self.live[0]) + x

    # ---- what hooks do ----------------------------------------------------------------------------

    def act(self, *given):
        if self.depth >= DEPTH or not self.live:
            return None
        self.depth += 1
        try:
            tensors = [t for t in given if isinstance(t, pf.Tensor)] or self.live
            name = self.rng.choice(ACTS)
            self.done.append(name)
            self.told(" ".join(self.done[-60:]))
            return getattr(self, "do_" + name)(self.rng.choice(self.live), self.rng.choice(tensors))
        except EXPECTED:
            return None
        except RAISED:
            if self.rng.random() < 0.6:
                raise
            return None
        finally:
            self.depth -= 1

    def _when_it_ends(self, t):
        act = weakref.WeakMethod(self.act)  # the program has what it waits for
        weakref.finalize(t, lambda: (now := act()) and now()).atexit = False

    def _loss(self, t):
        return self.rng.choice(self.losses or [t.sum()])

    def do_pass(self, t, g):
        self._loss(t).backward(retain_graph=self.rng.random() < 0.3)

    def do_pass_of_a_thread(self, t, g):
        def run():
            with contextlib.suppress(*EXPECTED, *RAISED):
                self._loss(t).backward()

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    def do_gradient(self, t, g):
        pf.autograd.grad(self._loss(t), [t, g], allow_unused=True, create_graph=True)

    def do_other_data(self, t, g):
        self.rng.choice([t, g]).data = pf.randn(self.rng.choice([(1,), (N, N), (0,), (9, 9)]))

    def do_resize(self, t, g):
        self.rng.choice([t.detach(), g]).resize_(self.rng.choice([0, 100]))

    def do_set(self, t, g):
        t.set_(pf.randn(2, 2))

    def do_write(self, t, g):
        self.rng.choice([g, t.data]).add_(1)

    def do_forget(self, t, g):
        self.live[:] = [pf.randn(N, N, requires_grad=True)]
        self.losses.clear()
        gc.collect()

    def do_raise(self, t, g):
        raise self.rng.choice(RAISED)

    def do_zero(self, t, g):
        self.rng.choice([self.module, self.optimizer]).zero_grad()

    def do_step(self, t, g):
        self.optimizer.step(lambda: t.sum())

    def do_grad(self, t, g):
        t.grad = g

    def do_detach(self, t, g):
        t.detach_()

    def do_require(self, t, g):
        t.requires_grad_(not t.requires_grad)

    def do_forward(self, t, g):
        self.losses.append(self.module(t).sum())

    def do_remove_layer(self, t, g):
        del self.module[self.rng.randrange(len(self.module))]

    def do_convert(self, t, g):
        self.module.to(self.rng.choice([pf.float64, pf.float32]))

    def do_hook(self, t, g):
        t.register_hook(self.act)

    def do_return(self, t, g):
        other = pf.randn(N, N, dtype=self.rng.choice([pf.float64, pf.complex64]))
        return self.rng.choice([None, pf.randn(3), other, (None,), (other,), g, g * 2])

    def do_copy(self, t, g):
        copy.deepcopy(self.module)

    def do_modes(self, t, g):
        pf.set_grad_enabled(self.rng.random() < 0.5)

    def do_cycle(self, t, g):
        _Last(self.act)
        gc.collect()

    def do_at_its_end(self, t, g):
        self._when_it_ends(g)

    def do_checkpoint(self, t, g):
        pf.utils.checkpoint.checkpoint(self.module, t, use_reentrant=False).sum().backward()

    def do_vmap(self, t, g):
        pf.vmap(lambda x: x * t)(g)

    def do_clear_state(self, t, g):
        self.rng.choice([self.optimizer.state, self.optimizer.param_groups[0]["params"]]).clear()

    def do_load(self, t, g):
        self.module.load_state_dict(self.module.state_dict(), assign=self.rng.random() < 0.5)

    # ---- where they are called ---------------------------------------------------------------------

    def hook(self):
        chance = self.rng.random
        self.module.register_forward_hook(lambda m, i, o: self.act(o) and None)
        if chance() < 0.5:
            self.module.register_full_backward_hook(lambda m, i, o: self.act(*i))
        if chance() < 0.4:
            self.optimizer.register_step_pre_hook(lambda *_: self.act() and None)
        for leaf in self.live:
            if chance() < 0.4:
                leaf.register_hook(self.act)
            if chance() < 0.4:
                leaf.register_post_accumulate_grad_hook(self.act)

    def _tell(self, t):
        self.act(t)
        return t

    def _kept(self, x, y):
        with pf.autograd.graph.saved_tensors_hooks(self._tell, self._tell):
            return self.rng.choice(
                [lambda: pf.tanh(x) * y, lambda: pf.nn.functional.linear(x, y)]
            )()

    def _kept_by_copies(self, x, y):
        def pack(t):
            kept = t.clone()
            self._when_it_ends(kept)
            return kept

        with pf.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            return pf.sin(x) * y

    def _listened(self, x, y):
        x = x * y
        if x.grad_fn is not None:
            x.grad_fn.register_prehook(self.act)
            x.grad_fn.register_hook(self.act)
            x.register_hook(self.act)
        return x

    def _again(self, x, y):
        return pf.utils.checkpoint.checkpoint(
            lambda z: pf.sin(self._tell(z)) * y, x, use_reentrant=self.rng.random() < 0.3
        )

    def run(self):
        forms = [
            self.product, self._kept, self._kept_by_copies, self._listened, self._again,
            lambda x, y: self.module(x), lambda x, y: self.captured(x), lambda x, y: x.clone().mul_(y),
            lambda x, y: pf.vmap(lambda z: self._tell(z).exp())(x), lambda x, y: pf.cat([x, y])[:N],
            lambda x, y: pf.func.vjp(lambda z: self._tell(z) * z, x)[1](pf.ones(N, N))[0],
        ]  # fmt: skip
        self.hook()
        for _ in range(self.rng.choice([1, 3, 6])):
            with contextlib.suppress(*EXPECTED, *RAISED), pf.enable_grad():
                x = self.rng.choice(self.live)
                for _ in range(self.rng.randrange(1, 5)):
                    x = self.rng.choice(forms)(x, self.rng.choice(self.live))
                self.losses.append(x.sum())
                if self.rng.random() < 0.6:
                    self.losses[-1].backward(create_graph=self.rng.random() < 0.2)
                if self.rng.random() < 0.6:
                    self.optimizer.step(lambda: self.rng.choice(self.live).sum())

    def end(self):
        """A leaf's hook that leads to what was computed from the leaf is a cycle nobody collects."""
        self.live.clear()
        self.losses.clear()
        self.module = self.optimizer = self.captured = None


ACTS = sorted(n[3:] for n in dir(_Program) if n.startswith("do_"))


def hooks(rng, call, number):
    def told(text):
        call.log(number, text)

    def run():
        program = _Program(random.Random(rng.random()), told)
        try:
            program.run()
        finally:
            pf.set_grad_enabled(True)
            program.end()

    call(rng, "program with hooks", run, [], {})
