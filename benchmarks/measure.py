"""Timing that is fair to every contender, the copy bandwidth, and where it all ran."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TypeVar

import mlx.core as mx
import numpy as np

# MLX keeps 32 MB of freed buffers by default and asks the system for every larger
# result afresh, so that page faults would swamp the kernels. One limit for all.
CACHE_LIMIT = 2 << 30

# Beyond the last-level cache, and well inside the first ones.
COPY_BYTES = 128 << 20
CACHED_COPY_BYTES = 256 << 10

# The threads of PyTorch spin for some milliseconds after their work: wait that out,
# or they take a core from the contender that comes next.
SETTLE_SECONDS = 0.01

Action = Callable[[], object]
Turn = Callable[[], list[float]]  # gives the times of some calls of an action
Name = TypeVar("Name")  # of a contender


def seconds(action: Action) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def turn(action: Action, min_time: float) -> list[float]:
    """Times of consecutive calls that together take at least ``min_time`` seconds."""
    # Else MLX would hand out the buffers that other contenders freed, one after the
    # other, none of which is in the CPU's cache.
    mx.clear_cache()
    time.sleep(SETTLE_SECONDS)
    action()  # untimed: wakes threads and brings what calls share into the cache
    times = [seconds(action)]
    while sum(times) < min_time:
        times.append(seconds(action))
    return times


def interleave(
    actions: Mapping[Name, Action], repeats: int, min_time: float
) -> dict[Name, float]:
    """Median seconds of a call to each action."""
    turns = {name: partial(turn, action, min_time) for name, action in actions.items()}
    return take_turns(turns, repeats)


def take_turns(turns: Mapping[Name, Turn], repeats: int) -> dict[Name, float]:
    """Median of the seconds that each turn gives.

    They take turns, so that a drift of the machine's speed hits them alike, and every
    other round goes backwards, so that none always follows the same one.
    """
    times: dict[Name, list[float]] = {name: [] for name in turns}
    order = list(turns)
    for _ in range(repeats):
        for name in order:
            times[name] += turns[name]()
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


def last_level_cache_bytes() -> int:
    """Size of the cache before memory, 0 where the system does not tell.

    On a Mac that is a level 2 cache: nothing reports the system-level cache behind it.
    """
    if platform.system() == "Darwin":
        names = ("hw.l3cachesize", "hw.perflevel0.l2cachesize", "hw.l2cachesize")
        return max(map(_sysctl, names))
    caches: dict[tuple[int, str], int] = {}
    for size in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cache/index*/size"):
        level = int((size.parent / "level").read_text())
        sharing = (size.parent / "shared_cpu_list").read_text()
        kilobytes = size.read_text().strip().removesuffix("K")
        caches[level, sharing] = int(kilobytes) << 10
    last = max((level for level, _ in caches), default=0)
    return sum(nbytes for (level, _), nbytes in caches.items() if level == last)


def _sysctl(name: str) -> int:
    """A number of the system's, 0 where it has no such name."""
    call = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True)
    return int(call.stdout) if call.returncode == 0 else 0


def this_command() -> str:
    script = f"benchmarks/{Path(sys.argv[0]).name}"
    return shlex.join(["python", script, *sys.argv[1:]])


def versions_of(*packages: str) -> str:
    """Python's, and those of the packages that are installed."""
    versions = [f"python {platform.python_version()}"]
    for package in packages:
        with suppress(PackageNotFoundError):
            versions.append(f"{package} {version(package)}")
    return ", ".join(versions)


def describe(device: mx.Device, *packages: str) -> dict[str, str]:
    """The command, the machine and the versions, as text for a header and for JSON."""
    return {
        "command": this_command(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f} before the run",
        "device": f"{device.type.name}, {mx.device_info(device)['device_name']}",
        "versions": versions_of(*packages),
    }
