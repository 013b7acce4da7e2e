"""Metrics of torchmetrics over torch."""

import torch
import torchmetrics
from torchmetrics.classification import (
    BinaryAUROC,
    MulticlassAccuracy,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)
from torchmetrics.functional import mean_squared_error
from torchmetrics.regression import MeanAbsoluteError, PearsonCorrCoef, R2Score

truth = torch.tensor([0, 1, 2, 2, 1, 0, 2, 1])
scores = torch.nn.functional.one_hot(torch.tensor([0, 1, 2, 1, 1, 0, 0, 1]), 3).float()
accuracy = MulticlassAccuracy(num_classes=3, average="micro")
for part in (slice(0, 4), slice(4, 8)):
    accuracy.update(scores[part], truth[part])
found = {
    "accuracy": accuracy.compute(),
    "f1": MulticlassF1Score(num_classes=3)(scores, truth),
    "matrix": MulticlassConfusionMatrix(num_classes=3)(scores, truth),
    "auroc": BinaryAUROC()(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1])),
    "mse": mean_squared_error(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])),
    "mae": MeanAbsoluteError()(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0])),
    "r2": R2Score()(torch.tensor([1.0, 2.0, 3.5]), torch.tensor([1.0, 2.0, 3.0])),
    "pearson": PearsonCorrCoef()(torch.tensor([1.0, 2.0, 3.5]), torch.tensor([1.0, 2.5, 3.0])),
}
both = torchmetrics.MetricCollection(
    {"macro": MulticlassAccuracy(num_classes=3), "micro": accuracy.clone()}
)
for name, value in {**found, **both(scores, truth)}.items():
    print(name, [round(v, 4) for v in value.flatten().tolist()])
