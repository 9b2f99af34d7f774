// The types of weights with blocks of 32, or runs of 32 in blocks: how their codes are stored.
#pragma once
#include "dot.h"

#define q4_0 1
#define q4_1 2
#define q5_0 3
#define q5_1 4
#define q8_0 5
#define iq4_nl 6
#define q1_0 7
#define q2_0 8

// BYTES of a block, or RUN_BYTES of the codes of 32 weights in a larger one; OFFSET: codes are 2^OFFSET too large.
#if TYPE == q4_0
#define BYTES 18
#define OFFSET 3
#elif TYPE == q4_1
#define BYTES 20
#define MIN
#elif TYPE == q5_0
#define BYTES 22
#define OFFSET 4
#elif TYPE == q5_1
#define BYTES 24
#define MIN
#elif TYPE == q8_0
#define BYTES 34
#define SIGNED
#elif TYPE == iq4_nl
#define BYTES 18
#define SIGNED
#elif TYPE == q1_0
#define BYTES 18
#define RUN_BYTES 4
#define OFFSET 0
#elif TYPE == q2_0
#define BYTES 18
#define RUN_BYTES 8
#define OFFSET 0
#endif

// VNNI multiplies unsigned with signed bytes only.
#if defined(SIGNED) && defined(__AVX512VNNI__)
#undef SIGNED
#define OFFSET 7
#endif

INLINE B32 codes(const uint8_t *block, const Consts *k) { // of q1_0 and q2_0: block is moved on with the run
#if TYPE == q4_0
  return nibbles(load16(block + 2), k);
#elif TYPE == q4_1
  return nibbles(load16(block + 4), k);
#elif TYPE == q5_0
  return nibbles(load16(block + 6), k) | spread(load4(block + 2), k->m16, k);
#elif TYPE == q5_1
  return nibbles(load16(block + 8), k) | spread(load4(block + 4), k->m16, k);
#elif TYPE == q8_0
#ifdef __AVX512VNNI__
  return load32(block + 2) ^ k->flip;
#else
  return load32(block + 2);
#endif
#elif TYPE == iq4_nl
#ifdef __AVX512VNNI__
  return lookup(nibbles(load16(block + 2), k), k->table ^ k->flip.lo);
#else
  return lookup(nibbles(load16(block + 2), k), k->table);
#endif
#elif TYPE == q1_0
  return spread(load4(block + 2), k->m2, k);
#elif TYPE == q2_0
#ifdef __AVX2__
  Lanes v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(block + 2)));
  v = _mm256_or_si256(v, _mm256_slli_epi32(v, 6));
  return (B32)_mm256_or_si256(v, _mm256_slli_epi32(v, 12)) & k->m3;
#else
  uint16x8_t h = vmovl_u8(vld1_u8(block + 2));
  uint32x4_t a = vmovl_u16(vget_low_u16(h)), b = vmovl_high_u16(h);
  a = vsliq_n_u32(a, a, 6), b = vsliq_n_u32(b, b, 6);
  a = vorrq_u32(a, vshlq_n_u32(a, 12)), b = vorrq_u32(b, vshlq_n_u32(b, 12));
  return join(vreinterpretq_u8_u32(a), vreinterpretq_u8_u32(b)) & k->m3;
#endif
#endif
}
