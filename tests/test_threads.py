"""Large poolings share the threads of the CPU kernels, also when several Python threads
pool at once, each on a stream of its own; what the environment sets."""

from __future__ import annotations

import ast
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import mlx.core as mx
import numpy as np
import pytest
from metal.shader_host import RUNS_SHADERS
from support import Op, avg_op, exact, fixed, max_op, unevaluated

pytestmark = pytest.mark.skipif(RUNS_SHADERS, reason="the threads of the CPU kernels")

ON_LINUX = pytest.mark.skipif(
    sys.platform != "linux", reason="threads and limits as Linux has them"
)
POOLS = {
    "walk": fixed(max_op(2), 3, 2, 1),
    "sweep": fixed(max_op(2), 13, 1, 6),
    "rows": fixed(avg_op(2), 32),
}


def results(f: Op, x: mx.array) -> list[np.ndarray]:
    """On a stream of the calling thread: the outputs and the gradients."""
    stream = mx.new_stream(mx.cpu)
    with mx.stream(stream):
        x = unevaluated(x)  # or small ones are pooled in this thread
        (y,), (dx,) = mx.vjp(f, [x], [f(x)])
        mx.eval(y, dx)
    return [exact(y), exact(dx)]


@pytest.mark.parametrize("name", POOLS)
def test_several_streams_at_once(name: str):
    f = POOLS[name]
    inputs = [
        mx.random.normal((1, 64, 64, 64), key=mx.random.key(i), stream=mx.cpu)
        for i in range(6)
    ]
    mx.eval(inputs)
    expected = [results(f, x) for x in inputs]
    with ThreadPoolExecutor(6) as pool:
        for _ in range(3):
            for got, alone in zip(
                pool.map(lambda x: results(f, x), inputs), expected, strict=True
            ):
                for a, b in zip(got, alone, strict=True):
                    np.testing.assert_array_equal(a, b)


def run_alone(code: str, limits: str = "", **environment: str) -> str:
    """What a fresh interpreter prints, without the settings of this one."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("MLX_POOLING_")}
    return subprocess.run(
        ["sh", "-c", f'{limits} exec "$0" -c "$1"', sys.executable, code],
        env={**others, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
    ).stdout


@ON_LINUX
@pytest.mark.parametrize(
    "shape, pool, helpers",
    [
        ((1, 8, 8, 3), "max_pool2d(x, 2)", 0),
        ((8, 112, 112, 64), "max_pool2d(x, 2)", 1),
        ((8, 40, 40, 3), "adaptive_max_pool2d(x, (2, 14))", 1),
    ],
    ids=["tiny", "of many bytes", "of few bytes and many taps"],
)
def test_threads_start_where_they_are_worth_it(
    shape: tuple[int, ...], pool: str, helpers: int
):
    code = f"""
import os, mlx.core as mx, mlx_pooling
mx.set_default_device(mx.cpu)
x = mx.zeros({shape})
mx.eval(x)
before = len(os.listdir("/proc/self/task"))
mx.eval(mlx_pooling.{pool})
print(len(os.listdir("/proc/self/task")) - before)
"""
    assert int(run_alone(code, MLX_POOLING_NUM_THREADS="2")) == helpers


def settings_with(variable: str, value: str) -> dict[str, str]:
    code = "from mlx_pooling import _ext; print(_ext.cpu_settings())"
    shown = run_alone(code, **{f"MLX_POOLING_{variable}": value})
    return {name: str(found) for name, found in ast.literal_eval(shown).items()}


ISAS = ["baseline", "avx2"] if platform.machine() == "x86_64" else ["baseline"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        *[("NUM_THREADS", n) for n in ("1", "5")],
        *[("CACHE_BYTES", n) for n in ("0", "12345")],
        *[("ISA", isa) for isa in ISAS],
    ],
)
def test_environment_variables(variable: str, value: str):
    assert settings_with(variable, value)[variable] == value


@ON_LINUX
@pytest.mark.skipif(platform.machine() != "x86_64", reason="as x86-64 has them")
def test_the_caches_of_this_machine():
    cpu = Path("/proc/cpuinfo").read_text()
    stores_well = "AuthenticAMD" in cpu or " avx_vnni" in cpu
    is_known = Path("/sys/devices/system/cpu/cpu0/cache/index0/level").exists()
    found = int(settings_with("NUM_THREADS", "1")["CACHE_BYTES"])
    assert found > 0 or not (stores_well and is_known)
    assert found <= (16 << 20) * len(os.sched_getaffinity(0))


@pytest.mark.parametrize("value", ["", "many"])
def test_a_size_that_is_no_number_is_the_default(value: str):
    default = settings_with("NUM_THREADS", "1")["CACHE_BYTES"]
    assert settings_with("CACHE_BYTES", value)["CACHE_BYTES"] == default


@pytest.mark.parametrize("value", ["", "0", "-3", "many"])
def test_a_number_of_threads_that_is_none_is_the_default(value: str):
    default = settings_with("CACHE_BYTES", "0")["NUM_THREADS"]
    assert settings_with("NUM_THREADS", value)["NUM_THREADS"] == default


@ON_LINUX
def test_two_threads_keep_to_the_cpus_of_the_process():
    """Of which the one that helps leaves its caller's alone."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    code = """
