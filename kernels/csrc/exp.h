// eˣ of floats, as in exp.go.
#pragma once
#include "lanes.h"

// Constants of exp.go, in its order. They are read from memory each time, which leaves registers to others.
typedef struct {
  float high, low, log2e, magic, ln2, rest, p[6];
} ExpConstants;

#define C(FIELD) ((V) * (const volatile float *)&c->FIELD)

INLINE V exp_lanes(V x, const ExpConstants *c) {
  x = x > C(high) ? C(high) : x;
  x = x < C(low) ? C(low) : x;
  V n = x * C(log2e) + C(magic);
  I k = (I)n - (I)C(magic);
  n = n - C(magic);
  V r = (x - n * C(ln2)) - n * C(rest);
  V p = C(p[0]);
  p = p * r + C(p[1]);
  p = p * r + C(p[2]);
  p = p * r + C(p[3]);
  p = p * r + C(p[4]);
  p = p * r + C(p[5]);
  const V one = splat_bits(0x3F800000);
  V y = ((p * r) * r + r) + one;
  I half = k >> 1;
  return (y * (V)((half << 23) + (I)one)) * (V)(((k - half) << 23) + (I)one);
}
