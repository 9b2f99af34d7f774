// x = e^(scale·x − top), and the sum of it in 16 lanes, as in exp.go.
#include "exp.h"

typedef struct {
  float *x;
  int64_t n; // a positive multiple of 16
  const ExpConstants *c;
  float scale, top;
  float sums[16];
} Args;

ENTRY void KERNEL(Args *a) {
  float *x = a->x, *end = x + a->n;
  const ExpConstants *c = a->c;
  V sum = (V)(I)0;
  do {
    V y = exp_lanes(load(x) * (V)*(const volatile float *)&a->scale - (V)*(const volatile float *)&a->top, c);
    store(x, y);
    sum += y;
  } while ((x += LANES) < end);
  store(a->sums, sum);
}
