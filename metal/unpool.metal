#include "common.h"

// Each position of a plane (the input side) takes its value from the first
// element (the output side) whose index names it. Three launches, of which two
// find out which that is: one says that there is none, one lets every element
// claim its position. The third moves the values, or of the adjoint cotangents
// to those that got theirs. T is any type of their size.

template <typename Index>
[[kernel]] void unpool_clear(
    device uint* sources [[buffer(0)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  const Place<Index> at = place<Index, 1, 1, 1>(thread_at, p);
  sources[own_element(p.x, at)] = ~0u;
}

// The thread's element, and the position that its index names.
struct Claim {
  int64_t element;  // in the array of indices
  int64_t position; // in the array of sources; -1 where outside the plane
  uint number;      // of the element in its plane
};

template <typename Index>
Claim own_claim(
    const device uint* indices, constant PoolParams& p, uint3 thread_at) {
  const Place<Index> at = place<Index, 1, 1, 1>(thread_at, p);
  const ulong plane = ulong(p.in[0]) * ulong(p.in[1]) * ulong(p.in[2]);
  const uint row = uint(at.d) * uint(p.out[1]) + uint(at.h);
  Claim claim;
  claim.number = row * uint(p.out[2]) + uint(at.first);
  claim.element = own_element(p.y, at);
  claim.position = -1;
  const uint index = indices[claim.element];
  if (index < plane) {
    claim.position = element(p.x, at.n, 0, 0, index) + at.channel;
  }
  return claim;
}

template <typename Index>
[[kernel]] void unpool_claim(
    const device uint* indices [[buffer(0)]],
    device atomic_uint* sources [[buffer(1)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  const Claim claim = own_claim<Index>(indices, p, thread_at);
  if (claim.position >= 0) {
    atomic_fetch_min_explicit(
        sources + claim.position, claim.number, memory_order_relaxed);
  }
}

template <typename T, typename Index>
[[kernel]] void unpool_place(
    const device uint* sources [[buffer(0)]],
    const device T* x [[buffer(1)]],
    device T* y [[buffer(2)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  const Place<Index> at = place<Index, 1, 1, 1>(thread_at, p);
  const int64_t position = own_element(p.x, at);
  const uint number = sources[position];
  y[position] =
      number == ~0u ? T(0) : x[element(p.y, at.n, 0, 0, number) + at.channel];
}

template <typename T, typename Index>
[[kernel]] void unpool_take(
    const device uint* indices [[buffer(0)]],
    const device uint* sources [[buffer(1)]],
    const device T* dy [[buffer(2)]],
    device T* dx [[buffer(3)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  const Claim claim = own_claim<Index>(indices, p, thread_at);
  const bool won =
      claim.position >= 0 && sources[claim.position] == claim.number;
  dx[claim.element] = won ? dy[claim.position] : T(0);
}
