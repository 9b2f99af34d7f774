// Unpacks four rows of blocks of 32 into a panel.
#define FOUR_ROWS
#include "blocks.h"
#include "unpack.h"

ENTRY void KERNEL(Unpack *a) {
  const Consts k = constants();
  const int64_t stride = a->stride, stride3 = times3(stride);
  const uint8_t *block = a->rows;
  uint8_t *panel = a->panel, *scales = panel + LINE_SCALE * LINE;
  *(uint8_t *volatile *)&a->last = scales + a->runs * LINE;
  do {
    Rows r = rows(block, stride, stride3);
    four_halves(scales, &r, 0);
#ifdef MIN
    four_halves(scales + (LINE_MIN - LINE_SCALE) * LINE, &r, 2);
#endif
#ifdef RUN_BYTES
    *(const uint8_t *volatile *)&a->end = block + 16;
    const W4 scale = *(const W4u *)scales;
    do {
      r = rows(block, stride, stride3);
      *(W4u *)scales = scale;
#endif
      put_codes(panel, wanted(codes(at(&r, 0), &k), &k), wanted(codes(at(&r, 1), &k), &k), wanted(codes(at(&r, 2), &k), &k), wanted(codes(at(&r, 3), &k), &k));
      panel += 8 * LINE;
      scales += LINE;
#ifdef RUN_BYTES
      block += RUN_BYTES;
    } while (block < *(const uint8_t *volatile *)&a->end);
    block += 2;
#else
    block += BYTES;
#endif
  } while (scales < *(uint8_t *volatile *)&a->last);
}
