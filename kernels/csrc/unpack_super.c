// Unpacks a block of 256 of each of four rows into a panel.
#define FOUR_ROWS
#include "super.h"
#include "unpack.h"

// wide gives 16 integers for 16 runs of 16 weights each.
INLINE P16 wide(B16 v) {
#if SIZE == 32
  v = __builtin_shufflevector(v, v, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
#endif
  return __builtin_convertvector((S16)v, P16);
}

// in_order makes the compiler compute one such value after the other, which takes fewer registers.
INLINE B32 in_order(B32 v) {
#ifdef __AVX2__
  __asm__ volatile("" : "+x"(v));
#endif
  return v;
}

ENTRY void KERNEL(Unpack *a) {
  const Rows r = rows(a->rows, a->stride, times3(a->stride));
  uint8_t *const panel = a->panel;
  {
    const Consts k = constants();
    uint8_t *p = panel;
#define CODES(R, M) wanted(in_order(codes(at(&r, R), M, &k)), &k)
#define RUN(M) { \
    B32 c0 = CODES(0, M), c1 = CODES(1, M), c2 = CODES(2, M), c3 = CODES(3, M); \
    put_codes(p, c0, c1, c2, c3); \
    p += 8 * LINE; \
    FORGET(); \
  }
    EACH(RUN)
  }
  four_halves(panel + LINE_SCALE * LINE, &r, D);
#ifdef MIN
  four_halves(panel + LINE_MIN * LINE, &r, MIN);
#endif
#if SIZE > 0
  const Consts k = constants();
  const Small s0 = small(at(&r, 0), &k), s1 = small(at(&r, 1), &k), s2 = small(at(&r, 2), &k), s3 = small(at(&r, 3), &k);
#ifdef MIN
  transpose(panel + LINE_SMALLMIN * LINE, (B32)wide(s0.mins), (B32)wide(s1.mins), (B32)wide(s2.mins), (B32)wide(s3.mins));
#endif
  P16 w0 = wide(s0.scales), w1 = wide(s1.scales), w2 = wide(s2.scales), w3 = wide(s3.scales);
  // As pairs first, which are then taken apart.
  transpose(panel + LINE_OFFSET * LINE, (B32)w0, (B32)w1, (B32)w2, (B32)w3);
  FORGET();
  typedef int32_t I4 __attribute__((ext_vector_type(4)));
  typedef I4 I4u __attribute__((aligned(1)));
  const uint8_t *from = panel + LINE_OFFSET * LINE;
  uint8_t *to = panel + LINE_SMALL * LINE, *end = to + (SIZE == 16 ? 16 : 8) * LINE;
  do {
    I4 v = *(const I4u *)from;
    from += LINE;
#if SIZE == 16
    *(I4u *)to = v << 16 >> 16;
    to += LINE;
#endif
    *(I4u *)to = v >> 16;
    to += LINE;
  } while (to < end);
#endif
#ifdef __AVX2__
#if defined(__AVX512VNNI__) && defined(SIGNED)
#define OFFSET 7
#endif
#ifdef OFFSET
#if SIZE == 0
  P16 one = (P16)splat4(0x00010001), w0 = one, w1 = one, w2 = one, w3 = one;
#endif
  transpose(panel + LINE_OFFSET * LINE, (B32) - (w0 << OFFSET), (B32) - (w1 << OFFSET), (B32) - (w2 << OFFSET), (B32) - (w3 << OFFSET));
#endif
#endif
}
