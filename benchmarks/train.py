"""Train a small CNN on handwritten digits with mlx.nn's pooling and with mlx_pooling.

    python benchmarks/train.py
    python benchmarks/train.py --epochs 30 --seed 1 --plot curves.png

Both networks start from the same seed and see the same batches of scikit-learn's 1797
scanned digits. The exit status is 1 if their loss curves part beyond rounding.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median
from types import ModuleType

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
import mlx_pooling
import numpy as np
from command import add_device, new_parser, positive
from measure import choose_device, describe
from report import OURS, THEIRS
from sklearn.datasets import load_digits

TEST_IMAGES = 357  # leaves 1440, that is 45 batches
BATCH = 32

# What rounding alone does was measured, for seeds 0 to 7, by training mlx.nn's network
# with the last bit of every initial weight changed, and with the same pooling written
# in other operations: the mean losses of an epoch differ by at most 2e-7 in the first
# five epochs. Later, in some window the best two taps come so close that the networks
# choose differently, and the curves part for good: by 5e-6 in 12 epochs, by 4e-3 in 40.
# A wrong gradient shows at once: an average that leaves the padding out of its divisor
# makes 2e-2 in the first epoch, a maximum that loses one pixel of 1024 makes 3e-5.
EARLY_EPOCHS = 5
EARLY_TOLERANCE = 1e-5
LATE_TOLERANCE = 2e-2


class Net(nn.Module):
    """conv, max pool, conv, avg pool, linear; the pools' windows overlap.

    Ties are the one thing that the two libraries treat differently by design: mlx.nn
    divides the gradient among the equal taps, we give it to the first. Scanned digits
    have blank margins, where a convolution's outputs do tie. With the max pool on the
    first convolution this cannot show: the taps tie because they saw the same pixels,
    each adds gradient times pixels to the weights' gradient, and the sum is the same
    however the gradient is divided. Nothing is learned below that convolution, and the
    pool comes before the ReLU, so that no zeros of its making tie. (With seed 0, 16908
    of 460032 windows tie at the start, every one of them over equal pixels.)
    """

    def __init__(self, pools: ModuleType) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.max_pool = pools.MaxPool2d(3, stride=2, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.avg_pool = pools.AvgPool2d(3, stride=2, padding=1)
        self.linear = nn.Linear(2 * 2 * 32, 10)

    def __call__(self, x: mx.array) -> mx.array:
        x = nn.relu(self.max_pool(self.conv1(x)))
        x = nn.relu(self.avg_pool(self.conv2(x)))
        return self.linear(x.flatten(1))


def mean_loss(net: Net, x: mx.array, y: mx.array) -> mx.array:
    return nn.losses.cross_entropy(net(x), y, reduction="mean")


class Training:
    """A network, its optimizer, and what was seen while it learned."""

    def __init__(self, pools: ModuleType, seed: int) -> None:
        mx.random.seed(seed)
        self.net = Net(pools)
        # Calm steps: a larger rate learns faster but blows rounding up.
        self.optimizer = optim.SGD(learning_rate=0.01, momentum=0.9)
        self.loss_and_grad = nn.value_and_grad(self.net, mean_loss)
        self.losses: list[float] = []  # one an epoch
        self.accuracies: list[float] = []
        self.seconds: list[float] = []  # one a step

    def step(self, x: mx.array, y: mx.array) -> float:
        start = time.perf_counter()
        loss, gradients = self.loss_and_grad(self.net, x, y)
        self.optimizer.update(self.net, gradients)
        mx.eval(loss, self.net.parameters(), self.optimizer.state)
        self.seconds.append(time.perf_counter() - start)
        return loss.item()

    def accuracy(self, x: mx.array, y: mx.array) -> float:
        return (mx.argmax(self.net(x), axis=1) == y).mean().item()


def digits(rng: np.random.Generator) -> tuple[mx.array, mx.array]:
    """All images (1797, 8, 8, 1), scaled to mean 0 and variance 1, and labels."""
    data = load_digits()
    order = rng.permutation(len(data.target))
    images = (data.images - data.images.mean()) / data.images.std()
    x = images[order, :, :, None].astype(np.float32)
    return mx.array(x), mx.array(data.target[order].astype(np.uint32))


def train(epochs: int, seed: int) -> dict[str, Training]:
    """Train both side by side, batch by batch, printing a line an epoch."""
    rng = np.random.default_rng(seed)
    x, y = digits(rng)
    test_x, test_y = x[:TEST_IMAGES], y[:TEST_IMAGES]
    train_x, train_y = x[TEST_IMAGES:], y[TEST_IMAGES:]
    both = {THEIRS: Training(nn, seed), OURS: Training(mlx_pooling, seed)}

    print(f"{'':5}{'training loss':^26}{'':11}{'test accuracy':^23}")
    print(f"epoch{THEIRS:>13}{OURS:>13}{'difference':>11}{THEIRS:>11}{OURS:>12}")
    for epoch in range(1, epochs + 1):
        batches = rng.permutation(len(train_x)).reshape(-1, BATCH)
        losses: dict[str, list[float]] = {name: [] for name in both}
        for batch in map(mx.array, batches):
            for name, training in both.items():
                losses[name].append(training.step(train_x[batch], train_y[batch]))
        for name, training in both.items():
            training.losses.append(float(np.mean(losses[name])))
            training.accuracies.append(training.accuracy(test_x, test_y))
        theirs, ours = both.values()
        difference = abs(theirs.losses[-1] - ours.losses[-1])
        print(
            f"{epoch:5}{theirs.losses[-1]:13.8f}{ours.losses[-1]:13.8f}"
            f"{difference:11.1e}{theirs.accuracies[-1]:11.2%}{ours.accuracies[-1]:12.2%}",
            flush=True,
        )
    return both


def within_rounding(differences: np.ndarray) -> bool:
    bounds = np.full(len(differences), LATE_TOLERANCE)
    bounds[:EARLY_EPOCHS] = EARLY_TOLERANCE
    return bool((differences <= bounds).all())  # false for NaN as well


def plot(path: Path, title: str, both: dict[str, Training]) -> None:
    """Both loss curves and both accuracies; the curves should be one."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 4), layout="constrained", sharex=True
    )
    for (name, training), style in zip(both.items(), ("-", "--"), strict=True):
        epochs = range(1, len(training.losses) + 1)
        width = 5 if style == "-" else 2  # the second one drawn shows inside the first
        left.plot(epochs, training.losses, style, linewidth=width, label=name)
        right.plot(epochs, training.accuracies, style, linewidth=width, label=name)
    left.set_ylabel("training loss")
    right.set_ylabel("test accuracy")
    for axis in (left, right):
        axis.set_xlabel("epoch")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.suptitle(title)
    figure.savefig(path, dpi=120)


