"""The operators of torchaudio that are compiled there: recursive filters, forced alignment, the
transducer's loss."""

import numpy as np

import pyflame as pf

_BLOCK = 256


# ---- recursive filters ---------------------------------------------------------------------------


def _responses(a, length):
    """Of filters a [c, p], a[:, k] the factor of the output k + 1 samples before: the first samples
    [c, length] after an impulse, and [c, length, p] after outputs of 1 at each of the p places before.
    float64, on the host."""
    c, p = a.shape
    after = np.zeros((c, p + length, p + 1))
    after[:, np.arange(p), np.arange(p)] = 1  # outputs before, the oldest first
    for t in range(length):
        after[:, p + t] = -np.einsum("ck,ckj->cj", a[:, ::-1], after[:, t : t + p])
        after[:, p + t, p] += t == 0
    return after[:, p:, p], after[:, p:, :p]


def _one_by_one(x, a, before):
    """Sample by sample: for filters that overflow and inputs that are not finite, where products with
    zeros would be NaN."""
    x, a, before = (v.cpu().numpy() for v in (x, a, before))
    p = a.shape[1]
    y = np.concatenate([before, np.zeros_like(x)], 2)
    with np.errstate(all="ignore"):
        for t in range(x.shape[2]):
            past = y[:, :, t : t + p] * a[:, ::-1]
            y[:, :, p + t] = x[:, :, t] - past.sum(-1)
    return pf.tensor(y[:, :, p:])


