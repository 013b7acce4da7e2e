"""The caching allocator, its statistics and settings, out of memory, pinned memory."""

import gc
import importlib
import json
import os
import subprocess
import sys
import textwrap

import pytest
from conftest import DEVICE
from hangs import HANG

import pyflame as pf

MIB = 1 << 20
ONE = os.environ.get("PYFLAME_TEST_DEVICE", "cpu").split(":")[0]
caches = pytest.mark.skipif(ONE == "paranoid", reason="the test backend does not cache")


def run(script, **environment):
    """Runs a script in a process of its own; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def _clean():
    gc.collect()  # tensors in the frames of tests that expect errors
    pf.synchronize()
    yield
    pf.memory.set_memory_limit(0, DEVICE)


# ---- statistics ---------------------------------------------------------------------------------


def test_allocated_bytes_of_a_tensor_are_exact():
    before = pf.memory.memory_allocated(DEVICE)
    x = pf.ones(1 << 20)
    assert pf.memory.memory_allocated(DEVICE) - before == 4 * MIB
    assert pf.memory.memory_reserved(DEVICE) >= pf.memory.memory_allocated(DEVICE)
    y = x[10:20]  # a view takes nothing
    assert pf.memory.memory_allocated(DEVICE) - before == 4 * MIB
    del x
    assert pf.memory.memory_allocated(DEVICE) - before == 4 * MIB
    del y
    assert pf.memory.memory_allocated(DEVICE) == before


def test_peaks_and_sums():
    pf.memory.reset_peak_memory_stats(DEVICE)
    pf.memory.reset_accumulated_memory_stats(DEVICE)
    before = pf.memory.memory_allocated(DEVICE)
    x = pf.ones(1 << 21)
    pf.synchronize()
    del x
    stats = pf.memory.memory_stats(DEVICE)
    assert stats["allocated_bytes.all.peak"] - before >= 8 * MIB
    assert stats["allocated_bytes.all.current"] == before
    assert pf.memory.max_memory_allocated(DEVICE) == stats["allocated_bytes.all.peak"]
    for pool in ("all", "small_pool", "large_pool"):
        for what in ("allocation", "allocated_bytes", "requested_bytes", "segment"):
            now, total, freed = (
                stats[f"{what}.{pool}.{f}"] for f in ("current", "allocated", "freed")
            )
            assert now == total - freed
    for what in ("allocation", "allocated_bytes", "reserved_bytes", "inactive_split_bytes"):
        assert stats[f"{what}.all.current"] == sum(
            stats[f"{what}.{pool}.current"] for pool in ("small_pool", "large_pool")
        )
    assert stats["requested_bytes.all.current"] <= stats["allocated_bytes.all.current"]
    pf.memory.reset_peak_memory_stats(DEVICE)
    assert pf.memory.max_memory_allocated(DEVICE) == before
    assert pf.memory.max_memory_reserved(DEVICE) == pf.memory.memory_reserved(DEVICE)


def test_a_result_that_is_read_takes_no_second_memory():
    def steps():
        for _ in range(5):
            x, z = pf.empty(1 << 16), pf.ones(1 << 16)
            z.sum().item()
            x.add_(z)  # x has memory only now, and z, which nobody reads any more, has some to give
            del z
            x.sum().item()
            z = pf.ones(256, 256)
            s = pf.softmax(z * 2, -1)
            z.copy_(s + z)
            del s, z
        pf.synchronize()
        return pf.memory.memory_allocated(DEVICE)

    first = steps()
    assert steps() == first


@caches
def test_freed_blocks_are_used_again():
    x = pf.ones(300_000)
    pf.synchronize()
    del x
    before = pf.memory.memory_stats(DEVICE)
    for _ in range(10):
        x = pf.ones(300_000)
        pf.synchronize()
        del x
    after = pf.memory.memory_stats(DEVICE)
    assert after["num_device_alloc"] == before["num_device_alloc"]
    assert after["cache_hits"] - before["cache_hits"] == 10


def test_empty_cache_keeps_live_tensors():
    keep = pf.arange(1 << 20)
    x = pf.ones(1 << 22)
    pf.synchronize()
    del x
    pf.memory.empty_cache(DEVICE)
    stats = pf.memory.memory_stats(DEVICE)
    # What is left beside live tensors lies in segments that they keep.
    assert (
        stats["reserved_bytes.all.current"]
        == stats["active_bytes.all.current"] + stats["inactive_split_bytes.all.current"]
    )
    assert keep[-1].item() == (1 << 20) - 1
    pf.get_memory_manager().clear_pool(DEVICE)
    assert pf.get_memory_manager() is pf.get_memory_manager()
    assert keep[12345].item() == 12345


def test_snapshot_adds_up_and_names_tensors():
    x = (pf.ones(300, 1000) * 3).exp()
    pf.synchronize()
    snapshot = pf.memory.memory_snapshot(DEVICE)
    json.dumps(snapshot)
    assert sum(s["allocated_size"] for s in snapshot) == pf.memory.memory_allocated(DEVICE)
    assert sum(s["total_size"] for s in snapshot) == pf.memory.memory_reserved(DEVICE)
    for segment in snapshot:
        assert segment["device"].split(":")[0] == ONE and segment["stream"] == 0
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at and block["requested_size"] <= block["size"]
            at += block["size"]
        assert at == segment["address"] + segment["total_size"]
    blocks = [b for s in snapshot for b in s["blocks"] if b.get("shape") == [300, 1000]]
    assert [b for b in blocks if b["operation"] == "exp" and b["dtype"] == "float32"]
    assert x.shape == (300, 1000)


def test_snapshot_is_written_as_json(tmp_path):
    x = pf.ones(100_000)
    pf.memory._dump_snapshot(tmp_path / "s.json", DEVICE)
    written = json.loads((tmp_path / "s.json").read_text())
    assert sum(s["allocated_size"] for s in written) >= 400_000
    del x


def test_summary_and_monitor():
    x = pf.ones(1 << 20)
    text = pf.memory.memory_summary(DEVICE)
    assert f"memory of {pf.device(DEVICE)}" in text and "reserved" in text
    assert len(pf.memory.memory_summary(DEVICE, abbreviated=True)) < len(text)
    seen = pf.memory.monitor_gpu_memory(DEVICE)
    free, total = pf.memory.mem_get_info(DEVICE)
    assert 0 < free <= total and seen["total_gb"] == total / 1e9
    assert seen["allocated_gb"] <= seen["reserved_gb"] <= seen["total_gb"]
    assert seen["utilization_percent"] == pytest.approx(
        pf.memory.memory_allocated(DEVICE) / total * 100
    )
    del x
    assert pf.memory.aggressive_memory_cleanup(DEVICE) >= 0
    assert pf.memory.max_memory_allocated(DEVICE) == pf.memory.memory_allocated(DEVICE)


def test_names_of_torch_cuda():
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "memory_stats"):
        assert getattr(pf.cuda, name)(DEVICE) is not None
    assert hasattr(pf.cuda, "memory") and pf.cuda.OutOfMemoryError is pf.OutOfMemoryError
    pf.cuda.reset_peak_memory_stats(DEVICE)
    pf.cuda.empty_cache()


@caches
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mixed_sizes_do_not_fragment(seed):
    """10 000 allocations and releases: what is reserved stays near the peak of live tensors."""
    script = f"""
        import random
        import pyflame as pf
        random.seed({seed})
        pf.set_device({DEVICE!r})
        live = []
        for i in range(10_000):
            if live and (len(live) > 150 or random.random() < 0.5):
                live.pop(random.randrange(len(live)))
            else:
                live.append(pf.empty(int(2 ** random.uniform(10, 24)), dtype=pf.uint8))
                live[-1].data_ptr()
        stats = pf.memory.memory_stats({DEVICE!r})
        print(stats["reserved_bytes.all.peak"] / stats["allocated_bytes.all.peak"])
    """
    assert float(run(script, PYFLAME_ALLOC_CONF="split:True")) < 1.3


@caches
def test_segments_that_became_too_small_are_exchanged():
    script = f"""
        import pyflame as pf
        pf.set_device({DEVICE!r})
        for size in range(10, 100, 2):
            pf.empty(size << 20, dtype=pf.uint8).data_ptr()
        print(pf.memory.memory_stats({DEVICE!r})["reserved_bytes.all.peak"] >> 20)
    """
    assert int(run(script, PYFLAME_ALLOC_CONF="split:True")) < 98 * 9 // 8 + 2


@caches
@pytest.mark.parametrize("seed", [0, 9])
def test_a_program_that_repeats_itself_asks_the_device_for_nothing(seed):
    script = f"""
        import random
        import pyflame as pf
        pf.set_device({DEVICE!r})
        def step():
            random.seed({seed})
            live = []
            for i in range(300):
                if live and (len(live) > 40 or random.random() < 0.5):
                    live.pop(random.randrange(len(live)))
                else:
                    live.append(pf.empty(int(2 ** random.uniform(16, 24)), dtype=pf.uint8))
                    live[-1].data_ptr()
            return pf.memory.memory_stats({DEVICE!r})["num_device_alloc"]
        print([step() for _ in range(12)])
    """
    counts = eval(run(script, PYFLAME_ALLOC_CONF="split:True"))
    assert counts[0] > 5 and counts[4] == counts[-1], counts


# ---- out of memory ------------------------------------------------------------------------------


def test_out_of_memory_says_what_is_there_and_leaves_all_usable():
    keep = (pf.ones(512, 1024) + 1).sqrt()
    pf.synchronize()
    pf.memory.empty_cache(DEVICE)
    ooms = pf.memory.memory_stats(DEVICE)["num_ooms"]
    pf.memory.set_memory_limit(pf.memory.memory_reserved(DEVICE) + 8 * MIB, DEVICE)
    with pytest.raises(pf.OutOfMemoryError) as error:
        x = pf.ones(64, 1 << 20)
        pf.synchronize()
    text = str(error.value)
    for part in (
        "asked for 256.0 MiB",
        "2.0 MiB from sqrt [512, 1024] float32",
        "limit of",
        DEVICE,
    ):
        assert part in text, text
    assert "smaller batch" in text and "reserved beside" in text
    assert isinstance(error.value, MemoryError)
    assert pf.memory.memory_stats(DEVICE)["num_ooms"] > ooms
    assert (keep * 2).sum().item() == pytest.approx(512 * 1024 * 2 * 2**0.5, rel=1e-4)
    pf.memory.set_memory_limit(0, DEVICE)
    x = pf.ones(64, 1 << 20)
    assert x[63, 5].item() == 1


@caches
def test_caches_are_released_before_memory_is_said_to_be_out():
    held = [pf.ones(1 << 20) for _ in range(8)]
    pf.synchronize()
    del held
    retries = pf.memory.memory_stats(DEVICE)["num_alloc_retries"]
    pf.memory.set_memory_limit(pf.memory.memory_reserved(DEVICE) + MIB, DEVICE)
    x = pf.ones(6 << 20)  # 24 MiB: only when the 4 MiB blocks go
    assert x[-1].item() == 1
    assert pf.memory.memory_stats(DEVICE)["num_alloc_retries"] >= retries


def test_a_failure_of_the_device_is_tried_once_more():
    x = pf.ones(1000)
    pf.synchronize()
    pf.memory.empty_cache(DEVICE)
    retries = pf.memory.memory_stats(DEVICE)["num_alloc_retries"]
    with pf.debug.fault("allocate", 1, "oom", DEVICE):
        y = pf.full((3_000_000,), 2.0)
        assert y[7].item() == 2
    if ONE == "paranoid":  # elsewhere a smaller segment will do
        assert pf.memory.memory_stats(DEVICE)["num_alloc_retries"] > retries
    assert x[1].item() == 1


def test_recovery_in_the_middle_of_training():
    """A batch too large fails; the next, smaller one trains on."""
    model = pf.nn.Linear(256, 256)
    optimizer = pf.optim.SGD(model.parameters(), lr=0.1)

    def step(rows):
        optimizer.zero_grad()
        loss = (model(pf.ones(rows, 256)) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    first = step(64)
    pf.memory.empty_cache(DEVICE)
    pf.memory.set_memory_limit(pf.memory.memory_reserved(DEVICE) + 16 * MIB, DEVICE)
    with pytest.raises(pf.OutOfMemoryError):
        step(1 << 16)
    assert step(64) < first
    assert step(128) < first


def test_fraction():
    with pytest.raises(pf.ValueError, match="above 0 and up to 1"):
        pf.cuda.set_per_process_memory_fraction(1.5, DEVICE)
    total = pf.memory.mem_get_info(DEVICE)[1]
    pf.memory.empty_cache(DEVICE)
    fraction = (pf.memory.memory_reserved(DEVICE) + 16 * MIB) / total
    pf.cuda.set_per_process_memory_fraction(fraction, DEVICE)
    assert pf.memory.get_per_process_memory_fraction(DEVICE) == pytest.approx(fraction, rel=1e-3)
    with pytest.raises(pf.OutOfMemoryError):
        x = pf.ones(32 << 20)
        pf.synchronize()
    pf.memory.set_memory_limit(0, DEVICE)
    x = pf.ones(32 << 20)
    assert x[0].item() == 1


# ---- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, part",
    [
        ("max_spilt_size_mb:64", "max_split_size_mb, garbage_collection_threshold"),
        ("max_split_size_mb:many", "a number of MiB"),
        ("garbage_collection_threshold:1.5", "above 0 and up to 1"),
        ("caching:perhaps", "True or False"),
    ],
)
def test_wrong_settings_name_what_is_expected(text, part):
    with pytest.raises(pf.ValueError, match=part):
        pf.memory._set_allocator_settings(text)


def test_settings_of_the_environment():
    script = """
        import pyflame as pf
        pf.set_device("paranoid")
        print(pf.memory.memory_stats()["limit"])
    """
    limit = run(script, PYFLAME_ALLOC_CONF="expandable_segments:True,memory_limit_mb:64")
    assert int(limit) == 64 * MIB
    script_error = """
        import pyflame as pf
        pf.set_device("paranoid")
        try:
            x = pf.ones(3) + 1
            pf.synchronize()
        except pf.ValueError as error:
            print(error)
    """
    assert "max_split_size_mb" in run(script_error, PYFLAME_ALLOC_CONF="max_split:3")
    # PyTorch's variable is read when ours is not there, and may have keys that are not ours.
    theirs = "roundup_power2_divisions:4,memory_fraction:0.25"
    half = int(run(script, PYFLAME_ALLOC_CONF="", PYTORCH_HIP_ALLOC_CONF=theirs))
    total = pf.memory.mem_get_info("paranoid")[1]
    assert half == total // 4
    assert (
        int(run(script, PYFLAME_ALLOC_CONF="memory_fraction:0.5", PYTORCH_HIP_ALLOC_CONF=theirs))
        == total // 2
    )


@pytest.mark.parametrize(
    "variable", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF"]
)
def test_keys_of_pytorch_that_nobody_has(variable):
    """A key that is misspelt is told, once and by the variable's name; PyTorch's own are passed over."""
    script = """
        import sys, warnings
        import pyflame as pf
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            pf.set_device("paranoid")
            pf.ones(3).sum().item()
            pf.ones(3, device="cpu").sum().item()
        print(len(said), *[str(w.message) for w in said])
    """
    none = {
        n: "" for n in ("PYFLAME_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
    }
    told = run(script, **none | {variable: "max_splt_size_mb:128,other:[1:2,3:4]"})
    assert told.startswith(
        f"1 pyflame: {variable}: the unknown key 'max_splt_size_mb' is ignored"
    ), told
    known = "roundup_power2_divisions:[256:1,512:2,>:4],backend:native,expandable_segments:True"
    assert run(script, **none | {variable: known}).strip() == "0"
    with pytest.raises(AssertionError, match=f"correct {variable}"):
        run(script, **none | {variable: "max_split_size_mb:1"})


@pytest.mark.parametrize(
    "settings, segments, inactive",
    [
        # 3 MiB out of the 4 MiB that were taken; whole blocks above the limit are not split.
        ("caching:True", 1, 1 * MIB),
        ("caching:True,split:False", 1, 0),
        ("caching:True,max_split_size_mb:2", 1, 0),
    ],
)
def test_splitting(settings, segments, inactive):
    script = """
        import pyflame as pf
        pf.set_device("paranoid")
        x = pf.empty(3 << 20, dtype=pf.uint8)
        x.data_ptr()
        stats = pf.memory.memory_stats()
        print(stats["segment.large_pool.current"], stats["inactive_split_bytes.all.current"])
    """
    got = [int(n) for n in run(script, PYFLAME_ALLOC_CONF=settings).split()]
    assert got == [segments, inactive]


def test_neighbours_are_joined_and_garbage_goes():
    script = """
        import pyflame as pf
        pf.set_device("paranoid")
        make = lambda mib: (t := pf.empty(mib << 20, dtype=pf.uint8), t.data_ptr())[0]
        pf.warmup_memory_pool(sizes=[20 << 20])
        four = [make(4) for _ in range(5)]           # all of one segment of 20 MiB
        at = [t.data_ptr() for t in four]
        assert at == sorted(at) and at[4] - at[0] == 16 << 20
        del four[1:4]
        x = make(9)                                  # of the 12 MiB between the others
        assert x.data_ptr() == at[1]
        del x, four
        stats = pf.memory.memory_stats()
        assert stats["segment.all.current"] == 1, stats
        assert stats["inactive_split_bytes.all.current"] == 0
        small = [pf.empty(100 << 10, dtype=pf.uint8) for _ in range(2)]
        at = [t.data_ptr() for t in small]
        assert pf.memory.memory_stats()["segment.small_pool.current"] == 1
        pf.memory._set_allocator_settings("garbage_collection_threshold:0.5")
        pf.memory.set_memory_limit(64 << 20)
        y = make(30)                                 # 32 of 64 with what is unused: it goes
        assert pf.memory.memory_stats()["segment.large_pool.current"] == 1
        pf.memory.empty_cache()
        print("ok")
    """
    assert run(script, PYFLAME_ALLOC_CONF="caching:True").strip() == "ok"


# ---- warm-up ------------------------------------------------------------------------------------


def test_warmup_of_the_memory_pool():
    with pytest.raises(pf.ValueError, match="small"):
        pf.warmup_memory_pool(model_size="huge")
    with pytest.raises(pf.ValueError, match="batch_size"):
        pf.warmup_memory_pool(batch_size=0)
    if ONE == "cpu":
        assert pf.warmup_memory_pool(batch_size=32, model_size="medium") == 0
    script = """
        import pyflame as pf
        pf.set_device("paranoid")
        grown = pf.warmup_memory_pool(batch_size=8, model_size="medium")
        assert grown >= 16 * 8 * (1 << 14) * 4, grown
        assert pf.memory.memory_allocated() == 0
        before = pf.memory.memory_stats()
        xs = [pf.ones(8, 1 << 14) for _ in range(16)]
        pf.synchronize()
        after = pf.memory.memory_stats()
        assert after["num_device_alloc"] == before["num_device_alloc"]
        assert after["cache_hits"] - before["cache_hits"] == 16
        assert pf.warmup_memory_pool(sizes=[100 << 20]) == 100 << 20
        print("ok")
    """
    assert run(script, PYFLAME_ALLOC_CONF="caching:True").strip() == "ok"


# ---- pinned memory ------------------------------------------------------------------------------


def test_pinned_tensors():
    x = pf.arange(1000, device="cpu")
    assert not x.is_pinned()
    p = x.pin_memory(DEVICE)
    if ONE == "cpu":
        assert p is x
        return
    assert p.is_pinned() and p.device == pf.device("cpu") and p.tolist() == x.tolist()
    assert p[3:].is_pinned() and p.pin_memory(DEVICE) is p and not (p + 1).is_pinned()
    assert x.view(10, 100).t().pin_memory().tolist() == x.view(10, 100).t().tolist()
    assert pf.tensor([1.0, 2.0], device="cpu", pin_memory=True).is_pinned()
    assert pf.zeros(3, 4, device="cpu", pin_memory=True).is_pinned()
    p.add_(1)
    assert p[0].item() == 1
    with pytest.raises(pf.DeviceError, match="only memory of the host"):
        pf.ones(3).pin_memory()
    for blocking in (True, False):
        y = p.to(DEVICE, non_blocking=not blocking)
        assert y.device == pf.device(DEVICE) and (y * 1).tolist() == p.tolist()
    big = pf.arange(1 << 19, device="cpu").pin_memory()
    assert big.to(DEVICE).sum().item() == sum(range(1 << 19))
    assert big.cpu() is big and pf.empty(0, device="cpu").pin_memory().shape == (0,)
    back = pf.empty(1000, dtype=pf.int64, device="cpu", pin_memory=True)
    back.copy_(y, non_blocking=True)
    pf.synchronize()
    assert back.tolist() == p.tolist()


def test_pinned_pool():
    pool = pf.get_pinned_pool()
    assert pool is pf.get_pinned_pool() and pool is pf.memory.get_pinned_pool()
    assert pool is importlib.import_module("pyflame.backend.rocm").get_pinned_pool()
    with pytest.raises(pf.ValueError, match="above 0"):
        pool.warmup([0])
    pool.clear()
    pool.warmup([1 << 16, 3 * MIB])
    before = pool.stats()
    x, y = pool.acquire(1 << 16), pool.acquire(3 * MIB)
    assert x.shape == (1 << 16,) and x.dtype == pf.uint8
    if ONE == "cpu":
        assert before == {"allocated": 0, "reserved": 0, "acquired": 0, "hits": 0}
        return
    after = pool.stats()
    assert after["hits"] - before["hits"] == 2 and after["reserved"] == before["reserved"]
    assert after["allocated"] - before["allocated"] == (1 << 16) + 3 * MIB
    del x
    pool.clear()
    assert pool.stats()["reserved"] == pool.stats()["allocated"] == 3 * MIB
    assert y.is_pinned()


def test_batches_of_loaders_are_pinned():
    from pyflame.utils.data import DataLoader, TensorDataset

    data = TensorDataset(pf.arange(20, device="cpu").view(10, 2), pf.arange(10, device="cpu"))
    plain, pinned = DataLoader(data, 4), DataLoader(data, 4, pin_memory=True)
    for (x, y), (px, py) in zip(plain, pinned, strict=True):
        assert px.is_pinned() == py.is_pinned() == (ONE != "cpu")
        assert px.tolist() == x.tolist() and py.tolist() == y.tolist()
        assert px.to(DEVICE, non_blocking=True).tolist() == x.tolist()


def test_a_pinned_block_waits_for_its_copy():
    """Freed while a copy still reads it, it is not handed out again."""
    script = """
        import pyflame as pf
        pf.set_device("paranoid")
        pool = pf.get_pinned_pool()
        slow = pf.cuda.Stream()
        for i in range(40):
            p = pf.full((5000,), i, dtype=pf.int64, device="cpu").pin_memory()
            with pf.cuda.stream(slow):
                busy = pf.ones(100)
                for _ in range(10):
                    busy = busy.cumsum(0) * 0.5
                pf.flush()
                x = p.to("paranoid", non_blocking=True)
            del p
            q = pf.full((5000,), -1, dtype=pf.int64, device="cpu").pin_memory()
            slow.synchronize()
            assert x.tolist() == [i] * 5000, i
        assert pool.stats()["hits"] > 20
        print("ok")
    """
    assert run(script, PYFLAME_PARANOID_DELAY_US="4000").strip() == "ok"


# ---- no copies that nobody asked for --------------------------------------------------------------


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW"])
def test_training_steps_copy_nothing_to_the_host(optimizer):
    if DEVICE == "cpu":
        pytest.skip("nothing is copied on the CPU")
    pf.manual_seed(1)
    nn = pf.nn
    model = nn.Sequential(
        nn.Embedding(50, 16), nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(0.1),
        nn.Linear(32, 50),
    )  # fmt: skip
    step = getattr(pf.optim, optimizer)(model.parameters(), lr=1e-3)
    tokens = pf.randint(0, 50, (8, 12))
    targets = pf.randint(0, 50, (8 * 12,))

    def train():
        step.zero_grad()
        loss = nn.functional.cross_entropy(model(tokens).view(-1, 50), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        step.step()
        return loss

    train()
    pf.synchronize()
    pf.debug.reset_stats()
    for _ in range(100):
        loss = train()
    pf.flush()
    assert pf.debug.stats()["copies_to_host"] == 0
    loss.item()
    assert pf.debug.stats()["copies_to_host"] == 1


# ---- pools that somebody made -------------------------------------------------------------------


def test_a_pool_shares_its_memory_with_nothing_else():
    on = pf.get_device()
    pool = pf.memory.MemPool(device=on)
    freed = pf.randn(1 << 20, device=on)  # there would be room for what comes
    place = freed.data_ptr()
    del freed
    with pf.memory.use_mem_pool(pool):
        inside = [pf.randn(n, device=on) for n in (3, 1 << 20)]
        recorded = pf.ones(1 << 18, device=on) + 1  # what has not run runs before the pool is left
    outside = pf.randn(1 << 20, device=on)
    stats = pool.stats()
    assert stats["allocations"] >= 3 and stats["allocated_bytes"] >= 5 << 20
    if ONE != "paranoid":
        assert place not in [t.data_ptr() for t in inside]
    mine = [(s["address"], s["address"] + s["total_size"]) for s in pool.snapshot()]

    def within(t):
        return any(a <= t.data_ptr() < b for a, b in mine)

    assert all(map(within, [*inside, recorded])) and not within(outside)
    assert recorded.sum().item() == 2 << 18
    del inside
    if ONE != "paranoid":  # which keeps nothing: the C library may give the same memory again
        assert not within(pf.randn(1 << 20, device=on))
        with pf.memory.use_mem_pool(pool):
            again = pf.randn(1 << 20, device=on)
        assert within(again)


def test_a_pool_that_goes_gives_its_memory_back():
    on = pf.get_device()
    pf.memory.empty_cache(on)
    before = pf.memory.memory_reserved(on)
    pool = pf.memory.MemPool(device=on)
    pf.memory.set_allocator(pool)
    try:
        assert pf.memory.get_allocator(on) is pool
        kept, gone = pf.full((1 << 20,), 3.0, device=on), pf.randn(1 << 21, device=on)
        pf.synchronize()
        del gone
    finally:
        pf.memory.set_allocator(None)
    assert pf.memory.get_allocator(on) is None
    del pool
    assert before < pf.memory.memory_reserved(on) <= before + (8 << 20)
    assert (kept == 3).all()
    with_it = pf.memory.memory_reserved(on)
    del kept
    pf.synchronize()
    assert pf.memory.memory_reserved(on) <= with_it - (4 << 20)


def test_nested_pools_and_what_is_none():
    on = pf.get_device()
    a, b = pf.memory.MemPool(device=on), pf.memory.MemPool(device=on)
    assert a.id != b.id and a.id[0] == 0
    with pf.memory.use_mem_pool(a):
        with pf.memory.use_mem_pool(b):
            pf.ones(8, device=on).sum().item()
        assert pf.memory.get_allocator(on) is a
        n = a.stats()["allocations"]
        pf.ones(8, device=on).sum().item()
        assert a.stats()["allocations"] > n
    assert b.stats()["allocations"] > 0 and pf.memory.get_allocator(on) is None
    with pytest.raises(TypeError, match="MemPool"):
        pf.memory.use_mem_pool(3)
    with pytest.raises(NotImplementedError, match="no_split"):
        pf.memory.MemPool(no_split=True)
    with pytest.raises(pf.ValueError, match="not there"):
        pf._C._use_memory_pool(on, 1 << 40)


def test_memory_runs_out_in_a_pool():
    on = pf.get_device()
    pool = pf.memory.MemPool(device=on)
    pf.memory.empty_cache(on)
    pf.memory.set_memory_limit(pf.memory.memory_reserved(on) + (16 << 20), on)
    try:
        with pf.memory.use_mem_pool(pool):
            half = pf.full((3 << 20,), 1.0, device=on)
            pf.synchronize()
            with pytest.raises(pf.OutOfMemoryError):
                pf.randn(3 << 20, device=on).data_ptr()
            assert half.sum().item() == 3 << 20
    finally:
        pf.memory.set_memory_limit(0, on)


@pytest.mark.skipif(DEVICE != "cpu", reason="pages of the process")
def test_empty_cache_gives_back_pages_between_tensors():
    def resident():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    size = 8 << 20
    tensors = [pf.full((size // 4,), float(i)) for i in range(9)]
    pf.synchronize()
    before = resident()
    for i in range(1, 9, 2):
        tensors[i] = None
    pf.memory.empty_cache("cpu")
    assert before - resident() >= 4 * size * 3 // 4
    for i in range(0, 9, 2):
        assert (tensors[i] == i).all()
    assert (pf.full((size // 4,), 7.0) == 7).all()  # one of those
