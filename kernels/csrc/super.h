// The types of weights with blocks of 256: how their codes and small scales are stored.
#pragma once
#include "dot.h"

#define q2_K 11
#define q3_K 12
#define q4_K 13
#define q5_K 14
#define q6_K 15
#define iq4_xs 16
#define tq1_0 17
#define tq2_0 18

// BYTES of a block and D, where its scale is; SIZE: weights that share a small scale, 0 for none; MIN: where the scale of the
// minimums is; OFFSET: codes are 2^OFFSET too large.
#if TYPE == q2_K
#define BYTES 84
#define D 80
#define MIN 82
#define SIZE 16
#elif TYPE == q3_K
#define BYTES 110
#define D 108
#define SIZE 16
#define OFFSET 2
#elif TYPE == q4_K
#define BYTES 144
#define D 0
#define MIN 2
#define SIZE 32
#elif TYPE == q5_K
#define BYTES 176
#define D 0
#define MIN 2
#define SIZE 32
#elif TYPE == q6_K
#define BYTES 210
#define D 208
#define SIZE 16
#define OFFSET 5
#elif TYPE == iq4_xs
#define BYTES 136
#define D 0
#define SIZE 32
#define SIGNED
#elif TYPE == tq1_0
#define BYTES 54
#define D 52
#define SIZE 0
#define OFFSET 0
#elif TYPE == tq2_0
#define BYTES 66
#define D 64
#define SIZE 0
#define OFFSET 0
#endif

INLINE B32 moved(B32 v, int n) { return n > 0 ? left(v, n) : n < 0 ? right(v, -n) : v; }

INLINE B32 thrice(B32 v) {
#ifdef __AVX2__
  __asm__("" : "+x"(v)); // or the compiler makes multiplications by constants in memory of it
#endif
  return v + v + v;
}

// codes are those of weights 32·m to 32·m+31.
INLINE B32 codes(const uint8_t *b, int m, const Consts *k) {
  const int n = m / 4, s = m % 4; // of two halves, four times two bits
  (void)n, (void)s;
#if TYPE == q2_K
  return right(load32(b + 16 + 32 * n), 2 * s) & k->m3;
#elif TYPE == q3_K
  return (right(load32(b + 32 + 32 * n), 2 * s) & k->m3) | (moved(load32(b), 2 - m) & k->m4);
#elif TYPE == q4_K
  return right(load32(b + 16 + m / 2 * 32), m % 2 * 4) & k->low4;
#elif TYPE == q5_K
  return (right(load32(b + 48 + m / 2 * 32), m % 2 * 4) & k->low4) | (moved(load32(b + 16), 4 - m) & k->m16);
#elif TYPE == q6_K
  return (right(load32(b + 64 * n + 32 * (s & 1)), s / 2 * 4) & k->low4) | (moved(load32(b + 128 + 32 * n), 4 - 2 * s) & k->m48);
#elif TYPE == iq4_xs
  return lookup(nibbles(load16(b + 8 + 16 * m), k), k->table);
#elif TYPE == tq2_0
  return right(load32(b + 32 * n), 2 * s) & k->m3;
#elif TYPE == tq1_0
  B32 v;
  if (m < 5) {
    v = load32(b);
#pragma unroll
    for (int i = 0; i < m; i++)
      v = thrice(v);
  } else {
    B32 t = twice(load16(b + 32)), u = thrice(t);
#pragma unroll
    for (int i = 5; i < m; i++)
      t = thrice(thrice(t)), u = thrice(thrice(u));
    if (m == 7) {
      // The last 16 weights are in four bytes.
      typedef uint32_t W4 __attribute__((ext_vector_type(4)));
      B32 w0 = twice((B16)(W4)load4(b + 48)), w1 = thrice(w0), w2 = thrice(w1), w3 = thrice(w2);
      W4 x = __builtin_shufflevector((W4)w0.lo, (W4)w1.lo, 0, 4, 0, 4), y = __builtin_shufflevector((W4)w2.lo, (W4)w3.lo, 0, 4, 0, 4);
      u = twice((B16)__builtin_shufflevector(x, y, 0, 1, 4, 5));
    }
    v = join(t.lo, u.hi);
  }
  // 3·v/256, rounded down.
  return __builtin_elementwise_min(__builtin_elementwise_sub_sat(v, k->m85), k->m1) + __builtin_elementwise_min(__builtin_elementwise_sub_sat(v, k->m170), k->m1);
#endif
}

