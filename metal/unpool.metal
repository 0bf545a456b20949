#include "common.h"

// Where each position of a plane (the input side) takes its value from: the
// first element (the output side) whose index names it. Three launches: the
// first says that none does, the second lets every element claim its position,
// the third tells the elements whether they got it.

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

template <typename Index>
[[kernel]] void unpool_settle(
    const device uint* indices [[buffer(0)]],
    const device uint* sources [[buffer(1)]],
    device uint* targets [[buffer(2)]],
    constant PoolParams& p [[buffer(4)]],
    uint3 thread_at [[thread_position_in_grid]]) {
  const Claim claim = own_claim<Index>(indices, p, thread_at);
  const bool won =
      claim.position >= 0 && sources[claim.position] == claim.number;
  targets[claim.element] = won ? indices[claim.element] : ~0u;
}
