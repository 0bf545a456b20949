"""Pooling layers of real networks: the cases that most benchmarks here measure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any


@dataclass(frozen=True)
class Case:
    """One pooling layer and the (N, *spatial, C) input it meets in its network."""

    name: str
    op: str  # "max", "avg" or, of exponent 2, "l2"
    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: int = 1
    ceil_mode: bool = False
    count_include_pad: bool = True
    adaptive: bool = False  # then `kernel` is the output's size

    @property
    def layer(self) -> str:
        """Name of the layer class, the same in every library: ``MaxPool2d``."""
        prefix = "Adaptive" if self.adaptive else ""
        return f"{prefix}{self.op.capitalize()}Pool{len(self.kernel)}d"

    @property
    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The arguments that are sizes, by the names that PyTorch has for them."""
        if self.adaptive:
            return {"output_size": self.kernel}
        return {
            "kernel_size": self.kernel,
            "stride": self.stride,
            "padding": self.padding,
        }

    @property
    def extras(self) -> dict[str, Any]:
        """The arguments that ``mlx.nn`` does not have, where they are not default."""
        extras: dict[str, Any] = {}
        if self.dilation != 1:
            extras["dilation"] = self.dilation
        if self.ceil_mode:
            extras["ceil_mode"] = True
        if not self.count_include_pad:
            extras["count_include_pad"] = False
        return extras

    @property
    def overlapping(self) -> bool:
        """Whether neighbouring windows share taps."""
        return any(k > s for k, s in zip(self.kernel, self.stride, strict=True))

    @property
    def window(self) -> str:
        """``max 3/2/1`` is kernel 3, stride 2, padding 1; axes as ``1x3x3/1x2x2``."""
        if self.adaptive:
            return f"adaptive {self.op} {_axes(self.kernel)}"
        sizes = [self.kernel, self.stride]
        if any(self.padding):
            sizes.append(self.padding)
        flags = {"dilation": f" d{self.dilation}", "ceil_mode": " ceil"}
        flags["count_include_pad"] = " nopad"
        text = "/".join(_axes(size) for size in sizes)
        return f"{self.op} {text}" + "".join(flags[name] for name in self.extras)

    def compulsory_bytes(
        self, out_shape: Iterable[int], itemsize: int, out_itemsize: int | None = None
    ) -> tuple[int, int]:
        """Bytes that must be moved: forward, and forward + vjp.

        Forward reads x and writes y. The gradient reads dy and writes dx besides, and
        that of a maximum reads which tap it was, which forward has written. Elements
        of y are as large as those of x unless ``out_itemsize`` tells.
        """
        outputs = prod(out_shape)
        forward = prod(self.shape) * itemsize + outputs * (out_itemsize or itemsize)
        return forward, 2 * (forward + self._offset_bytes * outputs)

    @property
    def _offset_bytes(self) -> int:
        """Size of a maximum's offset, whose top value means that there is no tap."""
        taps = prod(self.kernel)
        size = 1 if taps <= 255 else 2 if taps <= 65_535 else 4
        return size if self.op == "max" else 0

    def larger_than(self, nbytes: float, itemsize: int) -> Case:
        """With so many samples that the input alone has more bytes."""
        batch, *sample = self.shape
        needed = _how_many(sample, nbytes, itemsize)
        return replace(self, shape=(max(batch, needed), *sample))

    def inputs_larger_than(self, nbytes: float, itemsize: int) -> int:
        """How many inputs have more bytes together."""
        return _how_many(self.shape, nbytes, itemsize)


def _how_many(shape: Sequence[int], nbytes: float, itemsize: int) -> int:
    """Arrays that have more bytes than that."""
    return int(nbytes / (prod(shape) * itemsize)) + 1


def _axes(size: tuple[int, ...]) -> str:
    return str(size[0]) if len(set(size)) == 1 else "x".join(map(str, size))


def make_case(
    name: str,
    op: str,
    shape: tuple[int, ...],
    kernel: int | tuple[int, ...],
    stride: int | tuple[int, ...],
    padding: int | tuple[int, ...] = 0,
    **extras: Any,
) -> Case:
    """A case of which sizes may be an int for all axes."""

    def spread(size: int | tuple[int, ...]) -> tuple[int, ...]:
        return (size,) * (len(shape) - 2) if isinstance(size, int) else size

    return Case(
        name, op, shape, spread(kernel), spread(stride), spread(padding), **extras
    )


