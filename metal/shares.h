#pragma once

#include "covers.h"
#include "divisor.h"

// What a window's cotangent is multiplied by for one axis.
template <typename Index>
float own_share(Axis<Index> axis, Cover<Index> cover, Index position) {
  return 1.0f /
      own_divisor(
             axis, start_around(axis, cover, position),
             taps_around(axis, cover));
}
