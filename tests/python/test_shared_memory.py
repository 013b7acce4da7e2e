"""Tensors that processes share: share_memory_()."""

import gc
import multiprocessing

import pytest
from hangs import HANG

import pyflame as pf
from pyflame import _shared

pytestmark = pytest.mark.cpu_only


class Net(pf.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = pf.nn.Linear(3, 2)
        self.tied = self.linear.weight
        self.register_buffer("seen", pf.zeros(2, dtype=pf.int64))


def change(net, plain, queue):
    net.linear.weight.data.fill_(7)
    optimizer = pf.optim.SGD(net.parameters(), lr=1.0)
    net.linear(pf.ones(1, 3)).sum().backward()
    optimizer.step()  # weights and bias become smaller by one
    net.seen[1] = 5
    plain.fill_(3)
    assert net.tied is net.linear.weight and net.seen.is_shared() and not plain.is_shared()
    part = queue.get()
    part += 1
    queue.task_done()


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_what_a_process_writes_others_see(method):
    context = multiprocessing.get_context(method)
    net, plain, queue = Net(), pf.zeros(2), context.JoinableQueue()
    bias = net.linear.bias.tolist()
    assert net.share_memory() is net and all(p.is_shared() for p in net.parameters())
    rows = pf.zeros(3, 2).share_memory_()
    queue.put(rows[1:])
    process = context.Process(target=change, args=(net, plain, queue))
    process.start()
    process.join(HANG)
    assert process.exitcode == 0
    assert net.linear.weight.tolist() == [[6, 6, 6]] * 2
    assert net.linear.bias.tolist() == pytest.approx([b - 1 for b in bias])
    assert net.seen.tolist() == [0, 5] and plain.tolist() == [0, 0]
    assert rows.tolist() == [[0, 0], [1, 1], [1, 1]]


def test_sharing_keeps_the_tensor():
    x = pf.arange(6.0).reshape(2, 3).T.requires_grad_()
    y = x.share_memory_()
    assert y is x and x.is_shared() and x.requires_grad and x.is_leaf
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]]
    (x * 2).sum().backward()
    assert x.grad.tolist() == [[2, 2]] * 3 and not x.grad.is_shared()
    assert x.share_memory_().data_ptr() == x.data_ptr()
    assert x[1:].is_shared() and not x.clone().is_shared() and not pf.ones(1).is_shared()
    p = pf.nn.Parameter(pf.ones(2)).share_memory_()
    assert type(p) is pf.nn.Parameter and p.requires_grad
    assert pf.zeros(0).share_memory_().shape == (0,) and pf.tensor(2).share_memory_().item() == 2
    sparse = pf.eye(3).to_sparse()
    assert not sparse.is_shared() and not sparse.to_sparse_csr().is_shared()
    with pytest.raises(pf.NotSupportedError, match="sparse"):
        sparse.share_memory_()
    with pytest.raises(pf.NotSupportedError, match="whole bytes"):
        pf.zeros(4).to(pf.int4).share_memory_()


def test_memory_and_descriptors_go():
    before = len(_shared._memories)
    tensors = [pf.ones(1000).share_memory_() for _ in range(20)]
    views = [t[5:] for t in tensors]
    assert len(_shared._memories) == before + 20
    del tensors
    gc.collect()
    assert len(_shared._memories) == before + 20 and views[3].sum().item() == 995
    del views
    gc.collect()
    assert len(_shared._memories) == before == len(_shared._files)
