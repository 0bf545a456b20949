"""Large poolings share the threads of the CPU kernels, also when several Python threads
pool at once, each on a stream of its own."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import mlx.core as mx
import numpy as np
import pytest
from metal.shader_host import RUNS_SHADERS
from support import Op, avg_op, exact, fixed, max_op

pytestmark = pytest.mark.skipif(RUNS_SHADERS, reason="the threads of the CPU kernels")

POOLS = {
    "walk": fixed(max_op(2), 3, 2, 1),
    "sweep": fixed(max_op(2), 13, 1, 6),
    "rows": fixed(avg_op(2), 32),
}


def results(f: Op, x: mx.array) -> list[np.ndarray]:
    """On a stream of the calling thread: the outputs and the gradients."""
    stream = mx.new_stream(mx.cpu)
    with mx.stream(stream):
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
