// Unpacks four rows of weights into a panel.
#pragma once
#include "panel.h"

// The first of four rows, and the panel at the place for it.
typedef struct {
  const uint8_t *rows;
  int64_t stride, runs; // runs of 32 to unpack, of types with blocks
  uint8_t *panel;
  const uint8_t *end, *last; // for the kernel itself
} Unpack;

typedef uint32_t W8 __attribute__((ext_vector_type(8)));
typedef uint32_t W4 __attribute__((ext_vector_type(4)));
typedef W4 W4u __attribute__((aligned(1)));
typedef int16_t P16 __attribute__((ext_vector_type(16)));
typedef int8_t S16 __attribute__((ext_vector_type(16)));

// transpose writes 32 bytes of each of four rows to eight lines.
INLINE void transpose(uint8_t *to, B32 a, B32 b, B32 c, B32 d) {
#define LOW(A, B) __builtin_shufflevector(A, B, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH(A, B) __builtin_shufflevector(A, B, 2, 10, 3, 11, 6, 14, 7, 15)
#define EVEN(A, B) __builtin_shufflevector(A, B, 0, 1, 8, 9, 4, 5, 12, 13)
#define ODD(A, B) __builtin_shufflevector(A, B, 2, 3, 10, 11, 6, 7, 14, 15)
  W8 x = LOW((W8)a, (W8)b), y = LOW((W8)c, (W8)d), z = HIGH((W8)a, (W8)b), w = HIGH((W8)c, (W8)d);
  W8 v[4] = {EVEN(x, y), ODD(x, y), EVEN(z, w), ODD(z, w)};
#pragma unroll
  for (int i = 0; i < 4; i++) {
    *(W4u *)to = v[i].lo;
    *(W4u *)(to + 4 * LINE) = v[i].hi;
    to += LINE;
  }
}

// put_codes writes 32 codes of each of four rows, for NEON with products of matrices eight columns at a time, two rows side by side.
INLINE void put_codes(uint8_t *to, B32 a, B32 b, B32 c, B32 d) {
#ifdef __ARM_FEATURE_MATMUL_INT8
  to += (uintptr_t)to & 16; // the second four rows take the second half of two lines, not of one
  typedef uint64_t D4 __attribute__((ext_vector_type(4)));
  typedef uint64_t D2 __attribute__((ext_vector_type(2)));
  const D4 v[4] = {(D4)a, (D4)b, (D4)c, (D4)d};
#pragma unroll
  for (int j = 0; j < 4; j++) {
    *(B16u *)(to + j * 2 * LINE) = (B16)(D2){v[0][j], v[1][j]};
    *(B16u *)(to + j * 2 * LINE + 16) = (B16)(D2){v[2][j], v[3][j]};
  }
#else
  transpose(to, a, b, c, d);
#endif
}

// The halves at p, p + stride and so on as floats.
INLINE void four_halves(uint8_t *to, const Rows *r, int offset) {
  uint64_t v = load2(at(r, 0) + offset) | (uint64_t)load2(at(r, 1) + offset) << 16;
  v |= (uint64_t)load2(at(r, 2) + offset) << 32 | (uint64_t)load2(at(r, 3) + offset) << 48;
#ifdef __AVX2__
  *(W4u *)to = (W4)_mm_cvtph_ps(_mm_cvtsi64_si128((long long)v));
#else
  *(W4u *)to = (W4)vcvt_f32_f16((float16x4_t)vcreate_u16(v));
#endif
}

// wanted gives the codes that the products of panels want: VNNI unsigned ones, NEON those without offset.
INLINE B32 wanted(B32 c, const Consts *k) {
#if defined(__AVX512VNNI__) && defined(SIGNED)
  return c ^ k->flip;
#elif !defined(__AVX2__) && defined(OFFSET)
  return c - bytes(1 << OFFSET);
#else
  return c;
#endif
}
