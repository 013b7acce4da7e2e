"""Models that come with PyFlame."""

from .gpt import GPT, GPTConfig
from .resnet import ResNet, resnet18, resnet34, resnet50
from .tabular import TabularNet

__all__ = ["GPT", "GPTConfig", "ResNet", "resnet18", "resnet34", "resnet50", "TabularNet"]
