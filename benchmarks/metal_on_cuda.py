"""Time the Metal shaders, as CUDA C++, on the pooling layers of real networks.

    python benchmarks/metal_on_cuda.py
    python benchmarks/metal_on_cuda.py --filter resnet --dtype float16 --json out.json

A stand-in for a Mac where there is an NVIDIA GPU: it runs the launches that a Mac gets,
of the same source, and tells whether they keep a memory busy and how much they compute.
It is no measure of Apple's GPUs, whose memories are slower for what they compute.
Linux, a driver and NVRTC (pip install nvidia-cuda-nvrtc, its folder in
LD_LIBRARY_PATH) are all of CUDA that it takes.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

import mlx.core as mx
from command import (
    add_filter,
    add_json,
    new_parser,
    positive,
    print_header,
    select,
    track,
    wide_console,
    write_json,
)
from measure import this_command, versions_of
from report import PASSES, number
from rich import box
from rich.table import Table
from shaders import DTYPES, add_build, shader_host, use_shaders
from shapes import CASES, GLOBAL_CASES, Case

NOTES = """\
ms: all launches of the pass, each in the fastest repeat, of five launches. MB: least
  that the pass must move, x and y, and where there is a gradient dy and dx, with the
  offsets that a maximum writes and reads back. of copy: MB over ms, to what a copy
  within the GPU's memory reads and writes in that time. More than 100 %: the GPU's
  cache holds some."""


def run_case(case: Case, dtype: str, bandwidth: float) -> dict[str, Any]:
    """Both passes of one case, ready for JSON."""
    import mlx_pooling

    x = mx.random.normal(case.shape, key=mx.random.key(0)).astype(getattr(mx, dtype))
    sizes = (case.kernel, case.stride, case.padding)
    layer = getattr(mlx_pooling, case.layer)(*sizes, **case.extras)
    y = layer(x)
    mx.eval(y)
    forward = shader_host.take_records()
    mx.eval(mx.vjp(layer, [x], [mx.ones_like(y)]))
    both = shader_host.take_records()

    least, least_of_both = case.compulsory_bytes(y.shape, x.itemsize)
    result: dict[str, Any] = {**asdict(case), "window": case.window}
    for which, records, nbytes in (
        ("forward", forward, least),
        ("vjp", both, least_of_both),
    ):
        milliseconds = sum(record["milliseconds"] for record in records)
        result[which] = {
            "milliseconds": milliseconds,
            "bytes": nbytes,
            "of_copy": nbytes / (milliseconds / 1e3) / bandwidth,
            "kernels": [record["kernel"] for record in records],
        }
    return result


def table(results: list[dict[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for head in ("case", "window", "shape"):
        table.add_column(head, no_wrap=True)
    for title in PASSES.values():
        for head in (f"{title}\nms", "MB", "of\ncopy", "dis-\npatches"):
            table.add_column(head, justify="right", no_wrap=True)
    for result in results:
        cells = []
        for which in PASSES:
            counts = result[which]
            cells += [
                number(counts["milliseconds"]),
                number(counts["bytes"] / 1e6),
                f"{100 * counts['of_copy']:.0f} %",
                str(len(counts["kernels"])),
            ]
        shape = "x".join(map(str, result["shape"]))
        table.add_row(result["name"], result["window"], shape, *cells)
    return table


def parse_args() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument(
        "--global",
        action="store_true",
        dest="whole",
        help="windows over a whole input",
    )
    parser.add_argument(
        "--larger-than",
        type=float,
        default=0,
        metavar="MB",
        help="as many samples more as make every input larger, such as than a cache",
    )
    parser.add_argument(
        "--repeats", type=positive, default=10, metavar="N", help="default: %(default)s"
    )
    add_filter(parser)
    add_json(parser)
    add_build(parser)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    shader_host.require_driver()
    cases = select(GLOBAL_CASES if args.whole else CASES, args.filter)
    if args.larger_than:
        itemsize = getattr(mx, args.dtype).size
        cases = [case.larger_than(1e6 * args.larger_than, itemsize) for case in cases]
    mx.set_default_device(mx.cpu)
    console = wide_console(150)
    with console.status("building the extension"):
        use_shaders(args.build)
    try:
        shader_host.use_cuda(shader_host.library(), args.repeats)
    except RuntimeError as error:
        raise SystemExit(str(error)) from None
    bandwidth = shader_host.library().cuda_copy_bandwidth()
    about = {
        "command": this_command(),
        "versions": versions_of("mlx"),
        "GPU": shader_host.library().cuda_device().decode(),
        "copy": f"{bandwidth / 1e9:.0f} GB/s read and written",
        "dtype": args.dtype,
    }
    print_header(console, about)
    results = [
        run_case(case, args.dtype, bandwidth) for case in track(cases, lambda c: c.name)
    ]
    console.print(table(results))
    console.print(NOTES, soft_wrap=True)
    write_json(args.json, about=about, results=results)


if __name__ == "__main__":
    main()
