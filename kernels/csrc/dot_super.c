// Rows of blocks of 256 weights by one vector of activations in FormQ8_K, as in dot_super.go. TYPE is that of the weights.
#include "super.h"

// spread_indices writes indices that spread the 16-bit scales to all products they are for.
INLINE void spread_indices(Lanes *index) {
#if defined(__AVX2__) && SIZE > 0
  Lanes v = splat4(0x01000100), step = SIZE == 32 ? splat4(0x02020202) : splat4(0x04040404);
  if (SIZE == 16)
    v = _mm256_inserti128_si256(v, _mm256_castsi256_si128(splat4(0x03020302)), 1);
  for (int m = 0; m < SIZE / 4; m++) {
    index[m] = v;
    v = _mm256_add_epi8(v, step);
  }
  FORGET();
#endif
}

// row gives lanes whose sum is that of scale·code·y over a block, and in *mins lanes whose sum is that of min·bsum.
INLINE Lanes row(const uint8_t *b, const int8_t *y, const int16_t *bsums, const Lanes *index, Lanes *mins, const Consts *k) {
  const Small s = small(b, k);
#ifdef __AVX2__
  const __m256i sums = _mm256_loadu_si256((const __m256i *)bsums);
  (void)sums, (void)s;
#ifdef SIGNED
#define PAIRS(M) ({ __m256i c = (__m256i)codes(b, M, k); _mm256_maddubs_epi16(_mm256_abs_epi8(c), _mm256_sign_epi8((__m256i)load32(y + 32 * M), c)); })
#else
#define PAIRS(M) _mm256_maddubs_epi16((__m256i)codes(b, M, k), (__m256i)load32(y + 32 * M))
#endif
#if SIZE == 0
  Pairs pairs = PAIRS(0);
#define ADD(M) if (M > 0) pairs = _mm256_add_epi16(pairs, PAIRS(M));
  EACH(ADD)
  return sub(_mm256_madd_epi16(pairs, k->ones), _mm256_madd_epi16(sums, k->ones));
#else
  Lanes total = ZERO;
#if SIZE == 16
  const Pairs wide = _mm256_cvtepi8_epi16((__m128i)s.scales);
  Pairs scales = _mm256_permute2x128_si256(wide, wide, 0x00);
#ifdef OFFSET
  total = sub(total, shift(_mm256_madd_epi16(wide, sums), OFFSET));
#endif
#ifdef MIN
  *mins = _mm256_madd_epi16(_mm256_cvtepi8_epi16((__m128i)s.mins), sums);
#endif
#else
  const Pairs scales = _mm256_broadcastsi128_si256(_mm_cvtepi8_epi16((__m128i)s.scales));
#ifdef MIN
  *mins = _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm_unpacklo_epi8((__m128i)s.mins, (__m128i)s.mins)), sums);
#endif
#endif
#ifdef __AVX512VNNI__
#define MADD(A, B) total = _mm256_dpwssd_epi32(total, A, B)
#else
#define MADD(A, B) total = _mm256_add_epi32(total, _mm256_madd_epi16(A, B))
#endif
#if SIZE == 16
#define SECOND_HALF(M) if (M == 4) scales = _mm256_permute2x128_si256(wide, wide, 0x11);
#else
#define SECOND_HALF(M)
#endif
#define ADD(M) SECOND_HALF(M) MADD(PAIRS(M), _mm256_shuffle_epi8(scales, index[SIZE == 16 ? M % 4 : M]));
  EACH(ADD)
  return total;
#endif

#else // NEON

  const Pairs sums0 = vld1q_s16(bsums), sums1 = vld1q_s16(bsums + 8);
  (void)sums0, (void)sums1, (void)s;
  Lanes total = ZERO, other = ZERO; // two, for sums to overlap
#if SIZE == 0
#define ADD(M) { B32 c = codes(b, M, k), v = load32(y + 32 * M); ADD_DOT(c, v) }
#ifdef __ARM_FEATURE_DOTPROD
#define ADD_DOT(C, V) total = vdotq_s32(total, lower(C), lower(V)), other = vdotq_s32(other, upper(C), upper(V));
#else
#define ADD_DOT(C, V) total = vpadalq_s16(total, products(products0(lower(C), lower(V)), upper(C), upper(V)));
#endif
  EACH(ADD)
  return vsubq_s32(vaddq_s32(total, other), vpadalq_s16(vpaddlq_s16(sums0), sums1));
#else
  const Pairs scales0 = vmovl_s8(vget_low_s8((int8x16_t)s.scales));
#if SIZE == 16
  const Pairs scales1 = vmovl_high_s8((int8x16_t)s.scales);
#ifdef OFFSET
  total = vsubq_s32(total, shift(weighted(scales0, sums0, scales1, sums1), OFFSET));
#endif
#ifdef MIN
  *mins = weighted(vmovl_s8(vget_low_s8((int8x16_t)s.mins)), sums0, vmovl_high_s8((int8x16_t)s.mins), sums1);
#endif
#ifdef __ARM_FEATURE_DOTPROD
  const Lanes w0 = vmovl_s16(vget_low_s16(scales0)), w1 = vmovl_high_s16(scales0), w2 = vmovl_s16(vget_low_s16(scales1)), w3 = vmovl_high_s16(scales1);
