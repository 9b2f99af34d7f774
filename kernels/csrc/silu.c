// gate = gate/(1 + e^−gate)·up, as in exp.go.
#ifdef __ARM_NEON
#undef LANES
#define LANES 8 // for want of registers
#endif
#include "exp.h"

typedef struct {
  float *gate;
  const float *up;
  int64_t n; // a positive multiple of 16
  const ExpConstants *c;
} Args;

ENTRY void KERNEL(const Args *a) {
  float *gate = a->gate, *end = gate + a->n;
  const float *up = a->up;
  const ExpConstants *c = a->c;
  const I sign = (I)splat_bits(INT32_MIN);
  do {
    V v = load(gate);
    V e = exp_lanes((V)((I)v ^ sign), c);
    store(gate, v / (splat_bits(0x3F800000) + e) * load(up));
    up += LANES;
  } while ((gate += LANES) < end);
}
