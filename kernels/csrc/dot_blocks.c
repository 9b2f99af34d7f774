// Rows of blocks of 32 weights by one vector of activations in FormQ8_0 or FormQ8_1, as in dot_blocks.go. TYPE is that of the weights.
#include "blocks.h"

// dot returns lanes whose sum is that of the products of codes c and y, |y| ≤ 127.
INLINE Lanes dot(B32 c, B32 y, const Consts *k) {
#if defined(__AVX512VNNI__)
  return _mm256_dpbusd_epi32(ZERO, (__m256i)c, (__m256i)y);
#elif defined(__AVX2__)
#ifdef SIGNED
  // |c| may be 128, and then a pair of products 2·128·127, which still fits.
  Pairs p = _mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)c), _mm256_sign_epi8((__m256i)y, (__m256i)c));
#else
  Pairs p = _mm256_maddubs_epi16((__m256i)c, (__m256i)y);
#endif
  return _mm256_madd_epi16(p, k->ones);
#elif defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(vdotq_s32(ZERO, lower(c), lower(y)), upper(c), upper(y));
#else
  Pairs p = products0(lower(c), lower(y));
#ifdef SIGNED
  // Two products of 128·127 fit.
  return vpadalq_s16(vpaddlq_s16(p), products0(upper(c), upper(y)));
#else
  return vpaddlq_s16(products(p, upper(c), upper(y)));
#endif
#endif
}

INLINE Floats add_term(Floats sum, Lanes total, Floats scale, Floats minimum) {
  Floats term = floats(total) * scale;
#ifdef MIN
  term += minimum;
#endif
  return sum + term;
}

// A core that does not reorder instructions waits for each step from a total to the sum. So these are done in the next turn
// of the loop, between other instructions. The first turn adds 0.
#ifndef __AVX2__
#define PIPELINE
#endif

ENTRY void KERNEL(Args *a) {
  const Consts k = constants();
  const int64_t stride = a->stride, stride3 = times3(stride);
  first(a);
  do {
    const uint8_t *block = a->next_rows;
    look_ahead(a);
    const int8_t *y = a->y;
    const float *dy = a->dy;
#if defined(OFFSET) || defined(MIN)
    const float *sums = a->sums;
#endif
    Floats sum = ZEROF;
#ifdef PIPELINE
    Lanes last_total = ZERO;
    Floats last_scale = ZEROF, last_least = ZEROF;
#endif
    do {
      Rows r = rows(block, stride, stride3);
      prefetch_next(a, ROWS * BYTES);
      const Floats d = halves(&r, 0);
#ifdef MIN
      const Floats least = halves(&r, 2);
#endif
#ifdef RUN_BYTES
      *(const uint8_t *volatile *)&a->end = block + 16;
      do {
        r = rows(block, stride, stride3);
#endif
        const B32 v = load32(y);
#define ROW(R) dot(codes(at(&r, R), &k), v, &k)
        Lanes total = SUMS(ROW);
#ifdef OFFSET
        total = sub(total, shift(splati((const int32_t *)sums++), OFFSET));
#endif
        const Floats scale = d * splatf(dy);
#ifdef MIN
        const Floats minimum = least * splatf(sums++);
#else
        const Floats minimum = ZEROF;
#endif
#ifdef PIPELINE
        sum = add_term(sum, last_total, last_scale, last_least);
        last_total = total, last_scale = scale, last_least = minimum;
#else
        sum = add_term(sum, total, scale, minimum);
#endif
        y += 32, dy++;
#ifdef RUN_BYTES
        block += RUN_BYTES;
        __asm__("" : "+r"(block));
      } while (block < *(const uint8_t *volatile *)&a->end);
      block += 2;
#else
      block += BYTES;
#endif
    } while (y < last(a));
#ifdef PIPELINE
    sum = add_term(sum, last_total, last_scale, last_least);
#endif
    storef(a->next_out, sum);
  } while (next(a));
}
