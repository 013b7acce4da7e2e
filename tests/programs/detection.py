"""torchvision: detection, masks, keypoints and segmentation trained on made-up pictures, which stand on its
compiled operators, its transforms, and pictures in files."""

import tempfile

import numpy as np
import torch
from made_up import fill, report
from torch.utils.data import DataLoader, TensorDataset
from torchvision import io, tv_tensors
from torchvision.models import (
    ConvNeXt,
    SwinTransformer,
    VisionTransformer,
    get_model,
    mobilenet_v3_small,
    resnet18,
)
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.detection import FasterRCNN, KeypointRCNN, MaskRCNN, RetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.segmentation import deeplabv3_mobilenet_v3_large
from torchvision.ops import DeformConv2d, FeaturePyramidNetwork, MultiScaleRoIAlign
from torchvision.transforms import v2

rng = np.random.RandomState(0)


class Body(torch.nn.Module):
    """Two levels of features."""

    out_channels = 16

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 12, 3, 4, 1)
        self.moved = torch.nn.Conv2d(12, 18, 3, 1, 1)
        self.second = DeformConv2d(12, 24, 3, 2, 1)
        self.offsets = torch.nn.Conv2d(12, 18, 3, 2, 1)
        self.pyramid = FeaturePyramidNetwork([12, 24], 16)

    def forward(self, x):
        a = self.first(x).relu()
        b = self.second(a, self.offsets(a)).relu()
        return self.pyramid({"0": a, "1": b})


images = [torch.tensor(rng.rand(3, 64, 72).astype(np.float32)) for _ in range(2)]
targets = []
for _ in images:
    corners = rng.rand(3, 2, 2) * 40 + [[[4, 4]]]
    low = corners.min(1)
    boxes = torch.tensor(np.concatenate([low, low + 8 + rng.rand(3, 2) * 16], 1).astype(np.float32))
    masks = torch.zeros(3, 64, 72, dtype=torch.uint8)
    for m, b in zip(masks, boxes.int().tolist()):
        m[b[1] : b[3], b[0] : b[2]] = 1
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    points = torch.stack([torch.cat([middle + d, torch.ones(3, 1)], 1) for d in (-2, 2)], 1)
    targets.append(
        {"boxes": boxes, "labels": torch.tensor([1, 2, 1]), "masks": masks, "keypoints": points}
    )

anchors = AnchorGenerator(((8,), (16,)), ((0.5, 1.0, 2.0),) * 2)
size = dict(min_size=64, max_size=96)
# As many proposals as there are: what is drawn among them at random is then all of them.
every = dict(
    rpn_batch_size_per_image=10_000,
    rpn_positive_fraction=1.0,
    box_batch_size_per_image=10_000,
    box_positive_fraction=1.0,
    rpn_pre_nms_top_n_train=200,
    rpn_post_nms_top_n_train=50,
    rpn_pre_nms_top_n_test=200,
    rpn_post_nms_top_n_test=50,
)
pool = MultiScaleRoIAlign(["0", "1"], 7, 2)
kinds = {
    "faster": lambda: FasterRCNN(
        Body(), 3, rpn_anchor_generator=anchors, box_roi_pool=pool, **size, **every
    ),
    "mask": lambda: MaskRCNN(
        Body(),
        3,
        rpn_anchor_generator=anchors,
        box_roi_pool=pool,
        mask_roi_pool=MultiScaleRoIAlign(["0", "1"], 14, 2),
        **size,
        **every,
    ),
    "keypoints": lambda: KeypointRCNN(
        Body(),
        3,
        num_keypoints=2,
        rpn_anchor_generator=anchors,
        box_roi_pool=pool,
        keypoint_roi_pool=MultiScaleRoIAlign(["0", "1"], 14, 2),
        **size,
        **every,
    ),
    "retina": lambda: RetinaNet(Body(), 3, anchor_generator=anchors, **size),
}
for name, make in kinds.items():
    model = fill(make(), scale=0.05)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(2):
        losses = model(images, [{k: v.clone() for k, v in t.items()} for t in targets])
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        report(f"{name} {step} " + " ".join(losses), torch.stack(list(losses.values())).detach())
    model.eval()
    with torch.no_grad():
        found = model(images)
    report(f"{name} found", found[0]["scores"][:10])

x = torch.tensor(rng.randn(2, 3, 64, 64).astype(np.float32))
nets = {
    "resnet": lambda: resnet18(num_classes=4),
    "mobilenet": lambda: mobilenet_v3_small(num_classes=4),
    "vit": lambda: VisionTransformer(64, 16, 2, 2, 32, 48, num_classes=4),
    "swin": lambda: SwinTransformer([4, 4], 12, [2, 2], [2, 4], [4, 4], num_classes=4),
    "convnext": lambda: ConvNeXt(
        [CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)], num_classes=4
    ),
}
for name, make in nets.items():
    report(name, fill(make(), scale=0.03).eval()(x))
assert get_model("resnet18", num_classes=4).fc.out_features == 4
parts = fill(
    deeplabv3_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=3), scale=0.05
).eval()
report("segmentation", parts(x)["out"])

change = v2.Compose(
    [
        v2.ToDtype(torch.float32, scale=True),
        v2.Resize((20, 24), antialias=True),
        v2.CenterCrop(16),
        v2.Normalize([0.5] * 3, [0.2] * 3),
    ]
)
picture = torch.tensor(rng.randint(0, 256, (3, 40, 50)).astype(np.uint8))
report("transforms", change(picture))
boxed = tv_tensors.BoundingBoxes(
    torch.tensor([[4.0, 5, 20, 30]]), format="XYXY", canvas_size=(40, 50)
)
turned, where = v2.functional.horizontal_flip(picture), v2.functional.horizontal_flip(boxed)
report("boxes", turned, where)
assert type(where) is tv_tensors.BoundingBoxes and where.canvas_size == (40, 50)
with tempfile.TemporaryDirectory() as folder:
    io.write_png(picture, folder + "/a.png")
    assert torch.equal(io.read_image(folder + "/a.png"), picture)
    io.write_jpeg(picture, folder + "/a.jpg", 90)
    assert io.decode_image(io.read_file(folder + "/a.jpg"), io.ImageReadMode.GRAY).shape == (
        1,
        40,
        50,
    )
for (batch,) in DataLoader(TensorDataset(x), batch_size=2):
    report("loaded", v2.functional.rotate(batch, 30.0), v2.functional.gaussian_blur(batch, [3, 3]))
