"""Models that come with PyFlame."""

from .gpt import GPT, GPTConfig
from .resnet import ResNet, resnet18, resnet34, resnet50

__all__ = ["GPT", "GPTConfig", "ResNet", "resnet18", "resnet34", "resnet50"]
