"""pyflame.distributed and pyflame.multiprocessing by these names, and what they say of what is not there."""

import importlib

import pytest

import pyflame as pf
import pyflame.distributed as dist


def work(i, row):
    row[i] = i + 1.0


def test_a_group_of_one():
    with pytest.raises(
        ValueError, match=r"pyflame.distributed.get_rank: there is no process group"
    ):
        dist.get_rank()
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        assert pf.distributed is dist and dist.is_available() and dist.get_world_size() == 1
        t = pf.ones(2)
        dist.all_reduce(t, op=dist.ReduceOp.SUM)
        assert t.tolist() == [1.0, 1.0]
        net = pf.nn.parallel.DistributedDataParallel(pf.nn.Linear(2, 1))
        assert net(t).shape == (1,)
    finally:
        dist.destroy_process_group()


def test_what_is_not_there_says_what_to_do():
    from pyflame.distributed.elastic.multiprocessing.errors import record
    from pyflame.distributed.fsdp import FullyShardedDataParallel

    assert record(len) is len or callable(record(len))
    with pytest.raises(pf.NotSupportedError, match="pyflame.distributed.fsdp.*run one process"):
        FullyShardedDataParallel(pf.nn.Linear(1, 1))
    with pytest.raises(pf.NotSupportedError, match="pyflame.distributed.isend: .*run one process"):
        dist.isend(pf.ones(1), 1)
    with pytest.raises(
        AttributeError, match="pyflame.distributed.nowhere is not in PyFlame; .*run one"
    ):
        dist.nowhere  # noqa: B018
    for text in ("from pyflame.distributed import nowhere", "import pyflame.distributed.nowhere"):
        with pytest.raises(
            ImportError, match="pyflame.distributed.nowhere is not in PyFlame; .*run one"
        ):
            exec(text)
    with pytest.raises(AttributeError, match="pf.multiprocessing.nowhere: there is no such name"):
        pf.multiprocessing.nowhere  # noqa: B018


def test_processes_share_a_tensor():
    mp = importlib.import_module("pyflame.multiprocessing")
    from pyflame.multiprocessing import Queue, cpu_count, spawn

    assert cpu_count() >= 1 and Queue is not None
    row = pf.zeros(2, device="cpu").share_memory_()
    spawn(work, (row,), nprocs=2)
    assert (
        row.tolist() == [1.0, 2.0] and mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    )
