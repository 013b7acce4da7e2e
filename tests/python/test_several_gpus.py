"""Several GPUs in one process, and floating tensors among them, on the stand-in for AMD's runtime."""

import pytest
from standin import CUDA
from test_gpu_plugin import cache, pytestmark, run  # noqa: F401 (fixtures)

TWO = {"PYFLAME_STANDIN_DEVICES": 2}


def test_values_go_from_one_to_the_other(run):  # noqa: F811
    run(
        """
        a = np.random.default_rng(0).standard_normal((33, 7)).astype("float32")
        x = pf.tensor(a, device="gpu:0")
        y = (x * 2).t()
        before = pf.debug.stats()
        z = y.to("gpu:1")
        w = (z + 1).to("gpu:0")
        v = x.to("gpu:1", dtype=pf.float64)
        after = pf.debug.stats()
        for way in ("copies_to_host", "copies_from_host", "moved"):
            assert after[way] == before[way], way
        assert str(z.device) == "rocm:1" and str(w.device) == "rocm:0"
        assert np.array_equal(z.cpu().numpy(), a.T * 2)
        assert np.array_equal(w.cpu().numpy(), a.T * 2 + 1)
        assert np.array_equal(v.cpu().numpy(), a.astype("float64"))
        raises(pf.DeviceError, "one device", lambda: x + z.t())
        raises(pf.DeviceError, "rocm:1", lambda: x @ z)
        big = pf.arange(1 << 20, device="gpu:0").float()
        for _ in range(20):  # what was sent before is there, what is written later is not
            there = (big * 1).to("gpu:1")
            big.add_(1)
        assert (there - pf.arange(1 << 20, device="gpu:1")).cpu().numpy().tolist() == [19] * (1 << 20)
        """,
        **TWO,
    )


def test_a_model_on_two(run):  # noqa: F811
    run(
        """
        from pyflame import nn
        F = nn.functional

        def train(first, second, here, there):
            pf.manual_seed(0)
            a, b = nn.Linear(6, 8), nn.Linear(8, 4)
            a.to(first), b.to(second)
            optimizer = pf.optim.AdamW([*a.parameters(), *b.parameters()], lr=0.05)
            x = pf.tensor(np.linspace(-1, 1, 30, dtype="float32").reshape(5, 6)).to(first)
            y = pf.tensor([0, 1, 2, 3, 0]).to(second)
            losses = []
            for _ in range(4):
                optimizer.zero_grad()
                loss = F.cross_entropy(b(F.gelu(a(x)).to(second)), y)
                loss.backward()
                nn.utils.clip_grad_norm_(a.parameters(), 1.0)
                optimizer.step()
                losses.append(loss.item())
            assert {str(p.grad.device) for p in a.parameters()} == {here}
            assert {str(p.grad.device) for p in b.parameters()} == {there}
            return losses

        expected = train("cpu", "cpu", "cpu", "cpu")
        assert np.allclose(train("gpu:0", "gpu:1", "rocm:0", "rocm:1"), expected, rtol=1e-4)
        assert np.allclose(train("cpu", "gpu:1", "cpu", "rocm:1"), expected, rtol=1e-4)
        """,
        **TWO,
    )


def test_each_thread_its_own_gpu(run):  # noqa: F811
    run(
        """
        import threading
        w = pf.arange(12.0).reshape(3, 4)  # floats: each thread takes it to its device
        results = {}
        start = threading.Barrier(2)

        def work(i):
            pf.set_device(f"gpu:{i}")
            x = pf.ones(2, 3) * (i + 1)
            start.wait()
            for _ in range(10):
                y = (x @ w).relu().sum(0)
            results[i] = str(y.device), y.tolist()

        threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert results == {
            i: (f"rocm:{i}", [2.0 * (i + 1) * s for s in (12, 15, 18, 21)]) for i in range(2)
        }, results
        assert w.device == "cpu" and pf.get_device() == "cpu"
        assert pf.debug.memory_stats("gpu:0")["allocated"] > 0 < pf.debug.memory_stats("gpu:1")["allocated"]
        """,
        **TWO,
    )


def test_floating_tensors_follow(run):  # noqa: F811
    run(
        """
        w = pf.ones(3, requires_grad=True)
        for name in ("gpu:0", "gpu:1", "cpu"):
            with pf.device(name):
                loss = (w * pf.arange(3.0)).sum()
                assert loss.device == name
            loss.backward()
        assert w.grad.device == "cpu" and w.grad.tolist() == [0, 3, 6]
        pf.set_strict(True)
        pf.set_device("gpu:1")
        w * 3  # its copy is there
        w.data.add_(1)
        raises(pf.DeviceError, "strict", lambda: w * 3)
        """,
        **TWO,
    )


@pytest.mark.parametrize("names", ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
def test_what_info_says(run, names):  # noqa: F811
    out = run(
        """
        from pyflame.cli import main
        assert main(["info"]) == 0
        """,
        PYFLAME_STANDIN_DEVICES=4,
        **{names: "0,1"},
    )
    assert "backend rocm: loaded" in out and "device rocm:1: " in out and "rocm:2" not in out
    assert "gfx942, 8.0 GiB" in out
    (cuda,) = (line for line in out.splitlines() if line.startswith("backend cuda: "))
    assert ("/none" if CUDA.exists() else "there is no plug-in libpyflame_cuda.so") in cuda


def test_streams_do_not_share_copies(run):  # noqa: F811
    run(
        """
        w = pf.arange(1 << 16).float()
        pf.set_device("gpu:0")
        side = pf.cuda.Stream()
        count = lambda: pf.debug.stats()["moved"]
        before = count()
        a = w + 1
        with pf.cuda.stream(side):
            b, c = w * 2, w - 1  # nothing orders this stream behind the copy for the other
        d = w * 3
        assert count() == before + 2
        pf.synchronize()
        assert [t[7].item() for t in (a, b, c, d)] == [8, 14, 6, 21]
        """
    )


def test_no_table_ends_at_sixteen(run):  # noqa: F811
    run(
        """
        last = pf.arange(5, device="gpu:19").float()
        assert str(last.device) == "rocm:19" and (last + 1).tolist() == [1, 2, 3, 4, 5]
        streams = [pf.cuda.Stream("gpu:19") for _ in range(40)]
        assert len({s.stream_id for s in streams}) == 40
        for s in streams:
            s.wait_stream(pf.cuda.default_stream("gpu:19"))
            with s:
                last = last * 1 + 1
                there = last.to("gpu:17")
            pf.cuda.default_stream("gpu:19").wait_stream(s)
        assert pf.cuda.current_stream("gpu:19") == pf.cuda.default_stream("gpu:19")
        assert last.tolist() == [40, 41, 42, 43, 44] == there.tolist()
        pf.set_device("gpu:18")
        assert (pf.ones(3) + 1).device == "rocm:18"
        raises(pf.DeviceError, "one of the 20 that are seen", lambda: pf.ones(3, device="gpu:20"))
        raises(pf.DeviceError, "must be 0 to 127", lambda: pf.device("gpu:128"))
        """,
        PYFLAME_STANDIN_DEVICES=20,
    )