def parse_args() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument(
        "--epochs", type=positive, default=12, metavar="N", help="default: %(default)s"
    )
    add_device(parser)
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="of the weights, the split and the batches (default: %(default)s)",
    )
    parser.add_argument(
        "--plot", type=Path, metavar="PNG", help="draw the loss and accuracy curves"
    )
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    about = describe(choose_device(args.device), "mlx-pooling", "mlx")
    for key, value in about.items():
        print(f"{key}: {value}")
    print()
    both = train(args.epochs, args.seed)

    theirs, ours = (median(training.seconds) for training in both.values())
    print(
        f"\nmedian time of a step: {THEIRS} {theirs * 1e3:.2f} ms, "
        f"{OURS} {ours * 1e3:.2f} ms ({theirs / ours:.2f} times as fast)"
    )
    curves = [np.array(training.losses) for training in both.values()]
    differences = np.abs(curves[0] - curves[1])
    print(f"largest difference of the losses: {differences.max():.1e}")
    if args.plot:
        title = f"handwritten digits, seed {args.seed}, on {about['device']}"
        plot(args.plot, title, both)
    if not within_rounding(differences):
        raise SystemExit("the loss curves part beyond rounding")
    print("the loss curves agree within rounding")


if __name__ == "__main__":
    main()
