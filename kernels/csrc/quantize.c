// Activations to codes, as in activations.go. KIND 0: FormQ8_0, 1: FormQ8_1, 2: FormQ8_K.
#include "lanes.h"

typedef struct {
  const float *x;
  int8_t *codes;
  float *scales;
  void *sums;    // of the codes; of KIND 1 mins
  int64_t count; // of blocks, at least 1
} Args;

INLINE void store_codes(int8_t *p, I v) {
#if defined(__AVX512F__)
  _mm_storeu_si128((__m128i_u *)p, _mm512_cvtepi32_epi8((__m512i)v));
#elif defined(__AVX2__)
  __m128i q[4];
  __builtin_memcpy(q, &v, sizeof v);
  _mm_storeu_si128((__m128i_u *)p, _mm_packs_epi16(_mm_packs_epi32(q[0], q[1]), _mm_packs_epi32(q[2], q[3])));
#else
  int32x4_t q[4];
  __builtin_memcpy(q, &v, sizeof v);
  vst1q_s8(p, vcombine_s8(vqmovn_s16(vcombine_s16(vqmovn_s32(q[0]), vqmovn_s32(q[1]))), vqmovn_s16(vcombine_s16(vqmovn_s32(q[2]), vqmovn_s32(q[3])))));
#endif
}

// half rounds to a half.
INLINE float half(float v) {
#ifdef __AVX2__
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtps_ph(_mm_set_ss(v), 0)));
#else
  return (float)(__fp16)v;
#endif
}

INLINE float from_bits(int32_t b) {
  float f;
  __asm__("" : "+r"(b));
  __builtin_memcpy(&f, &b, 4);
  return f;
}

INLINE I code(V q, V most, V least, V magic) {
  q = (V)((I)q & (q == q));
  q = q > most ? most : q;
  q = q < least ? least : q;
  return (I)(q + magic) - (I)magic;
}

ENTRY void KERNEL(const Args *a) {
  const float *x = a->x;
  int8_t *codes = a->codes;
  float *scale = a->scales, *end = scale + a->count;
  const V magic = splat_bits(0x4B400000), most = splat_bits(0x42FE0000), least = splat_bits((int32_t)0xC2FE0000); // ±127
  const I mask = (I)splat_bits(0x7FFFFFFF);
#if KIND < 2
  int32_t *sums = a->sums;
  do {
    V u = load(x), v = load(x + 16);
    float amax = from_bits(__builtin_reduce_max(__builtin_elementwise_max((I)u & mask, (I)v & mask)));
    float d = amax / most[0], inverse = amax != 0 ? most[0] / amax : 0;
    I c = code(u * inverse, most, least, magic), e = code(v * inverse, most, least, magic);
    store_codes(codes, c);
    store_codes(codes + 16, e);
    int32_t sum = __builtin_reduce_add(c + e);
#if KIND == 0
    *sums = sum;
#else
    *(float *)sums = half(d * (float)sum);
#endif
    *scale = half(d);
    sums++, codes += 32, x += 32;
  } while (++scale < end);
#else
  int16_t *sums = a->sums;
  do {
    I m = (I)load(x) & mask;
    for (int i = 16; i < 256; i += 16)
      m = __builtin_elementwise_max(m, (I)load(x + i) & mask);
    int32_t amax = __builtin_reduce_max(m);
    if (amax == 0) {
      *scale = 0;
      for (int i = 0; i < 256; i += 16) {
        store_codes(codes, m);
        codes += 16;
        *sums++ = 0;
      }
      x += 256;
      continue;
    }
    const float *first = x;
    while (__builtin_reduce_or(((I)load(first) & mask) == amax) == 0)
      first += LANES;
    int32_t top;
    do
      __builtin_memcpy(&top, first++, 4);
    while ((top & 0x7FFFFFFF) != amax);
    float inverse = least[0] / from_bits(top);
    const float *last = x + 256;
    do {
      I c = code(load(x) * inverse, most, least, magic);
      store_codes(codes, c);
      *sums++ = (int16_t)__builtin_reduce_add(c);
      codes += 16;
    } while ((x += 16) < last);
    *scale = from_bits(0x3F800000) / inverse;
  } while (++scale < end);
#endif
}
