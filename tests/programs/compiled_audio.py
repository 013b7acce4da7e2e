"""torchaudio's compiled operators, by its functions: values and gradients."""

import numpy as np
import torch
import torchaudio.functional as audio
from made_up import report

rng = np.random.RandomState(0)


def tensor(*shape, scale=1.0, grad=False):
    return torch.tensor((rng.randn(*shape) * scale).astype(np.float32), requires_grad=grad)


for i, (length, order) in enumerate([(1, 2), (7, 3), (255, 2), (600, 5), (1200, 1)]):
    wave = tensor(2, 3, length, scale=0.1, grad=True)
    a = torch.tensor(
        np.concatenate([[[1.0]] * 3, rng.randn(3, order) * 0.2 / order], 1).astype(np.float32),
        requires_grad=True,
    )
    b = tensor(3, order + 1, scale=0.3, grad=True)
    out = audio.lfilter(wave, a, b, clamp=False)
    (out * tensor(*out.shape)).sum().backward()
    report(f"lfilter {i}", out, wave.grad, a.grad, b.grad)
wave = tensor(2, 4000, scale=0.2)
unstable = audio.lfilter(wave, torch.tensor([1.0, -3.0, 0.5]), torch.tensor([1.0, 0.0, 0.0]))
report("unstable", unstable[:, :60])
report("lowpass", audio.lowpass_biquad(wave, 16000, 800.0))
report("equalizer", audio.equalizer_biquad(wave, 16000, 1000.0, 3.0))
report("treble", audio.treble_biquad(wave, 16000, 5.0))
report("deemph", audio.deemph_biquad(wave, 44100))
report(
    "filtfilt", audio.filtfilt(wave, torch.tensor([1.0, -0.6, 0.2]), torch.tensor([0.3, 0.3, 0.1]))
)
report("overdrive", audio.overdrive(wave), audio.overdrive(wave, 40, 60))
report("phaser", audio.phaser(wave[:1], 16000))
report("flanger", audio.flanger(wave, 16000))
report("resample", audio.resample(wave, 16000, 11025))
report("deemphasis", audio.preemphasis(wave), audio.deemphasis(wave))

for i, (frames, labels, classes) in enumerate([(1, 1, 3), (12, 4, 5), (60, 17, 9), (30, 14, 3)]):
    logs = tensor(1, frames, classes, grad=True).log_softmax(-1)
    targets = torch.tensor(rng.randint(1, classes, (1, labels)))
    if i == 3:
        targets = torch.tensor([[1, 2] * 7])
    path, scores = audio.forced_align(logs, targets, blank=0)
    report(f"forced_align {i}", path, scores)
    report(
        f"spans {i}",
        torch.tensor(
            [[s.token, s.start, s.end] for s in audio.merge_tokens(path[0], scores[0].exp())]
        ),
    )

for fused in (True, False):
    for clamp in (-1.0, 0.02):
        logits = tensor(3, 6, 5, 7, grad=True)
        given = logits if fused else logits.log_softmax(-1)
        targets = torch.tensor(rng.randint(0, 6, (3, 4)).astype(np.int32))
        lengths = [torch.tensor(v, dtype=torch.int32) for v in ([6, 4, 1], [4, 2, 1])]
        loss = audio.rnnt_loss(
            given, targets, *lengths, clamp=clamp, reduction="none", fused_log_softmax=fused
        )
        (loss * torch.tensor([1.0, 2.0, 0.5])).sum().backward()
        report(f"rnnt {fused} {clamp}", loss, logits.grad)
