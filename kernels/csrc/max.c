// The largest of floats in each of 16 lanes, as in exp.go.
#include "lanes.h"

typedef struct {
  const float *x;
  int64_t n; // a positive multiple of 16
  float lanes[16];
} Args;

ENTRY void KERNEL(Args *a) {
  const float *x = a->x, *end = x + a->n;
  V most = load(a->lanes);
  do {
    V v = load(x);
    most = v > most ? v : most;
  } while ((x += LANES) < end);
  store(a->lanes, most);
}
