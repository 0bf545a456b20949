"""Breaks the shaders and launch plans, one line at a time; the tests must notice.

    python tests/metal/mutations.py
    python tests/metal/mutations.py --filter covers.h --jobs 2

Each mutation is made in a copy of the project, whose host build then runs the tests of
the shaders, up to the first failure. The exit status is 1 if a mutation survives. Only
mutations that change what is computed belong here: one that costs time is not caught.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table
from shader_host import PROJECT, environment

# By file: (old text, new text). The old text must occur there exactly once.
MUTATIONS = {
    "metal/common.h": [
        ("kernel_h [[function_constant(1)]]", "kernel_h [[function_constant(2)]]"),
        ("stride_w [[function_constant(5)]]", "stride_w [[function_constant(4)]]"),
        ("clip_rows [[function_constant(12)]]", "clip_rows [[function_constant(13)]]"),
        (
            "adaptive_h [[function_constant(20)]]",
            "adaptive_h [[function_constant(21)]]",
        ),
        ("i >= range.first &&", ""),
        ("&& i < range.last", ""),
        ("max(i, range.first)", "i"),
        ("o * axis.stride - axis.pad_lo", "o * axis.stride"),
        ("o * axis.in / axis.out :", "o * (axis.in / axis.out) :"),
        (
            "((o + 1) * axis.in - 1) / axis.out + 1 - start",
            "((o + 1) * axis.in) / axis.out - start",
        ),
        ("using type = T;", "using type = float;"),
        ("bool is_nan(T v) {\n  return v != v;", "bool is_nan(T v) {\n  return v < v;"),
        ("Index(thread_at.y) * TW", "Index(thread_at.y) * V"),
        ("uint(p.first_plane) + plane_of_launch", "plane_of_launch"),
        ("at.n = p.first_item + item;", "at.n = item;"),
        ("Index(p.results.first[0]) +", ""),
        ("Index(p.results.first[1]) +", ""),
        ("Index(p.results.first[2]) +", ""),
        ("p.results.first[1] + p.results.size[1]", "p.results.size[1]"),
        ("p.results.first[2] + p.results.size[2]", "p.results.size[2]"),
        ("return array.first + n", "return n"),
        ("plane / depth", "plane"),
        ("(thread_at.z - plane_of_launch * tiles) * TH", "(thread_at.z % tiles)"),
        ("n * array.item +", "int(n * array.item) +"),
        ("h * array.step[1] +", "h * array.step[2] +"),
        ("u * Index(array.step[1])", "u * Index(array.step[2])"),
        ("(-start - 1) / axis.dilation + 1", "-start / axis.dilation + 1"),
        (
            "(size - start - 1) / axis.dilation + 1",
            "(size - start) / axis.dilation + 1",
        ),
        ("min(last, axis.taps)", "max(last, axis.taps)"),
        ("axis.taps += (tile - 1) * axis.stride;", ""),
    ],
    "metal/windows.h": [
        ("window_start(axis_h<Index>(p), at.h)", "window_start(w, at.h)"),
        ("start_d, clip_rows", "start_d, clip_columns"),
        ("tile_taps(axis_h<Index>(p), TH,", "tile_taps(axis_h<Index>(p), 1,"),
        ("tile_taps(w, TW,", "tile_taps(w, TW - 1,"),
        ("tile.columns.first) * dilation_w", "tile.columns.first) * dilation_h"),
        (
            "(row - tile.rows.first) * dilation_h",
            "(row - tile.rows.first) * dilation_w",
        ),
        ("start_h + tile.rows.first * dilation_h", "start_h + tile.rows.first"),
        ("(kd - tile.taps_d.first)", "kd"),
        ("return tap < axis.taps", "return tap <= axis.taps"),
        ("|| has_none(tile.columns)", ""),
        ("max(taps.first - before, Index(0))", "taps.first - before"),
        ("min(taps.last - before, axis.taps)", "axis.taps"),
        ("uint(tile.taps_d.first) * uint(along_h.taps) +", ""),
        ("column < kernel_w + (TW - 1) * stride_w", "column < kernel_w"),
    ],
    "metal/best.h": [
        ("return beats(v, best) || is_nan(v);", "return beats(v, best);"),
        ("return beats(v, best) || (v == best", "return beats(v, best) || (v >= best"),
        ("minimum ? v < best : v > best", "v > best"),
        ("minimum ? INFINITY : -INFINITY", "-INFINITY"),
        ("minimum ? INFINITY : -INFINITY", "minimum ? INFINITY : -3.4e38f"),
        ("numeric_limits<T>::max() : numeric", "T(100) : numeric"),
        (": numeric_limits<T>::min()", ": T(0)"),
        ("tap < best_tap) ||", "tap > best_tap) ||"),
        ("|| tap > best_tap)", "|| tap < best_tap)"),
        ("best.tap[i] = Number(~Number(0));", "best.tap[i] = Number(0);"),
        ("takes_over(v, best) || is_none(best_tap)", "takes_over(v, best)"),
        ("!(beats(best, v) || is_nan(best))", "!beats(best, v)"),
        ("!(beats(best, v) || is_nan(best))", "beats(v, best) || is_nan(v)"),
        ("!is_none(own.v[i])", "own.v[i] != Offset(0)"),
        ("first_tap + uint(own.v[i])", "first_tap"),
    ],
    "metal/sweep.h": [
        ("tile_taps(w, TW,", "tile_taps(w, 1,"),
        ("start + sweep.columns.first * dilation_w", "start + sweep.columns.first"),
        ("min(end, TW - 1) * stride_w", "min(end, TW - 1) * stride_w - 1"),
        ("min(end, TW - 1) * stride_w", "end * stride_w"),
        ("t == 0 ? (TW - 1) * stride_w", "t == 0 ? (TW - 1) * stride_w + 1"),
        ("(t - 1) * stride_w + kernel_w;", "(t - 1) * stride_w + kernel_w + 1;"),
        ("{max(a.first, first), min", "{first, min"),
        ("columns.first) * dilation_w", "columns.first) * stride_w"),
    ],
    "metal/runs.h": [
        ("const int at = min(i, N - V);", "const int at = i;"),
        ("at >= first && at + V <= last", "at + V <= last"),
        ("at >= first && at + V <= last", "at >= first"),
        ("k >= first && k < last", "k < last"),
        ("k >= first && k < last", "k >= first && k < last - 1"),
        ("i + V <= last) {", "i < last) {"),
        ("if (k < last) {", "if (k <= last) {"),
        ("max(-start, Index(0))", "Index(0)"),
        ("min(in - start, Index(count))", "min(in - start + 1, Index(count))"),
        ("min(end - first, Index(count))", "min(end - first + 1, Index(count))"),
    ],
    "metal/lanes.h": [
        ("uint(kLanes / L)", "uint(L)"),
        ("thread_at.x / uint(kLanes) * vectors", "thread_at.x / uint(kLanes)"),
        ("thread_at.y - slice * uint(p.out[2])", "thread_at.y"),
        ("own.slice = Index(slice)", "own.slice = Index(0)"),
        (">= Index(p.y.step[2])", "> Index(p.y.step[2])"),
        ("own.slice * p.slice_elements +", ""),
        ("slice * Index(p.slice_elements);", "slice;"),
        ("own.number == 0 &&", "own.number == 1 &&"),
        ("&& !own.is_idle;", ";"),
        ("row % count.row", "row"),
        ("next.column >= count.column", "next.column > count.column"),
        ("next.row += 1;", ""),
        ("next.row >= count.row", "next.row > count.row"),
        ("next.d += 1;", ""),
        ("tap_number<Index>(L, walk.count)", "tap_number<Index>(1, walk.count)"),
        ("tap = advanced(tap, walk.step, walk.count);", ""),
        ("n > (count - 1) * L", "n > count * L"),
        ("n > (count - 1) * L", "n > (count - 2) * L"),
        ("(all + slices - 1) / slices", "all / slices"),
        ("min(all, (own.slice + 1) * length)", "all"),
        ("window.rows.first + tap.row,", "tap.row,"),
        ("uint(window.columns.first + tap.column)", "uint(tap.column)"),
        ("half(simd_shuffle_xor(float(v), mask))", "half(float(v) + 0 * mask)"),
        ("uint(v >> 32)", "uint(v)"),
        ("ulong(high) << 32 |", "ulong(high) << 31 |"),
    ],
    "metal/max_pool_lanes.metal": [
        ("other_slice(p, slice), 0u)", "other_slice(p, slice), 1u)"),
        ("taps_from = taps + first", "taps_from = taps"),
        ("mask < kLanes;", "mask < kLanes / 2;"),
        ("shuffled(best.tap[i], ushort(mask))", "best.tap[i]"),
    ],
    "metal/avg_pool_lanes.metal": [
        ("int mask = kLanes / L;", "int mask = 2 * kLanes / L;"),
        ("window_divisor(p, counted)", "1.0f"),
        ("(p), own.at.first)", "(p), 0)"),
        ("slice < slices;", "slice < slices - 1;"),
    ],
    "csrc/metal/lanes.cpp": [
        ("Constant::with_taps, taps != kNoArray", "Constant::with_taps, false"),
        ("Constant::minimum, g.minimum", "Constant::minimum, false"),
        ("if (is_last) {", "if (!is_last) {"),
        ("groups * kLanes,", "groups,"),
        ("d.leaves_input() || h.leaves_input()", "h.leaves_input()"),
        ("window_extent(g.axes[i], 1) * x.step[i]", "window_extent(g.axes[i], 1)"),
        ("step.reads_slices ? 1 : step.slices", "1"),
        ("if (!step.reads_slices) {", "{"),
    ],
    "metal/max_pool_flat.metal": [
        ("run[column * C + c]", "run[column * C]"),
        ("tap_row + uint(kw))", "tap_row)"),
        ("t * S + kw * D", "t * S + kw"),
        ("if (has_row(p, at, u)) {", "{"),
    ],
    "metal/avg_pool_flat.metal": [
        ("i / C * S + kw * D", "i / C * S + kw"),
        ("(K - 1) * D + 1", "K"),
        ("kh >= 0 ? row[i]", "kh >= -1 ? row[i]"),
        ("at.first + t);", "at.first);"),
    ],
    "metal/max_pool_scatter_flat.metal": [
        ("== tap_row + uint(kw)", "== tap_row"),
        ("by_input = of_next_input(along_w, by_input);", ""),
        ("by_w = in_next_window(along_w, by_w);", ""),
        ("winners[w * C + c]", "winners[w * C]"),
        ("if (kw >= 0) {", "{"),
    ],
    "metal/avg_pool_grad_flat.metal": [
        ("* own_share(along_h, by_h, at.h)", ""),
        ("tap_of(along_w, by_input) >= 0", "tap_of(along_w, by_input) > 0"),
        ("* share_w", ""),
        ("quotient<T>(total[i], common_divisor(p))", "T(total[i])"),
    ],
    "csrc/metal/runs.cpp": [
        ("(count - 1) * w.stride + w.span()", "(count - 1) * w.stride + w.kernel"),
        ("step % quarter == 0", "true"),
        ("operand.byte_offset % bytes == 0", "true"),
        ("w.adaptive ? std::nullopt : run", "run"),
    ],
    "metal/max_sweep.metal": [
        ("= uint(p.column_taps)", "= 1u"),
        ("sweep, first + N, TW)", "sweep, TW, TW)"),
        ("before[i] = best;", ""),
        ("const int t = first + i;", "const int t = i;"),
        ("take<kForward>(window, k, after.value[k], after.tap[k]);", ""),
        ("window.tap[k] - skipped", "window.tap[k] + skipped"),
        ("is_none(window.tap[k]) ? ~0u", "is_none(window.tap[k]) ? 0u"),
    ],
    "metal/max_pool.metal": [
        ("uint(kd) * uint(along_h.taps)", "uint(kd) * uint(along_w.taps)"),
        ("tap_in_tile(along_h, row, u)", "tap_in_tile(along_w, row, u)"),
        ("tap_in_tile(along_w, j, t)", "tap_in_tile(along_w, row, t)"),
        ("first_tap + own[t].tap[i]", "first_tap * own[t].tap[i]"),
        ("is_none(tap) ? otherwise", "is_none(otherwise) ? otherwise"),
        ("if (has_neighbour(p, at, u, t)) {", "{"),
        ("if (with_offsets && has_neighbour(p, at, u, t)) {", "if (with_offsets) {"),
        ("uint(nearest_in(tile.columns, Index(j)))", "uint(j)"),
        ("tap - uint(t) * uint(along_w.stride)", "tap"),
        ("is_new && kw == 0", "(is_new || true) && kw == 0"),
    ],
    "metal/max_pool_scatter.metal": [
        ("offsets [[buffer(0)]]", "offsets [[buffer(1)]]"),
        ("if (columns.of[t] >= 0) {", "{"),
        ("has_inputs ? tap : ~0u", "(has_inputs || true) ? tap : ~0u"),
        ("total[t][i] += A(cotangents.v[i])", "total[t][i] = A(cotangents.v[i])"),
        ("if (has_column(p, at, t)) {", "{"),
    ],
    "metal/max_pool_gather.metal": [
        ("is_none(offset)", "offset == Offset(0)"),
        ("tap_row % uint(along_h.taps)", "tap_row % uint(along_w.taps)"),
        ("window_start(along_w, at.first)", "at.first * along_w.stride"),
    ],
    "metal/unpool.metal": [
        ("sources[own_element(p.x, at)] = ~0u;", ""),
        ("index < plane", "index <= plane"),
        ("element(p.x, at.n, 0, 0, index)", "element(p.y, at.n, 0, 0, index)"),
        ("claim.position >= 0) {", "claim.position > 0) {"),
        ("sources + claim.position, claim.number,", "sources + claim.position, 0u,"),
        ("uint(at.d) * uint(p.out[1]) + uint(at.h)", "uint(at.h)"),
        ("number == ~0u", "number == 0u"),
        ("element(p.y, at.n, 0, 0, number)", "element(p.x, at.n, 0, 0, number)"),
        ("won ? dy[claim.position] : T(0)", "dy[claim.position]"),
        ("sources[claim.position] == claim.number", "true"),
    ],
    "metal/covers.h": [
        ("o * axis.in - start * axis.out : Index(0)", "Index(0) : Index(0)"),
        ("phase + (borrows ? axis.dilation", "phase + (borrows ? axis.stride"),
        ("axis.dilation - (borrows ? 1 : 0)", "axis.dilation"),
        ("axis.stride - (carries ? 1 : 0)", "axis.stride"),
        ("rest - (carries ? axis.out : Index(0))", "rest"),
        ("cover.phase + 1 == axis.dilation", "cover.phase == 0"),
        ("(rest > 0 ? 1 : 0) + (rest", "(rest"),
        ("(rest > axis.out ? 1 : 0)", "0"),
        ("cover.phase == 0 && cover.tap >= 0", "cover.tap >= 0"),
        ("cover.tap < taps_around", "cover.tap <= taps_around"),
        ("cover.tap * axis.dilation - cover.phase", "cover.tap - cover.phase"),
        ("last_before / axis.stride + 1;", "last_before / axis.stride + 2;"),
        ("last_reach / axis.stride + 1", "last_reach / axis.stride"),
        ("min(axis.out, last_reach / axis.stride + 1)", "last_reach / axis.stride + 1"),
        ("position * axis.out / axis.in;", "position * axis.out / axis.in + 1;"),
        ("min(axis.out, last_window + 1)", "last_window"),
        ("reach = position + axis.pad_lo", "reach = position + axis.pad_hi"),
        ("last_reach = last + axis.pad_lo", "last_reach = position + axis.pad_lo"),
        (
            "(d - tile.d.windows.first) * Index(p.y.step[0])",
            "(d - tile.d.windows.first) * Index(p.x.step[0])",
        ),
        (
            "p.y, at.n, tile.d.windows.first, tile.h",
            "p.x, at.n, tile.d.windows.first, tile.h",
        ),
        (
            "element(p.y, at.n, at.d, at.h, first)",
            "element(p.x, at.n, at.d, at.h, first)",
        ),
        ("(w - sweep.w.windows.first)", "w"),
        ("(taps_to_tile - 1)) / stride_w", "(taps_to_tile - 1))"),
        ("tap < axis.taps ? tap", "tap <= axis.taps ? tap"),
        ("taps_to_tile - 1 + t - column * stride_w", "taps_to_tile - 1 + t - column"),
        (
            "column * stride_w < taps_to_tile - 1 + TW",
            "column * stride_w < taps_to_tile",
        ),
    ],
    "metal/divisor.h": [
        ("axis, start, axis.in + axis.pad_hi", "axis, start, axis.in"),
        ("padded.last : valid", "padded.last - padded.first : valid"),
        ("max(counted, Index(1))", "counted"),
        ("p.divisor : 1.0f", "p.divisor : 2.0f"),
        ("axis.adaptive ? adaptive_taps(axis, o, start) :", "false ? 1 :"),
    ],
    "metal/shares.h": [
        ("start_around(axis, cover, position)", "position"),
        ("taps_around(axis, cover)", "axis.taps"),
    ],
    "metal/avg_pool.metal": [
        ("(along_h, r, u) >= 0", "(along_h, r, u) >= -1"),
        ("(along_w, j, t) >= 0", "(along_w, j, t) >= -1"),
        ("own_divisor(along_w, at.first + t)", "own_divisor(along_w, at.first)"),
        ("own_divisor(along_h, at.h + u)", "own_divisor(along_h, at.h)"),
        ("divisor_d * divisor_h * divisor_w", "divisor_h * divisor_w"),
        ("if (!contains(tile.columns, Index(j))) {", "if (false) {"),
    ],
    "metal/average.h": [
        ("power == 2 ? v * v", "power == 2 ? v"),
        ("v * v * v", "v * v"),
        ("== 1 ? T(p.zero_point)", "== 1 ? T(p.zero_point + 1)"),
        ("root > 1 ? counted / p.divisor", "root > 1 ? counted"),
        ("cube > 0.0f && cube < INFINITY", "true"),
        ("i < 3; ++i", "i < 2; ++i"),
        ("root == 3 ?", "root == 4 ?"),
        ("steps + float(p.zero_point)", "steps - float(p.zero_point)"),
        ("float(sum) * (1.0f / divisor)", "float(sum) / divisor"),
        ("clamp(mean, least, most)", "clamp(mean, least + 1.0f, most)"),
        ("rint(clamp", "(clamp"),
    ],
    "metal/avg_pool_grad.metal": [
        ("taps.of[t] >= 0", "taps.of[t] > 0"),
        ("&& contains<Index>(tile.w.windows, first + j)", ""),
        ("own_divisor(along_w, first + j)", "own_divisor(along_w, first)"),
        ("has_d && tap_of", "tap_of"),
        ("share_d * own_share", "own_share"),
        ("sums[i] * share", "sums[i] * (2.0f * share)"),
        ("quotients<T, V>(total[t], common_divisor(p))", "rounded<T, V>(total[t])"),
    ],
    "metal/avg_sweep.metal": [
        ("sweep, first + N, TW)", "sweep, TW, TW)"),
        ("before[i][k] = total[k];", ""),
        ("const int t = first + i;", "const int t = i;"),
        ("before[i][k] += after[k]", "before[i][k] = after[k]"),
        ("axis_w<Index>(p), at.first + t)", "axis_w<Index>(p), at.first)"),
        ("own_divisor(axis_h<Index>(p), at.h)", "1.0f"),
    ],
    "metal/max_scatter_sweep.metal": [
        ("tap - row * uint(kernel_w)", "tap"),
        ("* dilation_w - distance", "* stride_w - distance"),
        ("by_w.tap * dilation_w + by_w.phase", "by_w.tap * dilation_w"),
        ("is_none(winner.v[i])", "winner.v[i] == Offset(0)"),
        ("is_own ? row :", "is_own ? tap :"),
        ("row_tap[t][i] = ~0u;", "row_tap[t][i] = 0u;"),
        ("? Index(-1)", "? Index(0)"),
    ],
    "metal/avg_grad_sweep.metal": [
        ("tap_of(along_w, by_input) >= 0", "tap_of(along_w, by_input) > 0"),
        ("A(cotangent.v[i]) * share", "A(cotangent.v[i])"),
        ("own_divisor(axis_d<Index>(p), at.d)", "1.0f"),
    ],
    "csrc/ops.cpp": [
        ("undivided.divisor_override = 1;", "undivided.divisor_override = 2;"),
    ],
    "csrc/metal/launch.h": [
        ("stride_d,\n  stride_h,", "stride_h,\n  stride_d,"),
        (
            "uniform_divisor,\n  count_include_pad,",
            "count_include_pad,\n  uniform_divisor,",
        ),
        ("kParamsIndex = 4", "kParamsIndex = 5"),
    ],
    "csrc/metal/launch.cpp": [
        ("int i = 2; i >= 0; --i", "int i = 0; i < 3; ++i"),
        ("* group[2] > most", "> most"),
    ],
    "csrc/metal/backend.cpp": [
        ("{&offsets, &dy, &dx}", "{&dy, &offsets, &dx}"),
        ("arrays.push_back(&temporaries.back());", "arrays.push_back(arrays[1]);"),
        ("return {a.dtype(), a.offset()};", "return {a.dtype(), 0};"),
        ("a.offset() % metal::element_bytes(a.dtype()) != 0", "false"),
    ],
    "csrc/metal/launches.cpp": [
        ("mx::inexact) ? mx::float32 : dtype", "mx::inexact) ? dtype : dtype"),
        ('return "char";', 'return "uchar";'),
        ("p.taps[i] = g.axes[i].kernel;", ""),
        ("p.stride[i] = stride(g.axes[i]);", ""),
        ("set_sizes(launch.constants, i, g.axes[i]);", ""),
        ('return "bool";', 'return "uchar";'),
        ('    case 2:\n      return "ushort";', '    case 2:\n      return "uint";'),
        ("+ i] = axis.adaptive", "+ i] = false"),
        ("+ i] = axis.dilation", "+ i] = axis.stride"),
        ("(axis.in + tile) * (axis.out + 1) <= kMax32", "true"),
        ("axis.span() <= kMax32", "true"),
        ("axis.adaptive ? axis.in / axis.out : axis.stride", "axis.stride"),
        ("return {0, depth * plane,", "return {0, plane,"),
        ("(last - axis.pad_lo) % axis.stride", "last % axis.stride"),
        ("std::min(axis.in - 1, inputs)", "std::min(axis.out - 1, inputs)"),
        ("std::max(reach, g.channels) <= kMax32", "true"),
        ("plane % depth", "0"),
        ("plane / depth", "0"),
        ('fits ? "int" : "long"', 'fits ? "int" : "int"'),
        ("fits && padded + beyond <= kMax32", "fits"),
        ("std::min(width, 16 / element_bytes", "std::max(width, 16 / element_bytes"),
        ("channels % v == 0 &&", "channels >= v &&"),
        ("width /= 2;", "width = 1;"),
        ("kThreadsPerGroup = 256", "kThreadsPerGroup = 2048"),
        ("room /= group[i];", "room /= 1;"),
        ("whole.out = windows;", ""),
        ("ceil_div(width, tile.w)", "width / tile.w"),
        ("ceil_div(height, tile.h)", "height / tile.h"),
        ("divisor *= g.divisor(i, 0);", "divisor *= axis.kernel;"),
        ("g.divisor(i, axis.out - 1) == axis.kernel", "axis.out > 0"),
        ("g.count_include_pad);", "true);"),
        ("launch.params.divisor = 1;", ""),
        ("params.divisor = uniform ? 1 : whole", "params.divisor = whole"),
        ("mx::size_of(dtype) == 1 ? mx::int32 :", ""),
    ],
    "csrc/metal/library.cpp": [
        ("extension().replace_filename(kReadyLibrary)", "fs::path(kReadyLibrary)"),
        ("fs::exists(path, ignored)", "true"),
        ("kernels.contains(launch.kernel)", "kernels.empty()"),
        ("kernels.contains(launch.kernel)", "!kernels.empty()"),
    ],
    "csrc/metal/ready.cmake": [
        ('set(tiles "1, 1|1, 4|4, 1|4, 2")', 'set(tiles "1, 1|1, 4|4, 2")'),
        ("ready(unpool_claim                                     int)", ""),
        ('[<, ]+" "_" name', '[<, ]+" "" name'),
        ('SHA256 hash "${source}"', 'SHA256 hash "${folder}"'),
    ],
    "csrc/metal/plan.cpp": [
        ("window_extent(h, tile.h) * x.step[1]", "window_extent(h, tile.h)"),
        ("cover_extent(h, tile.h) * y.step[1]", "cover_extent(h, tile.h)"),
        ("Constant::minimum, g.minimum", "Constant::minimum, false"),
        ("ceil_div(w.out, tile.w)", "w.out / tile.w"),
        ("ceil_div(h.out, tile.h)", "h.out / tile.h"),
        ("d.leaves_input() || leaves_input(h, rows)", "leaves_input(h, rows)"),
        ("!is_constant || !are_alike", "!are_alike"),
        ("!w.adaptive && w.dilation == 1", "w.dilation == 1"),
        ("w.dilation == 1 && w.kernel >= w.stride", "w.kernel >= w.stride"),
        ("w.kernel >= w.stride &&\n      tile % w.stride == 0", "w.kernel >= w.stride"),
        ("< kMostColumns ? tap + 1", "<= kMostColumns ? tap + 1"),
        ("+ (tile - 1) * w.stride <= kMostColumns", "<= kMostColumns"),
        ("w.taps(0).size() > 0 &&", ""),
        ("&& w.taps(w.out - 1).size() > 0", ""),
    ],
    "csrc/geometry.cpp": [
        ("kernel == 1 && stride == 1 &&", "kernel == 1 &&"),
        ("&& in == out && pad_lo == 0;", "&& in == out;"),
    ],
    "csrc/metal/select.cpp": [
        ("return !axis.adaptive && axis.dilation == 1;", "return axis.dilation == 1;"),
        ("return !axis.adaptive && axis.dilation == 1;", "return !axis.adaptive;"),
        ("(2 * length - 1) * axis.stride <= axis.kernel", "true"),
        ("std::min(wanted, useful)", "wanted"),
        ("{{4, 1}, {1, 4}}", "{{1, 4}, {4, 1}}"),
        ("{{4, 1}, {1, 4}}", "{{4, 1}}"),
    ],
    "csrc/metal/passes.cpp": [
        ("return {0, 1, 2};", "return {1, 0, 2};"),
        ("slab_axis == 2 ? 1 : kNoAxis, 0}", "kNoAxis, 0}"),
        ("i > axis && i >= slab_axis", "i > axis"),
        ("view.is_flat(i) ? results.first[i] : 0", "0"),
        ("(first - held.first[i])", "first"),
        ("pass.results.first[i] = results.first[axis];", ""),
        ("results.first[axis] = first;", ""),
    ],
    "csrc/metal/sweeps.cpp": [
        ("column_taps *= pass.axis().kernel;", ""),
        ("if (&pass == &slab.front()) {", "{"),
        ("Constant::minimum, g.minimum", "Constant::minimum, false"),
        ("Constant::with_taps, !is_last", "Constant::with_taps, false"),
        ("results.first[2] + strips", "strips"),
        ("std::gcd(multiple, step)", "multiple"),
        ("are_filled_ && pass.is_all", "pass.is_all"),
        ("(11 * input + taps) / 10", "(21 * input + taps) / 10"),
        ("of_integers ? memory(g, sums", "false ? memory(g, sums"),
    ],
}

TESTS = (
    "tests/test_known_bugs.py",
    "tests/test_quantized.py",
    "tests/test_lp_pool.py",
    "tests/test_indices.py",
    "tests/test_integer_averages.py",
    "tests/test_layout.py",
    "tests/test_gradients.py",
    "tests/test_forward.py",
    "tests/metal/on_host/test_agreement.py",
    "tests/metal/on_host/test_other_windows.py",
    "tests/metal/on_host/test_norms_and_quantized.py",
    "tests/metal/on_host/test_flat.py",
    "tests/metal/on_host/test_lanes.py",
    "tests/metal/on_host/test_sweeps.py",
)
# Huge arrays, of no help against a line that is wrong for small ones too.
SLOW = "2_to_the_31 or limits_of_an_offset_type or long_axis"
# Tests without hypothesis come first: they fail at once, instead of shrinking.
STAGES = (
    ("-m", "not hypothesis", "-k", f"not ({SLOW})", *TESTS),
    ("-m", "hypothesis", *TESTS),
)
# They look at the plans from outside, and are handed the build by their conftest.py.
PLAN_TESTS = ("tests/metal/test_plans.py", "tests/metal/test_ready.py")
TIME_LIMIT = 900

COPIED = (
    *("CMakeLists.txt", "pyproject.toml"),
    *("benchmarks", "csrc", "metal", "python", "tests"),
)
BUILD = "import pathlib, sys, shader_host; shader_host.build(pathlib.Path(sys.argv[1]))"


@dataclass(frozen=True)
class Mutation:
    file: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{_one_line(self.old)} -> {_one_line(self.new)}"


@dataclass(frozen=True)
class Outcome:
    mutation: Mutation
    is_caught: bool
    verdict: str
    seconds: float


class Broken(Exception):
    """The mutation does not even compile, so that it proves nothing."""


def _one_line(text: str) -> str:
    return " ".join(text.split())


class Copy:
    """A copy of the project with a build of its own, used for one mutation at once."""

    def __init__(self, folder: Path) -> None:
        self.project = folder / "project"
        self.cache = folder / "cache"
        # Where tests/metal/conftest.py has its build, so that both use the same.
        self.host = self.cache / "d" / "mlx_pooling_host_shaders"
        self._synchronise()

    def _synchronise(self) -> None:
        """Writes only what differs, so that the build stays up to date."""
        for name in COPIED:
            root = PROJECT / name
            for source in root.rglob("*") if root.is_dir() else [root]:
                target = self.project / source.relative_to(PROJECT)
                if source.is_dir() or "__pycache__" in source.parts:
                    continue
                if not target.exists() or target.read_bytes() != source.read_bytes():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.write_bytes(source.read_bytes())

    @contextmanager
    def mutated(self, mutation: Mutation) -> Iterator[None]:
        path = self.project / mutation.file
        text = path.read_text()
        path.write_text(text.replace(mutation.old, mutation.new))
        try:
            yield
        finally:
            path.write_text(text)

    def build(self) -> None:
        done = subprocess.run(
            [sys.executable, "-c", BUILD, str(self.host)],
            cwd=self.project / "tests" / "metal",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode != 0:
            raise Broken(done.stdout)

    def failing_test(self, file: str) -> str:
        """The first test that fails with a change of this file, empty if none does."""
        on_shaders = environment(self.host / "site", self.host / "shaders")
        runs = [(stage, on_shaders) for stage in STAGES]
        if not file.startswith("metal/"):
            runs.insert(0, (PLAN_TESTS, dict(os.environ)))
        return next(filter(None, (self._failing_test(*run) for run in runs)), "")

    def _failing_test(self, selection: tuple[str, ...], env: dict[str, str]) -> str:
        options = ["-x", "-q", "--tb=short", "-o", f"cache_dir={self.cache}"]
        try:
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *options, *selection],
                cwd=self.project,
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIME_LIMIT,
            )
        except subprocess.TimeoutExpired:
            return "time limit"
        return _failure(done.returncode, done.stdout)


def _failure(status: int, output: str) -> str:
    if status == 0:
        return ""
    if "RuntimeError: failed: " in output:  # the compiler of the shaders
        raise Broken(output)
    if found := re.search(r"^(?:FAILED|ERROR) tests/(.+?)( - .*)?$", output, re.M):
        return found[1]
    if status < 0:
        return f"signal {-status}"
    raise Broken(output)


def judge(mutation: Mutation, copies: SimpleQueue[Copy]) -> Outcome:
    copy = copies.get()
    start = time.perf_counter()
    try:
        with copy.mutated(mutation):
            copy.build()
            failure = copy.failing_test(mutation.file)
        is_caught, verdict = bool(failure), failure or "survived"
    except Broken as error:
        is_caught, verdict = False, f"does not compile: {str(error)[-1000:]}"
    finally:
        copies.put(copy)
    return Outcome(mutation, is_caught, verdict, time.perf_counter() - start)


def select(text: str) -> list[Mutation]:
    """The mutations with this text in them, each of which must be applicable."""
    found = [
        Mutation(file, old, new)
        for file, pairs in MUTATIONS.items()
        for old, new in pairs
    ]
    for mutation in found:
        count = (PROJECT / mutation.file).read_text().count(mutation.old)
        if count != 1:
            raise SystemExit(f"{mutation.file} has {count} times: {mutation.old}")
    return [m for m in found if text.lower() in f"{m.file} {m}".lower()]


def table(outcomes: list[Outcome]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for head in ("file", "mutation", "caught by"):
        table.add_column(head, overflow="fold")
    table.add_column("s", justify="right")
    for outcome in outcomes:
        table.add_row(
            Path(outcome.mutation.file).name,
            escape(str(outcome.mutation)),
            escape(outcome.verdict),
            f"{outcome.seconds:.0f}",
            style=None if outcome.is_caught else "bold red",
        )
    return table


def run(mutations: list[Mutation], jobs: int, folder: Path) -> list[Outcome]:
    # On stderr and only on a terminal, so that a piped table stays a table.
    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn())
    with (
        Progress(
            *columns,
            TimeElapsedColumn(),
            console=console,
            disable=not console.is_terminal,
        ) as progress,
        ThreadPoolExecutor(jobs) as pool,
    ):
        task = progress.add_task("without a mutation", total=len(mutations) + 1)
        copies: SimpleQueue[Copy] = SimpleQueue()
        for i in range(jobs):
            copies.put(Copy(folder / str(i)))
        first = copies.get()
        first.build()
        if failure := first.failing_test(""):
            raise SystemExit(f"fails without any mutation: {failure}")
        copies.put(first)
        progress.update(task, advance=1, description="mutations")
        futures: list[Future[Outcome]] = [
            pool.submit(judge, mutation, copies) for mutation in mutations
        ]
        for future in as_completed(futures):
            outcome = future.result()
            progress.advance(task)
            if not outcome.is_caught:
                progress.print(table([outcome]))
    return [future.result() for future in futures]


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--filter", default="", metavar="TEXT", help="only mutations with TEXT in them"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="mutations tried at once"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=PROJECT / "build" / "mutations",
        help="for the copies and their builds, used again next time "
        "(default: %(default)s)",
    )
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    mutations = select(args.filter)
    outcomes = run(mutations, args.jobs, args.folder.resolve())
    console = Console(highlight=False)
    console.width = max(console.width, 150)
    console.print(table(outcomes))
    survivors = sum(not outcome.is_caught for outcome in outcomes)
    seconds = sum(outcome.seconds for outcome in outcomes)
    console.print(
        f"{len(outcomes) - survivors} of {len(outcomes)} caught in {seconds:.0f} s"
    )
    sys.exit(survivors > 0)


if __name__ == "__main__":
    main()
