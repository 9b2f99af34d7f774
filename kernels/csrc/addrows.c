// dst += Σ weight·row, in the order of the rows, as in addrows.go. HALF: the rows are halves.
#include "lanes.h"

typedef struct {
  float *dst;
  int64_t n; // of dst, a positive multiple of LANES
  const float *weights;
  int64_t count; // of weights and rows, at least 1
  const uint8_t *rows;
  int64_t stride; // bytes from row to row
} Args;

ENTRY void KERNEL(const Args *a) {
  float *dst = a->dst, *end = dst + a->n;
  const uint8_t *column = a->rows;
  do {
    V sum = load(dst);
    const uint8_t *p = column;
    const float *w = a->weights, *last = w + a->count;
    do {
#if HALF
      sum += (V)*w * load_halves(p);
#else
      sum += (V)*w * load((const float *)p);
#endif
      p += a->stride;
    } while (++w < last);
    store(dst, sum);
    column += LANES * (HALF ? 2 : 4);
  } while ((dst += LANES) < end);
}
