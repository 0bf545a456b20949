"""Timing that is fair to every contender, the copy bandwidth, and where it all ran."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from statistics import median

import mlx.core as mx
import numpy as np

# MLX keeps 32 MB of freed buffers by default and asks the system for every larger
# result afresh, so that page faults would swamp the kernels. One limit for all.
CACHE_LIMIT = 2 << 30

# Beyond the last-level cache, and well inside the first ones.
COPY_BYTES = 128 << 20
CACHED_COPY_BYTES = 256 << 10

# A team of OpenMP threads spins for some milliseconds after its work: wait that out,
# or it takes a core from the contender that comes next.
SETTLE_SECONDS = 0.01

Action = Callable[[], object]


def seconds(action: Action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def turn(action: Action, min_time: float) -> list[float]:
    """Times of consecutive calls that together take at least ``min_time`` seconds."""
    time.sleep(SETTLE_SECONDS)
    action()  # untimed: wakes threads and brings this contender's data into the cache
    times = [seconds(action)]
    while sum(times) < min_time:
        times.append(seconds(action))
    return times


def interleave(
    actions: Mapping[str, Action], repeats: int, min_time: float
) -> dict[str, float]:
    """Median seconds of a call to each action.

    The actions take turns, so that a drift of the machine's speed hits them alike, and
    every other round goes backwards, so that none always follows the same one.
    """
    times: dict[str, list[float]] = {name: [] for name in actions}
    order = list(actions)
    for _ in range(repeats):
        for name in order:
            times[name] += turn(actions[name], min_time)
        order.reverse()
    return {name: median(values) for name, values in times.items()}


def copier(device: mx.Device, threads: int) -> Action:
    """An action that copies COPY_BYTES through memory as fast as the device can."""
    if device == mx.gpu:
        x = mx.zeros(COPY_BYTES // 4, dtype=mx.float32)
        return lambda: mx.eval(mx.negative(x))
    source = np.array_split(np.ones(COPY_BYTES, np.uint8), threads)
    target = np.array_split(np.zeros(COPY_BYTES, np.uint8), threads)
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(np.copyto, target, source))


def cached_copy_gbps(threads: int) -> float:
    """Bandwidth of CPU copies that stay in cache, reads plus writes."""
    calls = 2000

    def work(_: int) -> None:
        source = np.ones(CACHED_COPY_BYTES, np.uint8)
        target = np.zeros_like(source)
        for _ in range(calls):
            np.copyto(target, source)

    with ThreadPoolExecutor(threads) as pool:
        elapsed = median(turn(lambda: list(pool.map(work, range(threads))), 0.1))
    return 2 * CACHED_COPY_BYTES * calls * threads / elapsed / 1e9


def peak_bytes(action: Action) -> int:
    """Most MLX memory that one call holds at once, beyond what is live before it."""
    live = mx.get_active_memory()
    mx.reset_peak_memory()
    action()
    return mx.get_peak_memory() - live


def choose_device(name: str | None) -> mx.Device:
    """Make the named device the default (None leaves MLX's choice) and return it."""
    if name == "gpu" and not mx.is_available(mx.gpu):
        raise SystemExit("MLX has no GPU here; use --device cpu")
    if name is not None:
        mx.set_default_device(getattr(mx, name))
    return mx.default_device()


def describe(device: mx.Device, *packages: str) -> dict[str, str]:
    """The machine and the installed versions, as text for a header and for JSON."""
    versions = [f"python {platform.python_version()}"]
    for package in packages:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} before the run",
        "device": f"{device.type.name}, {mx.device_info(device)['device_name']}",
        "versions": ", ".join(versions),
    }