import os
import mlx.core as mx
import mlx_pooling as mp
def pool_on(cpus):
    for thread in threads():
        os.sched_setaffinity(thread, cpus)
    mx.eval(mp.avg_pool2d(x, 3, 1, 1))
    return [os.sched_getaffinity(thread) for thread in threads()]
def threads():
    return map(int, os.listdir("/proc/self/task"))
mx.set_default_device(mx.cpu)
x = mx.random.normal((8, 64, 64, 64))
mx.eval(x)
first, second, *_ = os.sched_getaffinity(0)
for cpu in (first, second):
    print(max(map(len, pool_on({cpu}))))
both = pool_on({first, second})
print(sum(len(cpus) == 1 for cpus in both), set.union(*both) == {first, second})
"""
    shown = run_alone(code, MLX_POOLING_NUM_THREADS="2")
    assert shown.split() == ["1", "1", "1", "True"]


@ON_LINUX
def test_a_fork_has_no_threads_and_collects_no_work_for_them():
    code = """
import os
import mlx.core as mx
import mlx_pooling as mp
def pages():
    return int(open("/proc/self/statm").read().split()[1])
def pool(times):
    for _ in range(times):
        mx.eval(mp.max_pool2d(x, 3, 2))  # at once, in this thread
mx.set_default_device(mx.cpu)
x = mx.random.normal((1, 33, 65, 64))
pool(9)
if os.fork() == 0:
    pool(99)
    before = pages()
    pool(9999)
    print(pages() - before, flush=True)
    os._exit(0)
os.wait()
"""
    assert int(run_alone(code, MLX_POOLING_NUM_THREADS="2")) < 100


# Memory that the process may still ask for, in MB.
LIMITED = """
import os
import re
import resource
import mlx.core as mx
import mlx_pooling as mp
mx.set_default_device(mx.cpu)
mx.set_cache_limit(0)
def limit(megabytes):
    status = open("/proc/self/status").read()
    used = int(re.search(r"VmSize:\\s+(\\d+)", status)[1]) << 10
    resource.setrlimit(resource.RLIMIT_AS, (used + (megabytes << 20), -1))
"""


@ON_LINUX
def test_fewer_threads_than_asked_for():
    """As where the system gives no more: here, no memory for a third of their stacks,
    64 MB each."""
    code = """
x = mx.random.normal((8, 64, 64, 64))
expected = mx.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
expected = sum(expected[:, i : i + 64, j : j + 64] for i in range(3) for j in range(3))
mx.eval(x, expected)
limit(180)
first = mp.avg_pool2d(x, 3, 1, 1, divisor_override=1)
mx.eval(first)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
second = mp.avg_pool2d(x, 3, 1, 1, divisor_override=1)
for y in (first, second):
    assert mx.allclose(y, expected, atol=1e-4)
print(len(os.listdir("/proc/self/task")))
"""
    one, many = (
        int(run_alone(LIMITED + code, "ulimit -s 65536;", MLX_POOLING_NUM_THREADS=n))
        for n in ("1", "400")
    )
    assert 0 < many - one < 10


@ON_LINUX
@pytest.mark.parametrize("megabytes", [20, 80])
def test_no_memory_is_an_error_and_the_next_pooling_works(megabytes: int):
    """For the output, or for what a kernel keeps in between."""
    code = f"""
x = mx.random.normal((1, 16, 128, 128, 64))
small = mx.ones((1, 8, 8, 8, 64))
mx.eval(x, mp.avg_pool3d(small, 9, 1, 4))
limit({megabytes})
try:
    mx.eval(mp.avg_pool3d(x, 9, 1, 4))
except (MemoryError, RuntimeError) as error:
    print(error)
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
mx.eval(mp.avg_pool3d(small, 9, 1, 4))
"""
    shown = run_alone(
        LIMITED + code,
        MLX_POOLING_NUM_THREADS="1",
        MALLOC_MMAP_THRESHOLD_="100000",
        MALLOC_ARENA_MAX="1",
    )
    assert "bad_alloc" in shown
