#pragma once

#include "covers.h"
#include "divisor.h"

// What a window's cotangent is multiplied by for one axis.
template <typename A, typename Index>
A own_share(Axis<Index> axis, Cover<Index> cover, Index position) {
  return A(1) /
      own_divisor<A>(
             axis, start_around(axis, cover, position),
             taps_around(axis, cover));
}