// The small scales and minimums of a block as bytes: 16 of each, or with SIZE 32 eight.
typedef struct {
  B16 scales, mins;
} Small;

typedef uint64_t D2 __attribute__((ext_vector_type(2)));

INLINE Small small(const uint8_t *b, const Consts *k) {
#if TYPE == q2_K
  B16 v = load16(b);
  return (Small){v & k->low4.lo, right(twice(v), 4).lo & k->low4.lo};
#elif TYPE == q3_K
#ifdef __AVX2__
  __m128i v = _mm_loadl_epi64((const __m128i *)(b + 96)), high = _mm_set1_epi32((int)load4(b + 104));
  v = _mm_and_si128(_mm_unpacklo_epi64(v, _mm_srli_epi16(v, 4)), (__m128i)k->low4.lo);
  high = _mm_and_si128(_mm_srlv_epi32(high, (__m128i)k->shifts), (__m128i)k->m3.lo);
  return (Small){(B16)_mm_or_si128(v, _mm_slli_epi16(high, 4)) - k->m32.lo};
#else
  uint8x8_t low = vld1_u8(b + 96);
  uint32x4_t high = vshlq_u32(vdupq_n_u32(load4(b + 104)), (int32x4_t)k->shifts);
  B16 v = vcombine_u8(vand_u8(low, vget_low_u8(k->low4.lo)), vshr_n_u8(low, 4));
  return (Small){(v | (((B16)high & k->m3.lo) << (B16)(uint8_t)4)) - k->m32.lo};
#endif
#elif TYPE == q4_K || TYPE == q5_K
#ifdef __AVX2__
  // Four integers: x, y, z and what does not matter.
  __m128i v = _mm_loadu_si128((const __m128i *)(b + 4));
  __m128i z = _mm_and_si128(_mm_srlv_epi32(_mm_shuffle_epi32(v, 0xAA), (__m128i)k->by4), (__m128i)k->low4.lo);
  __m128i top = _mm_and_si128(_mm_srli_epi32(v, 2), (__m128i)k->m48.lo);
  v = _mm_and_si128(v, (__m128i)k->m63.lo);
  v = _mm_unpacklo_epi32(v, _mm_or_si128(z, top));
  return (Small){(B16)v, (B16)_mm_unpackhi_epi64(v, v)};
#else
  uint32_t x = load4(b + 4), y = load4(b + 8), z = load4(b + 12);
  uint32_t s0 = x & 0x3F3F3F3F, m0 = y & 0x3F3F3F3F;
  uint32_t s1 = (z & 0x0F0F0F0F) | (x >> 2 & 0x30303030), m1 = (z >> 4 & 0x0F0F0F0F) | (y >> 2 & 0x30303030);
  return (Small){(B16)(D2){s0 | (uint64_t)s1 << 32}, (B16)(D2){m0 | (uint64_t)m1 << 32}};
#endif
#elif TYPE == q6_K
  return (Small){load16(b + 192)};
#elif TYPE == iq4_xs
#ifdef __AVX2__
  __m128i v = _mm_cvtsi32_si128((int)load4(b + 4)), high = _mm_set1_epi64x((long long)load2(b + 2));
  v = _mm_and_si128(_mm_unpacklo_epi8(v, _mm_srli_epi16(v, 4)), (__m128i)k->low4.lo);
  high = _mm_cvtepu8_epi32(high);
  high = _mm_or_si128(high, _mm_slli_epi32(high, 6));
  high = _mm_and_si128(_mm_or_si128(high, _mm_slli_epi32(high, 12)), (__m128i)k->m3.lo);
  return (Small){(B16)_mm_or_si128(v, _mm_slli_epi16(high, 4)) - k->m32.lo};
#else
  uint64_t low = load4(b + 4), high = load2(b + 2);
  low = (low | low << 16) & 0x0000FFFF0000FFFF, low = (low | low << 8) & 0x00FF00FF00FF00FF, low = (low | low << 4) & 0x0F0F0F0F0F0F0F0F;
  high = (high | high << 24) & 0x000000FF000000FF, high = (high | high << 12) & 0x000F000F000F000F, high = (high | high << 6) & 0x0303030303030303;
  return (Small){(B16)(D2){low | high << 4} - k->m32.lo};
#endif
#else
  return (Small){};
#endif
}
