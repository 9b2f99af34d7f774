// Vectors of LANES floats, one lane per block, on clang's vector extensions. The compiler cuts them
// into as many registers as the instruction set needs, which also interleaves independent work.
//
// Everything here is compiled with -ffp-contract=off: a product and a sum are two roundings.
#pragma once
#include <stdint.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif
#ifdef __ARM_NEON
#include <arm_neon.h>
#endif

// In this calling convention no register has to be saved; the generator knows where the argument is then.
#define ENTRY __attribute__((preserve_none))
#define INLINE static inline __attribute__((always_inline, unused))

typedef float V __attribute__((ext_vector_type(LANES)));
typedef int32_t I __attribute__((ext_vector_type(LANES)));
typedef float V4 __attribute__((ext_vector_type(4)));
typedef V4 V4u __attribute__((aligned(4)));
typedef V Vu __attribute__((aligned(4)));
typedef I Iu __attribute__((aligned(4)));

// The bits of a float constant, hidden from the compiler, which would otherwise load the constant
// from a section that is lost on the way to Go assembly.
static inline __attribute__((always_inline)) V splat_bits(int32_t b) {
  __asm__("" : "+r"(b));
  return (V)(I)b;
}

static inline V load(const float *p) { return *(const Vu *)p; }
static inline void store(float *p, V v) { *(Vu *)p = v; }

#if LANES == 16 && (defined(__F16C__) || defined(__ARM_NEON))
// load_halves gives 16 IEEE halves as floats.
INLINE V load_halves(const uint8_t *p) {
  V v;
#if defined(__AVX512F__)
  v = (V)_mm512_cvtph_ps(*(const __m256i_u *)p);
#elif defined(__AVX2__)
  v.lo = (__m256)_mm256_cvtph_ps(*(const __m128i_u *)p), v.hi = (__m256)_mm256_cvtph_ps(*(const __m128i_u *)(p + 16));
#else
  float16x8_t a = (float16x8_t)vld1q_u16((const uint16_t *)p), b = (float16x8_t)vld1q_u16((const uint16_t *)(p + 16));
  v.lo.lo = (V4)vcvt_f32_f16(vget_low_f16(a)), v.lo.hi = (V4)vcvt_high_f32_f16(a);
  v.hi.lo = (V4)vcvt_f32_f16(vget_low_f16(b)), v.hi.hi = (V4)vcvt_high_f32_f16(b);
#endif
  return v;
}
#endif

// store_bytes stores integers of 0 to 255 as bytes.
static inline __attribute__((always_inline)) void store_bytes(uint8_t *p, I v) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  __m128i q[4];
  __builtin_memcpy(q, &v, sizeof v);
  _mm_storeu_si128((__m128i *)p, _mm_packus_epi16(_mm_packus_epi32(q[0], q[1]), _mm_packus_epi32(q[2], q[3])));
#elif defined(__ARM_NEON)
  uint32x4_t q[4];
  __builtin_memcpy(q, &v, sizeof v);
  uint16x8_t low = vcombine_u16(vqmovn_u32(q[0]), vqmovn_u32(q[1])), high = vcombine_u16(vqmovn_u32(q[2]), vqmovn_u32(q[3]));
  vst1q_u8(p, vcombine_u8(vqmovn_u16(low), vqmovn_u16(high)));
#else
  typedef uint8_t B __attribute__((ext_vector_type(LANES), aligned(1)));
  *(B *)p = __builtin_convertvector(v, B);
#endif
}

// transpose4 writes the 4x4 matrix of floats whose row r is at src + r*from, as columns at dst + c*to.
static inline __attribute__((always_inline)) void transpose4(float *dst, long to, const float *src, long from) {
  V4 a = *(const V4u *)src, b = *(const V4u *)(src + from), c = *(const V4u *)(src + 2 * from), d = *(const V4u *)(src + 3 * from);
  V4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  V4 cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5), cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  *(V4u *)dst = __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
  *(V4u *)(dst + to) = __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
  *(V4u *)(dst + 2 * to) = __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
  *(V4u *)(dst + 3 * to) = __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
}

// SPILL makes the compiler forget what it holds of memory, so that it reloads state from there
// instead of running out of registers and using the stack.
#define SPILL() __asm__ volatile("" ::: "memory")
