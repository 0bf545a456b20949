"""Python's ways of writing window sizes, turned into a checked ``Window``."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, wraps
from typing import Any, Literal, ParamSpec, SupportsIndex, TypeAlias, TypeGuard

import mlx.core as mx

from ._ext import Window

IntOrInts: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
Padding: TypeAlias = (
    IntOrInts | Sequence[Sequence[SupportsIndex]] | Literal["same", "valid"]
)
OptionalInts: TypeAlias = Sequence[SupportsIndex | None]
OutputSize: TypeAlias = SupportsIndex | OptionalInts | None
Stream: TypeAlias = mx.Stream | mx.ThreadLocalStream | mx.Device | mx.DeviceType | None
# What a flag makes a tuple of maxima and indices. Callers know, but with a union
# they would have to tell the type checker, too.
Maxima: TypeAlias = mx.array | Any
Sizes = ParamSpec("Sizes")


def _remembered(make: Callable[Sizes, Window]) -> Callable[Sizes, Window]:
    """``make``, for functions that want the same window at every call."""
    known: Any = lru_cache(maxsize=256, typed=True)(make)

    @wraps(make)
    def window(*args: Sizes.args, **kwargs: Sizes.kwargs) -> Window:
        is_told_apart = _are_of(_TOLD_APART, args) and _are_of(
            _TOLD_APART, kwargs.values()
        )
        return (known if is_told_apart else make)(*args, **kwargs)

    return window


# Types that a cache tells apart; within tuples it takes (2, 2) and (2, 2.0) for one.
_TOLD_APART: frozenset[type] = frozenset((int, bool, str, type(None)))
_TOLD_APART_IN_TUPLES: frozenset[type] = frozenset((int, type(None)))


def _are_of(types: frozenset[type], values: Iterable[object]) -> bool:
    for value in values:  # a generator would take three times as long
        if type(value) is tuple:
            if not _are_of(_TOLD_APART_IN_TUPLES, value):
                return False
        elif type(value) not in types:
            return False
    return True


@_remembered
def make_window(
    name: str,
    axes: int,
    kernel_size: IntOrInts,
    stride: IntOrInts | None,
    padding: Padding,
    dilation: IntOrInts,
    *,
    ceil_mode: bool,
    count_include_pad: bool = True,
    divisor_override: SupportsIndex | None = None,
    minimum: bool = False,
) -> Window:
    """Return the ``Window`` of an operation over ``axes`` spatial axes.

    Raises:
        ValueError: For a wrong number or type of sizes, or one out of range.
        TypeError: For a wrong type of another argument.
    """
    kernel = _sizes(name, "kernel_size", kernel_size, axes)
    pads = _pads(name, padding, axes)
    return Window(
        name,
        kernel,
        kernel if stride is None else _sizes(name, "stride", stride, axes),
        [low for low, _ in pads],
        [high for _, high in pads],
        _sizes(name, "dilation", dilation, axes),
        check_flag(name, "ceil_mode", ceil_mode),
        check_flag(name, "count_include_pad", count_include_pad),
        _divisor(name, divisor_override),
        isinstance(padding, str) and padding == "same",
        minimum,
    )


@_remembered
def make_adaptive_window(name: str, axes: int, output_size: OutputSize) -> Window:
    """Return the ``Window`` that has ``output_size`` outputs, None: as many as inputs.

    Raises:
        ValueError: For a wrong number or type of sizes, or one out of range.
    """
    sizes = output_size if _is_sequence(output_size) else [output_size] * axes
    return Window.adaptive(
        name, _optional_sizes(name, output_size, sizes, (axes,), "an integer, None")
    )


@_remembered
def make_unpool_window(
    name: str,
    axes: int,
    kernel_size: IntOrInts,
    stride: IntOrInts | None,
    padding: IntOrInts,
    output_size: OptionalInts | None = None,
) -> Window:
    """Return the ``Window`` of an operation that undoes a max pooling.

    ``output_size`` may be a whole shape, of which the spatial axes are taken.

    Raises:
        ValueError: For a wrong number or type of sizes, or one out of range.
    """
    kernel = _sizes(name, "kernel_size", kernel_size, axes)
    pads = _sizes(name, "padding", padding, axes)
    sizes: list[int | None] = [None] * axes
    if output_size is not None:
        given = output_size if _is_sequence(output_size) else ()
        lengths = (axes, axes + 1, axes + 2)
        forms = "None, a whole shape"
        sizes = _optional_sizes(name, output_size, given, lengths, forms)
        if len(sizes) > axes:
            sizes = sizes[:-1][-axes:]
    return Window.unpool(
        name,
        kernel,
        kernel if stride is None else _sizes(name, "stride", stride, axes),
        pads,
        pads,
        sizes,
    )


def _sizes(
    name: str, argument: str, value: object, axes: int, form: str | None = None
) -> list[int]:
    """Return an integer for each axis, or raise that the argument lacks its form."""
    sizes = _integers(value if _is_sequence(value) else [value] * axes)
    if sizes is None or len(sizes) != axes:
        form = form or f"an integer or {_tuple_of(axes, 'integer')}"
        raise _wrong_form(name, argument, form, value)
    return _fitting(name, argument, sizes)


def _plural(number: int) -> str:
    return "s" if number > 1 else ""


def _tuple_of(number: int, what: str) -> str:
    return f"a tuple containing {number} {what}{_plural(number)}"


def _wrong_form(name: str, argument: str, form: str, value: object) -> ValueError:
    return ValueError(f"[{name}] '{argument}' must be {form} but got {value!r}.")


def _optional_sizes(
    name: str,
    value: object,
    sizes: Sequence[object],
    lengths: tuple[int, ...],
    forms: str,
) -> list[int | None]:
    """Return ``sizes`` as integers or None, or raise that ``value`` lacks its form."""
    given = _integers([size for size in sizes if size is not None])
    if given is None or len(sizes) not in lengths:
        form = f"{forms} or {_tuple_of(lengths[0], 'integer')} or None"
        raise _wrong_form(name, "output_size", form, value)
    _fitting(name, "output_size", given)
    return [None if size is None else _integer(size) for size in sizes]


def _pads(name: str, value: object, axes: int) -> list[list[int]]:
    """Return a low and a high padding for each axis."""
    if isinstance(value, str) and value in ("same", "valid"):
        return [[0, 0]] * axes  # that of "same" follows from the input
    form = (
        f"an integer or {_tuple_of(axes, 'integer')} or (lo, hi) pair{_plural(axes)}, "
        "'same' or 'valid'"
    )
    if _is_sequence(value) and any(_is_sequence(v) for v in value):
        integers = [_integers(v) if _is_sequence(v) else None for v in value]
        pairs = [pair for pair in integers if pair is not None and len(pair) == 2]
        if not len(pairs) == len(value) == axes:
            raise _wrong_form(name, "padding", form, value)
        if any(pad < 0 for pair in pairs for pad in pair):
            raise ValueError(
                f"[{name}] 'padding' must be non-negative but got {value}."
            )
        return [_fitting(name, "padding", pair) for pair in pairs]
    return [[pad, pad] for pad in _sizes(name, "padding", value, axes, form)]


def _is_sequence(value: object) -> TypeGuard[Sequence[Any]]:
    """Whether it is one of those that hold sizes."""
    return isinstance(value, (list, tuple))


def _integer(value: object) -> int | None:
    """Return ``value`` as an int, or None: a bool or a float is no size."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _integers(values: Sequence[object]) -> list[int] | None:
    """Return ``values`` as ints, or None if one of them is no size."""
    sizes = [size for v in values if (size := _integer(v)) is not None]
    return sizes if len(sizes) == len(values) else None


