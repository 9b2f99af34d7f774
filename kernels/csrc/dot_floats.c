// Rows of floats by one vector of floats, as in dot_floats.go. TYPE is that of the weights. Of the vector, the whole runs of 16.
#define FLOATS
#include "dot.h"

#define f32 1
#define f16 2
#define bf16 3

typedef float F16 __attribute__((ext_vector_type(16)));
typedef F16 F16u __attribute__((aligned(4)));
typedef uint32_t U16 __attribute__((ext_vector_type(16)));
typedef uint16_t H16 __attribute__((ext_vector_type(16), aligned(1)));
typedef float F8 __attribute__((ext_vector_type(8)));
typedef float F4 __attribute__((ext_vector_type(4)));

#if TYPE == f32
#define BYTES 4
#else
#define BYTES 2
#endif

INLINE F16 values(const uint8_t *p) {
#if TYPE == f32
  typedef F16 F16b __attribute__((aligned(1)));
  return *(const F16b *)p;
#elif TYPE == bf16 && defined(__AVX2__) && !defined(__AVX512F__)
  F16 v;
  v.lo = (F8)_mm256_slli_epi32(_mm256_cvtepu16_epi32(*(const __m128i_u *)p), 16);
  v.hi = (F8)_mm256_slli_epi32(_mm256_cvtepu16_epi32(*(const __m128i_u *)(p + 16)), 16);
  return v;
#elif TYPE == bf16
  return (F16)(__builtin_convertvector(*(const H16 *)p, U16) << 16);
#elif defined(__AVX512F__)
  return (F16)_mm512_cvtph_ps(*(const __m256i_u *)p);
#elif defined(__AVX2__)
  F16 v;
  v.lo = (F8)_mm256_cvtph_ps(*(const __m128i_u *)p), v.hi = (F8)_mm256_cvtph_ps(*(const __m128i_u *)(p + 16));
  return v;
#else
  F16 v;
  float16x8_t a = (float16x8_t)vld1q_u16((const uint16_t *)p), b = (float16x8_t)vld1q_u16((const uint16_t *)(p + 16));
  v.lo.lo = (F4)vcvt_f32_f16(vget_low_f16(a)), v.lo.hi = (F4)vcvt_high_f32_f16(a);
  v.hi.lo = (F4)vcvt_f32_f16(vget_low_f16(b)), v.hi.hi = (F4)vcvt_high_f32_f16(b);
  return v;
#endif
}

// Products of halves are exact in float32: whether a sum is fused with them makes no difference.
INLINE F16 add_product(F16 sum, F16 a, F16 b) {
#if TYPE == f16
  return __builtin_elementwise_fma(a, b, sum);
#else
  return sum + a * b;
#endif
}

INLINE float pairwise(F16 v) {
  F8 a = v.lo + v.hi;
  F4 b = a.lo + a.hi;
  return (b.x + b.z) + (b.y + b.w);
}

// With VECTORS 2 there is a second vector at sums, whose products go to work.
ENTRY void KERNEL(Args *a) {
  first(a);
  do {
    const uint8_t *w = a->next_rows, *v = a->next_rows + a->stride;
    const F16u *x = (const F16u *)a->y;
    F16 s = (F16)(U16)0, t = s;
#if VECTORS == 2
    F16 s2 = s, t2 = s;
    const intptr_t second = (intptr_t)a->sums - (intptr_t)a->y;
#endif
    look_ahead(a);
    do {
      prefetch_next(a, ROWS * 16 * BYTES);
      const F16 p = values(w), q = values(v);
      s = add_product(s, p, *x);
      t = add_product(t, q, *x);
#if VECTORS == 2
      const F16u *x2 = (const F16u *)((intptr_t)x + second);
      s2 = add_product(s2, p, *x2);
      t2 = add_product(t2, q, *x2);
#endif
      w += 16 * BYTES, v += 16 * BYTES, x++;
    } while ((const int8_t *)x < last(a));
    a->next_out[0] = pairwise(s);
    a->next_out[1] = pairwise(t);
#if VECTORS == 2
    float *out2 = (float *)((intptr_t)a->work + ((intptr_t)a->next_out - (intptr_t)a->out));
    out2[0] = pairwise(s2);
    out2[1] = pairwise(t2);
#endif
  } while (next(a));
}
