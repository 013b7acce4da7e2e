"""torchaudio: features, an acoustic model trained with CTC, a transducer with its loss, alignment."""

import numpy as np
import torch
import torchaudio
from made_up import fill, report
from torch import nn
from torchaudio import functional as audio
from torchaudio import transforms
from torchaudio.models import Conformer, Emformer, Wav2Letter, conv_tasnet_base, wav2vec2_base

rng = np.random.RandomState(0)
wave = torch.tensor((rng.randn(2, 4000) * 0.1).astype(np.float32))
features = nn.Sequential(
    transforms.MelSpectrogram(16000, n_fft=256, hop_length=128, n_mels=20),
    transforms.AmplitudeToDB(),
)
mel = features(wave)
report(
    "features",
    mel,
    transforms.MFCC(16000, 10, melkwargs=dict(n_fft=256, hop_length=128, n_mels=20))(wave),
)
report("spectral", audio.spectral_centroid(wave, 16000, 0, torch.hann_window(128), 128, 64, 128))
report(
    "filtered",
    audio.highpass_biquad(wave, 16000, 300.0),
    audio.bandpass_biquad(wave, 16000, 1000.0),
)
report("griffin", transforms.InverseMelScale(129, 20, driver="gelsd")(mel[:1].clamp(min=0)).sum())
report("resampled", transforms.Resample(16000, 8000)(wave))
report("masked", transforms.SlidingWindowCmn(20)(mel.transpose(1, 2)))

net = nn.ModuleList([nn.Linear(20, 16), Conformer(16, 2, 32, 2, 7, dropout=0.0), nn.Linear(16, 6)])
fill(net, scale=0.1)
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
targets, lengths = torch.tensor([[1, 2, 3], [4, 5, 5]]), torch.tensor([3, 3])
frames = torch.tensor([mel.shape[2], mel.shape[2] - 4])
losses = []
for _ in range(5):
    h, out_lengths = net[1](net[0](mel.transpose(1, 2) / 50), frames)
    logs = net[2](h).log_softmax(-1)
    loss = nn.functional.ctc_loss(logs.transpose(0, 1), targets, out_lengths, lengths)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.detach())
report("ctc", torch.stack(losses))
path, scores = audio.forced_align(logs[:1].detach(), targets[:1].int(), blank=0)
report("aligned", path, scores)

joint = fill(nn.ModuleList([nn.Linear(20, 8), nn.Embedding(6, 8), nn.Linear(8, 6)]), scale=0.3)
optimizer = torch.optim.Adam(joint.parameters(), lr=1e-2)
criterion = transforms.RNNTLoss(blank=0)
losses = []
for _ in range(5):
    encoded = joint[0](mel.transpose(1, 2)[:, ::4] / 50)
    predicted = joint[1](torch.cat([torch.zeros(2, 1, dtype=torch.int64), targets], 1))
    logits = joint[2]((encoded[:, :, None] + predicted[:, None]).tanh())
    loss = criterion(
        logits, targets.int(), torch.full((2,), encoded.shape[1], dtype=torch.int32), lengths.int()
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
report("transducer", torch.stack(losses))

for name, model, given in (
    ("wav2letter", Wav2Letter(5, "waveform", 1), (wave[:, None],)),
    (
        "emformer",
        Emformer(20, 2, 32, 2, 4),
        (mel.transpose(1, 2)[:, :28] / 50, torch.tensor([24, 24])),
    ),
    ("tasnet", conv_tasnet_base(2), (wave[:1, None, :1600],)),
    ("wav2vec2", wav2vec2_base(aux_num_out=5), (wave,)),
):
    out = fill(model, scale=0.03).eval()(*given)
    out = out[0] if isinstance(out, tuple) else out
    report(name, out)
filtered = wave.clone().requires_grad_()
audio.lfilter(
    filtered, torch.tensor([1.0, -0.9]), torch.tensor([0.5, 0.2])
).square().mean().backward()
report("gradient of a filter", filtered.grad)
assert torchaudio.__version__