CASES = (
    make_case("LeNet", "max", (64, 24, 24, 20), 2, 2),
    make_case("AlexNet", "max", (16, 55, 55, 64), 3, 2),
    make_case("VGG pool1", "max", (2, 224, 224, 64), 2, 2),
    make_case("VGG pool5", "max", (8, 14, 14, 512), 2, 2),
    make_case("ResNet stem", "max", (8, 112, 112, 64), 3, 2, 1),
    make_case("GoogLeNet pool3", "max", (8, 56, 56, 192), 3, 2, ceil_mode=True),
    make_case("Inception branch", "max", (8, 28, 28, 192), 3, 1, 1),
    make_case("CenterNet peaks", "max", (1, 128, 128, 80), 3, 1, 1),
    make_case("YOLO SPP 5", "max", (1, 19, 19, 512), 5, 1, 2),
    make_case("YOLO SPP 13", "max", (1, 19, 19, 512), 13, 1, 6),
    make_case("Large kernel", "max", (1, 64, 64, 64), 31, 1, 15),
    make_case("VGG a-trous", "max", (4, 28, 28, 512), 2, 1, 1, dilation=2),
    make_case("MNIST batch 1", "max", (1, 28, 28, 1), 2, 2),
    make_case("LeNet-5 classic", "avg", (64, 28, 28, 6), 2, 2),
    make_case("DenseNet transition", "avg", (8, 56, 56, 128), 2, 2),
    make_case("Inception-v3 branch", "avg", (8, 35, 35, 192), 3, 1, 1),
    make_case("PoolFormer", "avg", (8, 56, 56, 64), 3, 1, 1, count_include_pad=False),
    make_case("Local contrast", "avg", (1, 64, 64, 64), 31, 1, 15),
    make_case("Guided filter", "avg", (1, 64, 64, 64), 13, 1, 6),
    make_case("ResNet-50 head", "avg", (32, 7, 7, 2048), 7, 7),
    make_case("CIFAR head batch 1", "avg", (1, 8, 8, 64), 8, 8),
    make_case("RGB pyramid", "avg", (1, 256, 256, 3), 2, 2),
    make_case("M5 audio", "max", (4, 8000, 128), 4, 4),
    make_case("Audio stem", "max", (8, 8000, 64), 3, 2, 1),
    make_case("Autoformer trend", "avg", (16, 96, 512), 25, 1, 12),
    make_case(
        "R3D video stem", "max", (1, 8, 112, 112, 64), (1, 3, 3), (1, 2, 2), (0, 1, 1)
    ),
    make_case("I3D branch", "max", (1, 8, 28, 28, 192), 3, 1, 1),
    make_case("3-D U-Net", "max", (1, 32, 64, 64, 32), 2, 2),
    make_case("I3D head", "avg", (2, 8, 7, 7, 1024), (2, 7, 7), 1),
)


def make_global_case(name: str, op: str, shape: tuple[int, ...]) -> Case:
    """One window over all of each sample."""
    return make_case(name, op, shape, shape[1:-1], shape[1:-1])


GLOBAL_CASES = (
    make_global_case("SENet squeeze", "avg", (8, 56, 56, 256)),
    make_global_case("SENet squeeze 2", "avg", (8, 28, 28, 512)),
    make_global_case("SENet batch 1", "avg", (1, 56, 56, 256)),
    make_global_case("Fast-SCNN context", "avg", (1, 112, 112, 64)),
    make_global_case("ResNet-18 head", "avg", (32, 7, 7, 512)),
    make_global_case("MobileNetV2 head", "avg", (32, 7, 7, 1280)),
    make_global_case("SqueezeNet batch 1", "avg", (1, 13, 13, 1000)),
    make_global_case("ViT tokens", "avg", (16, 196, 768)),
    make_global_case("fastText", "avg", (32, 128, 300)),
    make_global_case("Raw audio", "avg", (8, 160_000, 1)),
    make_global_case("Text CNN", "max", (32, 128, 300)),
    make_global_case("PointNet", "max", (8, 1024, 1024)),
    make_global_case("CBAM", "max", (8, 28, 28, 512)),
    make_global_case("CBAM batch 1", "max", (1, 56, 56, 256)),
    make_global_case("ViT tokens, max", "max", (16, 196, 768)),
)
