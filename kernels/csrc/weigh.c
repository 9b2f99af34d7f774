// dst = w·√(sigma2 + x·x), as in weigh.go.
#include "lanes.h"

typedef struct {
  float *dst;
  const float *w, *x;
  int64_t n; // a positive multiple of LANES
  float sigma2;
} Args;

void KERNEL(const Args *a) {
  float *dst = a->dst;
  const float *w = a->w, *x = a->x, *end = x + a->n;
  const V sigma2 = (V)a->sigma2;
  do {
    V v = load(x);
    store(dst, load(w) * __builtin_elementwise_sqrt(sigma2 + v * v));
    dst += LANES, w += LANES, x += LANES;
  } while (x < end);
}
