"""PyTorch and PyFlame in one process: a tensor of one in a function of the other is a TypeError that says how
to convert, whichever way it comes there."""

import pytest

import pyflame as pf

torch = pytest.importorskip("torch")
OURS, THEIRS = pf.ones(2), torch.ones(2)
INTO_THEIRS = {
    "add": lambda: torch.add(OURS, THEIRS),
    "second": lambda: torch.add(THEIRS, OURS),
    "alone": lambda: torch.relu(OURS),
    "functional": lambda: torch.nn.functional.mse_loss(THEIRS, OURS),
    "list": lambda: torch.stack([OURS]),
    "layer": lambda: torch.nn.Linear(2, 2)(OURS),
    "method": lambda: THEIRS.add_(OURS),
    "index": lambda: THEIRS[OURS.long()],
    "write": lambda: THEIRS.__setitem__(0, OURS),
    "einsum": lambda: torch.einsum("i,i->", THEIRS, OURS),
    "keyword": lambda: torch.sum(input=OURS),
}
INTO_OURS = {
    "add": lambda: pf.add(OURS, THEIRS),
    "alone": lambda: pf.relu(THEIRS),
    "functional": lambda: pf.nn.functional.mse_loss(OURS, THEIRS),
    "list": lambda: pf.stack([THEIRS]),
    "layer": lambda: pf.nn.Linear(2, 2)(THEIRS),
    "method": lambda: OURS.add_(THEIRS),
    "index": lambda: OURS[THEIRS.long()],
    "operator": lambda: OURS + THEIRS,
    "operator behind": lambda: THEIRS + OURS,
    "comparison": lambda: OURS == THEIRS,
    "comparison behind": lambda: THEIRS < OURS,
    "product": lambda: OURS @ THEIRS,
    "division": lambda: OURS // THEIRS,
    "in place": lambda: OURS.__iadd__(THEIRS),
    "gradient": lambda: setattr(OURS, "grad", THEIRS),
    "parameter": lambda: pf.nn.Parameter(THEIRS),
}


@pytest.mark.parametrize("how", INTO_THEIRS)
def test_ours_in_theirs(how):
    for _ in range(2):  # nothing is left over from the first
        with pytest.raises(TypeError, match=r"pyflame.Tensor.*torch\.from_dlpack"):
            INTO_THEIRS[how]()
    assert (pf.ones(2) + OURS).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("how", INTO_OURS)
def test_theirs_in_ours(how):
    with pytest.raises(TypeError, match=r"torch.Tensor.*pf\.(from_dlpack|tensor)"):
        INTO_OURS[how]()


def test_conversions():
    assert pf.from_dlpack(THEIRS).tolist() == torch.from_dlpack(OURS).tolist() == [1.0, 1.0]
    assert pf.tensor(THEIRS).tolist() == pf.as_tensor(THEIRS).tolist() == [1.0, 1.0]

    class Kept(pf.Tensor):  # subclasses go on
        pass

    assert type(OURS.as_subclass(Kept) + 1) is Kept