#define W(M) (M / 2 == 0 ? w0 : M / 2 == 1 ? w1 : M / 2 == 2 ? w2 : w3)
#define ADD(M) { \
    B32 c = codes(b, M, k), v = load32(y + 32 * M); \
    total = vmlaq_laneq_s32(total, vdotq_s32(ZERO, lower(c), lower(v)), W(M), 2 * M % 4); \
    other = vmlaq_laneq_s32(other, vdotq_s32(ZERO, upper(c), upper(v)), W(M), 2 * M % 4 + 1); \
  }
#else
#define W(M) (M < 4 ? scales0 : scales1)
#define ADD(M) { \
    B32 c = codes(b, M, k), v = load32(y + 32 * M); \
    Pairs p = products0(lower(c), lower(v)), q = products0(upper(c), upper(v)); \
    total = vmlal_high_laneq_s16(vmlal_laneq_s16(total, vget_low_s16(p), W(M), 2 * M % 8), p, W(M), 2 * M % 8); \
    other = vmlal_high_laneq_s16(vmlal_laneq_s16(other, vget_low_s16(q), W(M), 2 * M % 8 + 1), q, W(M), 2 * M % 8 + 1); \
  }
#endif
#else // SIZE == 32
#ifdef MIN
  const Pairs m = vmovl_s8(vget_low_s8((int8x16_t)s.mins)), sums = vpaddq_s16(sums0, sums1);
  *mins = vmlal_high_s16(vmull_s16(vget_low_s16(m), vget_low_s16(sums)), m, sums);
#endif
#ifdef __ARM_FEATURE_DOTPROD
  const Lanes w0 = vmovl_s16(vget_low_s16(scales0)), w1 = vmovl_high_s16(scales0);
#define ADD(M) { \
    B32 c = codes(b, M, k), v = load32(y + 32 * M); \
    Lanes d = vdotq_s32(vdotq_s32(ZERO, lower(c), lower(v)), upper(c), upper(v)); \
    if (M % 2) \
      other = vmlaq_laneq_s32(other, d, M < 4 ? w0 : w1, M % 4); \
    else \
      total = vmlaq_laneq_s32(total, d, M < 4 ? w0 : w1, M % 4); \
  }
#elif defined(SIGNED)
#define ADD(M) { \
    B32 c = codes(b, M, k), v = load32(y + 32 * M); \
    Pairs p = products0(lower(c), lower(v)), q = products0(upper(c), upper(v)); \
    total = vmlal_high_laneq_s16(vmlal_laneq_s16(total, vget_low_s16(p), scales0, M), p, scales0, M); \
    other = vmlal_high_laneq_s16(vmlal_laneq_s16(other, vget_low_s16(q), scales0, M), q, scales0, M); \
  }
#else
#define ADD(M) { \
    B32 c = codes(b, M, k), v = load32(y + 32 * M); \
    Pairs p = products(products0(lower(c), lower(v)), upper(c), upper(v)); \
    total = vmlal_laneq_s16(total, vget_low_s16(p), scales0, M); \
    other = vmlal_high_laneq_s16(other, p, scales0, M); \
  }
#endif
#endif
  EACH(ADD)
  return vaddq_s32(total, other);
#endif
#endif
}

ENTRY void KERNEL(Args *a) {
  const Consts k = constants();
  *(const uint8_t *volatile *)&a->end = (const uint8_t *)((Lanes *)a->work + 2 * ROWS);
  spread_indices((Lanes *)a->work + 2 * ROWS);
  first(a);
  do {
    a->block = a->next_rows;
    look_ahead(a);
    const int8_t *y = a->y;
    storef(a->next_out, ZEROF);
    do {
      // The sums of each row, in memory: the registers are for one row.
      {
        const uint8_t *b = a->block;
        const int16_t *bsums = (const int16_t *)a->sums + (y - a->y) / 16;
        Lanes *w = a->work;
        FORGET();
        do {
          Lanes mins;
          prefetch_next(a, BYTES);
          w[0] = row(b, y, bsums, (const Lanes *)a->work + 2 * ROWS, &mins, &k);
#ifdef MIN
          w[1] = mins;
#endif
          b += *(const volatile int64_t *)&a->stride;
          w += 2;
          __asm__("" : "+r"(w));
        } while ((const uint8_t *)w < *(const uint8_t *volatile *)&a->end);
        FORGET();
      }
      const Lanes *w = a->work;
      const Rows r = rows(a->block, a->stride, times3(a->stride));
      const Floats scale = splatf(a->dy + (y - a->y) / 256);
#define PART(R) w[2 * R]
      Floats term = floats(SUMS(PART)) * (halves(&r, D) * scale);
#ifdef MIN
#define MIN_PART(R) w[2 * R + 1]
      term -= floats(SUMS(MIN_PART)) * (halves(&r, MIN) * scale);
#endif
      storef(a->next_out, loadf(a->next_out) + term);
      a->block += BYTES;
      y += 256;
      FORGET();
    } while (y < a->last);
  } while (next(a));
}
