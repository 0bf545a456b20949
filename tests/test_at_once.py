"""Small poolings on the CPU of values that are there already are done at once, in the
calling thread; nothing else about them may differ from what an evaluation does."""

from __future__ import annotations

import mlx.core as mx
import pytest
from metal.shader_host import RUNS_SHADERS
from mlx_pooling import _ext
from strategies import Data
from support import (
    Op,
    adaptive_op,
    assert_identical,
    avg_op,
    fixed,
    graph_nodes,
    jvp,
    max_op,
    min_op,
    power_sum,
    unevaluated,
    unpool_op,
    vjp,
)

pytestmark = pytest.mark.skipif(RUNS_SHADERS, reason="the shaders get all the work")

SHAPE = (2, 5, 6, 3)


@pytest.fixture(autouse=True)
def on_the_cpu(device: str):
    if device != "cpu":
        pytest.skip("a GPU gets all the work")


def unpooled(x: mx.array) -> mx.array:
    y, indices = max_op(2)(x, 2, return_indices=True)
    return unpool_op(2)(y, indices, 2, output_size=x.shape[1:3])


OPS = {
    "max": fixed(max_op(2), 3, 2, 1),
    "min": fixed(min_op(2), 3, 2, 1),
    "avg": fixed(avg_op(2), 3, 2, 1, count_include_pad=False),
    "indices": lambda x: max_op(2)(x, 3, 2, 1, return_indices=True)[1],
    "unpool": unpooled,
}
SMOOTH = [name for name in OPS if name != "indices"]


def small(seed: int = 0) -> mx.array:
    x = Data("normal", seed).array(SHAPE, mx.float32)
    mx.eval(x)
    return x


@pytest.mark.parametrize("name", OPS)
def test_the_same_values(name: str):
    for kind in ("nan", "ties"):
        x = Data(kind, 0).array(SHAPE, mx.float32)
        mx.eval(x)
        y = OPS[name](x)
        assert not graph_nodes(y)
        later = OPS[name](unevaluated(x))
        assert graph_nodes(later)
        assert_identical(y, later)


def test_views():
    x = small()
    for view in (x.transpose(0, 2, 1, 3), x[:, ::2], x[1:], mx.broadcast_to(x, SHAPE)):
        for f in OPS.values():
            assert_identical(f(view), f(unevaluated(view)))


def images() -> mx.array:
    """Much work for each of the threads, on as many as there are."""
    x = mx.zeros((_ext.cpu_settings()["NUM_THREADS"], 128, 128, 64), mx.uint8)
    mx.eval(x)
    return x


@pytest.mark.parametrize("kernel", [13, 31])
def test_much_work_waits(kernel: int):
    assert graph_nodes(max_op(2)(images(), kernel, 1))


def test_large_windows_that_share_inputs_have_few_taps_along_each_axis():
    x = mx.zeros((1, 88, 88, 16), mx.uint8)  # too few bytes for several threads
    mx.eval(x)
    assert not graph_nodes(max_op(2)(x, 31, 1, 15))


def test_elements_of_few_channels_count_as_parts_of_vectors():
    x = mx.zeros((8, 16000, 1))
    mx.eval(x)
    assert not graph_nodes(max_op(1)(x, 2))


def test_adaptive_windows_have_as_many_taps_as_they_share_out():
    x = mx.zeros((1, 4100, 4))
    mx.eval(x)
    for outputs in (4100, 3900):
        assert not graph_nodes(adaptive_op("max", 1)(x, outputs))
    # Four times as many taps would be too many.
    x = mx.zeros((1, 90, 90, 15), mx.uint8)
    mx.eval(x)
    assert not graph_nodes(adaptive_op("max", 2)(x, 90))
    assert graph_nodes(adaptive_op("max", 2)(images(), 125))


def test_nothing_is_computed_in_a_trace():
    assert graph_nodes(mx.compile(fixed(max_op(2), 2))(small()))


def test_vmap_of_small_work():
    pool = mx.vmap(fixed(max_op(2), 2))
    assert not graph_nodes(pool(small()))
    assert graph_nodes(pool(unevaluated(small())))


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name: str):
    f, x, t = OPS[name], small(), small(1)
    dy = f(small(2))
    assert_identical(vjp(f, x, dy), vjp(f, unevaluated(x), unevaluated(dy)))
    assert_identical(jvp(f, x, t), jvp(f, unevaluated(x), unevaluated(t)))


def gradient_of_a_pooled_gradient(f: Op) -> Op:
    """The inner transformation ends before the outer one pools what it gives."""
    inner = mx.grad(power_sum(f, 3))

    def outer(w: mx.array) -> mx.array:
        captured = mx.grad(lambda x: (f(x) * f(w)).sum())(w * w)
        return (f(inner(w)) ** 2).sum() + (f(captured) ** 3).sum()

    return mx.grad(outer)


@pytest.mark.parametrize("name", SMOOTH)
def test_transformations_inside_of_others(name: str):
    gradient = gradient_of_a_pooled_gradient(OPS[name])
    gradients = gradient(small()), gradient(unevaluated(small()))
    assert mx.any(gradients[0] != 0)
    assert_identical(*gradients)


@pytest.mark.parametrize("op", [max_op, min_op, avg_op])
def test_a_loop_over_its_own_results_keeps_none(op):
    x, f = small(), fixed(op(2), 3, 1, 1)
    live = []
    for step in range(60):
        (y,), (dx,) = mx.vjp(f, [x], [x])
        x = y if step % 2 else dx
        live.append(mx.get_active_memory())
    assert max(live[30:]) <= max(live[:30])


def test_long_chains_of_what_passes_on():
    """Neither gone through by recursion nor kept."""
    x = mx.ones((1, 8, 8, 4))
    mx.eval(x)
    for _ in range(100_000):
        x = mx.stop_gradient(x)
    y = max_op(2)(x, 2)
    assert_identical(y, mx.ones((1, 4, 4, 4)))
    assert graph_nodes(x) == []
