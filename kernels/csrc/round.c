// Codes of values on given scales and minimums, as in round.go.
#include "lanes.h"

typedef struct {
  uint8_t *codes;
  const float *x, *scales, *mins;
  int64_t size;   // of a block, a positive multiple of LANES
  int64_t blocks; // at least 1
  int64_t top;    // 1 to 255
} Args;

void KERNEL(const Args *a) {
  const V magic = splat_bits(0x4B400000);
  const I low = (I)splat_bits(0x7FFFFF), zero = (I)splat_bits(0x400000), most = zero + (int32_t)a->top;
  uint8_t *codes = a->codes;
  const float *x = a->x, *scale = a->scales, *min = a->mins, *last = scale + a->blocks;
  do {
    const float *end = x + a->size;
    if (*scale == 0) {
      codes += a->size;
      x = end;
    } else
      do {
        V v = load(x), q = (v + *min) / *scale;
        q = v != v ? v : q;
        I t = (I)(q + magic) & low;
        t = __builtin_elementwise_min(__builtin_elementwise_max(t, zero), most);
        store_bytes(codes, t - zero);
        codes += LANES, x += LANES;
      } while (x < end);
    min++;
  } while (++scale < last);
}