def recursion(x, a, before):
    """y[t] = x[t] - sum of a[k] y[t - 1 - k] of x [n, c, t], a [c, p] and the outputs before [n, c, p],
    the oldest first; in float64.

    Blocks of samples are products with the answer to an impulse; from block to block go only the p last
    outputs.
    """
    n, c, total = x.shape
    p = a.shape[1]
    x, a, before = (v.detach().double() for v in (x, a, before))
    if not p or not x.numel():
        return x
    block = min(_BLOCK, max(total, 1))
    with np.errstate(all="ignore"):
        impulse, past = _responses(a.cpu().numpy(), max(block, p))
    impulse, past = impulse[:, :block], past[:, :block]
    if not (np.isfinite(impulse).all() and np.isfinite(past).all() and bool(x.isfinite().all())):
        return _one_by_one(x, a, before).to(x.device)
    lags = np.arange(block)[:, None] - np.arange(block)
    square = np.where(lags >= 0, impulse[:, np.maximum(lags, 0)], 0)  # [c, block, block]
    square, past = (pf.tensor(v, device=x.device) for v in (square, past))
    count = -(-total // block)
    padded = pf.nn.functional.pad(x, (0, count * block - total)).reshape(n, c, count, block)
    y = padded @ square.transpose(1, 2)  # of each block as if nothing were before
    outputs = []
    for i in range(count):
        outputs.append(y[:, :, i] + (past @ before[..., None])[..., 0])
        before = (
            pf.cat([before, outputs[-1]], 2)[:, :, -p:] if block < p else outputs[-1][:, :, -p:]
        )
    return pf.cat(outputs, 2)[:, :, :total]


def _lfilter_core_loop(windows, a_flipped, padded):
    """Writes the outputs behind the p that are in `padded` [n, c, p + t]."""
    p = a_flipped.shape[1] - 1
    with pf.no_grad():
        y = recursion(windows, a_flipped[:, :p].flip(1), padded[:, :, :p])
        padded[:, :, p:] = y.to(padded.dtype)
    return padded


def _overdrive_core_loop(waveform, temp, last_in, last_out, output):
    """Writes half the waveform and three quarters of what a filter makes of its changes."""
    with pf.no_grad():
        changes = pf.cat([temp[:, :1] - last_in[:, None], temp[:, 1:] - temp[:, :-1]], 1).double()
        a = changes.new_full((1, 1), -0.995)
        y = recursion(changes[:, None], a, last_out[:, None, None])[:, 0].to(output.dtype)
        output.copy_(waveform * 0.5 + y * 0.75)
        if y.shape[1]:
            last_in.copy_(temp[:, -1])
            last_out.copy_(y[:, -1])
    return last_in, last_out, output


# ---- forced alignment ----------------------------------------------------------------------------


def _check(condition, text):
    if not condition:
        raise RuntimeError(f"torchaudio.forced_align: {text}")


def forced_align(log_probs, targets, input_lengths, target_lengths, blank):
    """The likeliest path [1, t] of labels and blanks through log_probs [1, t, classes] that spells the
    targets [1, l], and log_probs. On the host: each frame hangs on the one before."""
    _check(
        log_probs.dtype in (pf.float16, pf.float32, pf.float64),
        f"got log_probs of {log_probs.dtype}; expected float16, float32 or float64",
    )
    _check(
        targets.dtype in (pf.int32, pf.int64),
        f"got targets of {targets.dtype}; expected int32 or int64",
    )
    _check(
        log_probs.ndim == 3 and targets.ndim == 2 and log_probs.shape[0] == targets.shape[0] == 1,
        f"got log_probs {list(log_probs.shape)} and targets {list(targets.shape)}; expected "
        "[1, frames, classes] and [1, labels]",
    )
    _check(0 <= blank < log_probs.shape[2], f"got blank {blank}; expected a class")
    p = log_probs.detach().cpu().numpy()[0]
    labels = targets.cpu().numpy()[0]
    frames = p.shape[0]
    _check(int(input_lengths.max()) == frames, "expected input lengths as long as log_probs")
    _check(int(target_lengths.max()) == len(labels), "expected target lengths as long as targets")
    repeats = int((labels[1:] == labels[:-1]).sum())
    _check(
        frames >= len(labels) + repeats,
        f"got {frames} frames for {len(labels)} labels with {repeats} repeats; expected as many frames",
    )
    states = np.full(2 * len(labels) + 1, blank)
    states[1::2] = labels
    skips = np.zeros(len(states), bool)  # a label may follow one that is another
    skips[3::2] = labels[1:] != labels[:-1]
    best = np.full(len(states), -np.inf, p.dtype)
    best[:2] = p[0, states[:2]]
    came = np.zeros((frames, len(states)), np.int8)
    for t in range(1, frames):
        one = np.concatenate([[-np.inf], best[:-1]]).astype(p.dtype)
        two = np.where(skips, np.concatenate([[-np.inf, -np.inf], best[:-2]])[: len(best)], -np.inf)
        by_two = (two > one) & (two > best)
        by_one = ~by_two & (one > best) & (one > two)
        came[t] = np.where(by_two, 2, by_one)
        best = (np.where(by_two, two, np.where(by_one, one, best)) + p[t, states]).astype(p.dtype)
    state = len(states) - 1
    if len(states) > 1 and not best[-1] > best[-2]:
        state -= 1
    path = np.zeros(frames, labels.dtype)
    for t in range(frames - 1, -1, -1):
        path[t] = states[state]
        state -= came[t, state]
    return pf.tensor(path[None], device=log_probs.device), log_probs


# ---- the transducer's loss -----------------------------------------------------------------------

_NEVER = -1e30


def _diagonals(blank, emit):
    """Log-likelihoods [n, t, u] of coming to each place of the lattice, from steps in time `blank`
    [n, t, u] and in labels `emit` [n, t, u - 1]. One diagonal after the other, on which places do not
    hang on each other."""
    n, frames, labels = blank.shape
    out = np.full((n, frames, labels), _NEVER)
    out[:, 0, 0] = 0
    for d in range(1, frames + labels - 1):
        u = np.arange(max(0, d - frames + 1), min(labels, d + 1))
        t = d - u
        a = np.where(t > 0, out[:, t - 1, u] + blank[:, t - 1, u], _NEVER)
        b = _NEVER
        if emit.shape[2]:
            b = np.where(u > 0, out[:, t, u - 1] + emit[:, t, np.maximum(u - 1, 0)], _NEVER)
        out[:, t, u] = np.logaddexp(a, b)
    return out


def rnnt_loss_forward(
    logits, targets, logit_lengths, target_lengths, blank, clamp, fused_log_softmax
):
    """Losses [n] of a transducer and their gradients of the logits [n, t, u, classes]."""
    with pf.no_grad():
        given = logits.detach()
        wide = given.double()
        logs = wide.log_softmax(-1) if fused_log_softmax else wide
        n, _, labels, _ = logs.shape
        rows = targets.long()
        index = rows[:, None, :, None].expand(-1, logs.shape[1], -1, 1)
        stay = logs[..., blank].cpu().numpy()
        go = logs[:, :, : labels - 1].gather(3, index)[..., 0].cpu().numpy()
        frames_of, labels_of = logit_lengths.tolist(), target_lengths.tolist()
        shape = stay.shape
        at, by_blank, by_label, losses = (np.zeros(s) for s in (shape, shape, go.shape, n))
        for i, (t, u) in enumerate(zip(frames_of, labels_of)):
            s, g = stay[i : i + 1, :t, : u + 1], go[i : i + 1, :t, :u]
            alpha = _diagonals(s, g)
            # From the end: the last step in time is one of its own.
            inner = s[:, ::-1, ::-1]
            turned = np.zeros_like(inner)
            turned[:, :-1] = inner[:, 1:]
            beta = _diagonals(turned, g[:, ::-1, ::-1])[:, ::-1, ::-1] + s[0, -1, -1]
            total = beta[0, 0, 0]
            losses[i] = -total
            at[i, :t, : u + 1] = np.exp(alpha + beta - total)[0]
            later = np.full_like(beta, _NEVER)
            later[:, :-1] = beta[:, 1:]
            later[0, -1, -1] = 0
            by_blank[i, :t, : u + 1] = np.exp(alpha + s + later - total)[0]
            by_label[i, :t, :u] = np.exp(alpha[:, :, :-1] + g + beta[:, :, 1:] - total)[0]
        at, by_blank, by_label = (
            pf.tensor(v, device=logits.device) for v in (at, by_blank, by_label)
        )
        grad = logs.exp() * at[..., None] if fused_log_softmax else pf.zeros_like(logs)
        grad[..., blank] -= by_blank
        grad[:, :, : labels - 1].scatter_add_(3, index, -by_label[..., None])
        if clamp > 0:
            grad = grad.clamp(-clamp, clamp)
        return pf.tensor(losses, device=logits.device).to(given.dtype), grad.to(given.dtype)


OPERATORS = {
    "_lfilter_core_loop": _lfilter_core_loop,
    "_overdrive_core_loop": _overdrive_core_loop,
    "forced_align": forced_align,
    "rnnt_loss_forward": rnnt_loss_forward,
    "is_align_available": lambda: True,
    "cuda_version": lambda: None,
}
