"""Small models with the pooling structure of well-known ones, of mlx.nn layers."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import mlx_pooling


class ConvNormAct(nn.Module):
    def __init__(self, inputs: int, outputs: int, kernel: int = 3, stride: int = 1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm(outputs)

    def __call__(self, x: mx.array) -> mx.array:
        return nn.silu(self.norm(self.conv(x)))


class ResidualBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm(outputs)
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False),
                nn.BatchNorm(outputs),
            )

    def __call__(self, x: mx.array) -> mx.array:
        y = nn.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return nn.relu(y + (self.downsample(x) if "downsample" in self else x))


class ResNet(nn.Module):
    """Max pooling 3/2/1 after the stem, average pooling before the classifier."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False)
        self.norm1 = nn.BatchNorm(4)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.stages = [
            [ResidualBlock(4, 4, 1), ResidualBlock(4, 4, 1)],
            [ResidualBlock(4, 8, 2), ResidualBlock(8, 8, 1)],
        ]
        self.avgpool = nn.AvgPool2d(4)
        self.fc = nn.Linear(8, 5)

    def __call__(self, x: mx.array) -> mx.array:
        x = self.maxpool(nn.relu(self.norm1(self.conv1(x))))
        for stage in self.stages:
            for block in stage:
                x = block(x)
        return self.fc(self.avgpool(x).flatten(1))


class VGG(nn.Module):
    """The pooling layers lie among the convolutions of one Sequential."""

    def __init__(self):
        super().__init__()
        features, inputs = [], 3
        for channels in (4, "M", 8, "M", 8, 8, "M"):
            if channels == "M":
                features.append(nn.MaxPool2d(2, 2))
            else:
                features += [nn.Conv2d(inputs, channels, 3, padding=1), nn.ReLU()]
                inputs = channels
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(
            nn.Linear(8 * 16, 8), nn.ReLU(), nn.Linear(8, 5)
        )

    def __call__(self, x: mx.array) -> mx.array:
        return self.classifier(self.features(x).flatten(1))


class UNet(nn.Module):
    """Two levels with skips; SegNet's unpooling, with indices, at the upper one."""

    def __init__(self):
        super().__init__()
        self.encoder1 = ConvNormAct(3, 4)
        self.pool1 = mlx_pooling.MaxPool2d(2, return_indices=True)
        self.encoder2 = ConvNormAct(4, 8)
        self.pool2 = nn.MaxPool2d(2)
        self.bottom = ConvNormAct(8, 8)
        self.up2 = nn.ConvTranspose2d(8, 8, 2, 2)
        self.decoder2 = ConvNormAct(16, 4)
        self.unpool1 = mlx_pooling.MaxUnpool2d(2)
        self.decoder1 = ConvNormAct(8, 4)
        self.head = nn.Conv2d(4, 2, 1)

    def __call__(self, x: mx.array) -> mx.array:
        skip1 = self.encoder1(x)
        x, indices = self.pool1(skip1)
        skip2 = self.encoder2(x)
        x = self.up2(self.bottom(self.pool2(skip2)))
        x = self.decoder2(mx.concatenate([x, skip2], axis=-1))
        x = self.unpool1(x, indices)
        return self.head(self.decoder1(mx.concatenate([x, skip1], axis=-1)))


class Inception(nn.Module):
    """Branches side by side, two of which pool 3/1/1: by maxima and by averages."""

    def __init__(self):
        super().__init__()
        self.branches = {
            "conv1": ConvNormAct(3, 4, 1),
            "conv3": nn.Sequential(ConvNormAct(3, 2, 1), ConvNormAct(2, 4)),
            "max": nn.Sequential(nn.MaxPool2d(3, 1, 1), ConvNormAct(3, 4, 1)),
            "avg": nn.Sequential(nn.AvgPool2d(3, 1, 1), ConvNormAct(3, 4, 1)),
        }

    def __call__(self, x: mx.array) -> mx.array:
        return mx.concatenate([b(x) for b in self.branches.values()], axis=-1)


class SPPF(nn.Module):
    """YOLO's: one max pooling 5/1/2, applied three times in a chain."""

    def __init__(self):
        super().__init__()
        self.cv1 = ConvNormAct(3, 4, 1)
        self.cv2 = ConvNormAct(16, 8, 1)
        self.m = nn.MaxPool2d(kernel_size=5, stride=1, padding=2)

    def __call__(self, x: mx.array) -> mx.array:
        pyramid = [self.cv1(x)]
        for _ in range(3):
            pyramid.append(self.m(pyramid[-1]))
        return self.cv2(mx.concatenate(pyramid, axis=-1))


# How many pooling layers of mlx.nn there are in each.
POOLS = {ResNet: 2, VGG: 3, UNet: 1, Inception: 2, SPPF: 1}
