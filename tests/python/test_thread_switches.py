"""Which switches belong to the thread that sets them and which to the process; the same questions are asked of
PyTorch where it is installed."""

import threading

import pytest

import pyflame as pf


def in_thread(work, *args):
    found = []

    def run():
        try:
            found.append(work(*args))
        except BaseException as e:
            found.append(e)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


# name: (how it is read, how it is set, another value, whether it is a thread's own)
SWITCHES = {
    "gradients": (lambda t: t.is_grad_enabled(), lambda t, v: t.set_grad_enabled(v), False, True),
    "default dtype": (
        lambda t: str(t.get_default_dtype()).split(".")[-1],
        lambda t, v: t.set_default_dtype(getattr(t, v)),
        "float64",
        False,
    ),
    "default device": (
        lambda t: str(t.get_default_device()),
        lambda t, v: t.set_default_device(v),
        "meta",
        True,
    ),
    "deterministic": (
        lambda t: t.are_deterministic_algorithms_enabled(),
        lambda t, v: t.use_deterministic_algorithms(v),
        None,
        False,
    ),
    "warns only": (
        lambda t: t.is_deterministic_algorithms_warn_only_enabled(),
        lambda t, v: t.use_deterministic_algorithms(
            t.are_deterministic_algorithms_enabled(), warn_only=v
        ),
        None,
        False,
    ),
    "precision": (
        lambda t: t.get_float32_matmul_precision(),
        lambda t, v: t.set_float32_matmul_precision(v),
        "medium",
        False,
    ),
    "anomaly": (
        lambda t: t.is_anomaly_enabled(),
        lambda t, v: t.autograd.set_detect_anomaly(v),
        None,
        False,
    ),
    "autocast": (
        lambda t: t.is_autocast_enabled("cpu"),
        lambda t, v: t.set_autocast_enabled("cpu", v),
        None,
        True,
    ),
    "autocast's dtype": (
        lambda t: str(t.get_autocast_dtype("cpu")).split(".")[-1],
        lambda t, v: t.set_autocast_dtype("cpu", getattr(t, v)),
        "float16",
        True,
    ),
    "autocast's cache": (
        lambda t: t.is_autocast_cache_enabled(),
        lambda t, v: t.set_autocast_cache_enabled(v),
        None,
        True,
    ),
    "cudnn.benchmark": (
        lambda t: t.backends.cudnn.benchmark,
        lambda t, v: setattr(t.backends.cudnn, "benchmark", v),
        None,
        False,
    ),
    "attention": (
        lambda t: t.backends.cuda.flash_sdp_enabled(),
        lambda t, v: t.backends.cuda.enable_flash_sdp(v),
        None,
        False,
    ),
}


@pytest.fixture(params=["pyflame", "torch"])
def t(request):
    return pf if request.param == "pyflame" else pytest.importorskip("torch")


@pytest.mark.parametrize("name", SWITCHES)
def test_whose_a_switch_is(name, t):
    read, write, other, own = SWITCHES[name]
    before = read(t)
    fresh = in_thread(read, t) if own else before
    value = (not before) if other is None else other
    try:
        write(t, value)
        assert in_thread(read, t) == (fresh if own else value)
        write(t, before)
        in_thread(write, t, value)
        assert read(t) == (before if own else value)
    finally:
        write(t, before)


def test_whose_contexts_are(t):
    """None of these reaches a thread that is started within."""

    def refuse(tensor):
        raise AssertionError

    def state():
        return t.is_grad_enabled(), t.is_inference_mode_enabled(), t.ones(1).device.type

    def hooks():
        with t.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
            return t.ones(2, requires_grad=True).exp().requires_grad

    with t.autograd.graph.saved_tensors_hooks(refuse, refuse):
        in_thread(lambda: t.ones(2, requires_grad=True).exp().sum().backward())
    with t.autograd.graph.disable_saved_tensors_hooks("no"):
        assert in_thread(hooks)
    with t.device("meta"), t.inference_mode(), t.no_grad():
        assert in_thread(state) == (True, False, "cpu")