def _fits(size: int) -> bool:
    return -(2**63) <= size < 2**63


def _fitting(name: str, argument: str, sizes: list[int]) -> list[int]:
    """Refuse what cannot be handed to C++, which checks the actual range."""
    if not all(_fits(size) for size in sizes):
        raise ValueError(
            f"[{name}] '{argument}' must fit in 64 bits but got {tuple(sizes)}."
        )
    return sizes


def check_flag(name: str, argument: str, value: object) -> bool:
    """Return ``value`` if it is a bool, else raise TypeError."""
    if not isinstance(value, bool):
        raise TypeError(f"[{name}] '{argument}' must be a bool but got {value!r}.")
    return value


def check_array(name: str, argument: str, value: object) -> None:
    """Raise TypeError for what is no array."""
    if not isinstance(value, mx.array):
        raise TypeError(
            f"[{name}] '{argument}' must be an mlx.core.array but got "
            f"{type(value).__name__}."
        )


def check_stream(name: str, stream: object) -> None:
    """Raise TypeError for what MLX's operations do not take as a stream."""
    kinds = (mx.Stream, mx.ThreadLocalStream, mx.Device, mx.DeviceType)
    if stream is not None and not isinstance(stream, kinds):
        raise TypeError(
            f"[{name}] 'stream' must be a Stream, Device or None but got {stream!r}."
        )


def check_norm_type(name: str, value: object) -> float:
    """Return ``value`` if it is a positive number, else raise.

    Raises:
        TypeError: For what is no number.
        ValueError: For one that is not positive, or too large to be finite.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"[{name}] 'norm_type' must be a number but got {value!r}.")
    # A float32 could not hold the inverse.
    if 2**100 < value < math.inf:  # type: ignore[operator]
        raise ValueError(
            f"[{name}] 'norm_type' must be at most 2**100 or infinite but got {value}."
        )
    number = float(value)
    if not number > 0:
        raise ValueError(f"[{name}] 'norm_type' must be positive but got {value}.")
    return number


def _divisor(name: str, value: object) -> int | None:
    if value is None:
        return None
    divisor = _integer(value)
    if divisor is None:
        raise TypeError(
            f"[{name}] 'divisor_override' must be an integer or None but got {value!r}."
        )
    if not _fits(divisor):
        raise ValueError(
            f"[{name}] 'divisor_override' must fit in 64 bits but got {divisor}."
        )
    return divisor
