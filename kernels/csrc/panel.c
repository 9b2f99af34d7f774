// A panel by many vectors of activations, four at a time. What a panel holds is added to out. SUPER: of blocks of 256, where
// SIZE weights share a small scale (0: there are none); MIN: of types with minimums; OFFSET: the sums of activations must be taken
// into account because codes are too large (AVX only); SIGNED: codes may be negative (AVX2).
#define FLOATS
#include "dot.h"
#include "panel.h"

typedef struct {
  const uint8_t *panel;
  float *out;        // of the first vector
  int64_t stride;    // bytes from vector to vector
  const int8_t *y;   // codes of vector 0 at the columns of the panel
  int64_t y_stride;
  const uint8_t *dy;
  int64_t dy_stride; // bytes
  const uint8_t *sums;
  int64_t sums_stride;
  const int32_t *at; // numbers of the vectors
  int64_t count;     // of them, a positive multiple of four
  int64_t runs;      // of 32 columns
  int64_t offset;    // a pair of 16-bit integers that a sum of codes is multiplied with: the offset, negative, and 0

  // State of the kernel itself.
  int64_t done;
  const uint8_t *ys[4], *dys[4], *sumss[4];
  float *outs[4];
} Panel;

typedef int32_t I32u __attribute__((aligned(1)));
#define FOUR(F) F(0) F(1) F(2) F(3)

#if defined(__AVX512VNNI__)
typedef __m512i Acc;
typedef __m512 Sum;
#define ACC_ZERO _mm512_setzero_si512()
INLINE Acc acc(const void *p) { return *(const __m512i_u *)p; }
INLINE Sum sum(const void *p) { return *(const __m512_u *)p; }
INLINE void put(float *p, Sum v) { *(__m512_u *)p = v; }
INLINE Sum all(const void *p) { return _mm512_set1_ps(*(const float *)p); }
INLINE Sum to_sum(Acc v) { return _mm512_cvtepi32_ps(v); }
INLINE Acc every(const void *p) { return _mm512_set1_epi32(*(const I32u *)p); }
INLINE Acc plus(Acc a, Acc b) { return _mm512_add_epi32(a, b); }
INLINE Acc scaled(Acc a, Acc s, Acc scale) { return _mm512_add_epi32(a, _mm512_mullo_epi32(s, scale)); }
INLINE Acc add_pairs2(Acc a, Acc pairs, Acc v) { return _mm512_dpwssd_epi32(a, pairs, v); }
#elif defined(__AVX2__)
typedef __m256i Acc;
typedef __m256 Sum;
#define ACC_ZERO _mm256_setzero_si256()
INLINE Acc acc(const void *p) { return *(const __m256i_u *)p; }
INLINE Sum sum(const void *p) { return *(const __m256_u *)p; }
INLINE void put(float *p, Sum v) { *(__m256_u *)p = v; }
INLINE Sum all(const void *p) { return _mm256_broadcast_ss((const float *)p); }
INLINE Sum to_sum(Acc v) { return _mm256_cvtepi32_ps(v); }
INLINE Acc every(const void *p) { return _mm256_set1_epi32(*(const I32u *)p); }
INLINE Acc plus(Acc a, Acc b) { return _mm256_add_epi32(a, b); }
INLINE Acc scaled(Acc a, Acc s, Acc scale) { return _mm256_add_epi32(a, _mm256_mullo_epi32(s, scale)); }
INLINE Acc add_pairs2(Acc a, Acc pairs, Acc v) { return _mm256_add_epi32(a, _mm256_madd_epi16(pairs, v)); }
#else
typedef struct {
  int32x4_t lo, hi;
} Acc;
typedef float Sum __attribute__((ext_vector_type(8)));
typedef Sum Sumu __attribute__((aligned(4)));
typedef float F4 __attribute__((ext_vector_type(4)));
#define ACC_ZERO ((Acc){vdupq_n_s32(0), vdupq_n_s32(0)})
INLINE Acc acc(const void *p) { return (Acc){vld1q_s32(p), vld1q_s32((const int32_t *)p + 4)}; }
INLINE Sum sum(const void *p) { return *(const Sumu *)p; }
INLINE void put(float *p, Sum v) { *(Sumu *)p = v; }
INLINE Sum all(const void *p) { return (Sum) * (const float *)p; }
INLINE Sum to_sum(Acc v) {
  Sum s;
  s.lo = (F4)vcvtq_f32_s32(v.lo), s.hi = (F4)vcvtq_f32_s32(v.hi);
  return s;
}
INLINE Acc plus(Acc a, Acc b) { return (Acc){vaddq_s32(a.lo, b.lo), vaddq_s32(a.hi, b.hi)}; }
INLINE Acc scaled(Acc a, Acc s, Acc scale) { return (Acc){vmlaq_s32(a.lo, s.lo, scale.lo), vmlaq_s32(a.hi, s.hi, scale.hi)}; }
#endif

// SIXTEEN(W) adds to s##t the products of 16 columns: four lines of codes at W and 16 activations at y##t.
#if defined(__AVX512VNNI__)
#define LINES1(T, K) s##T = _mm512_dpbusd_epi32(s##T, c0, every(y##T + 4 * K));
#define SIXTEEN_LINE(W, K) { const Acc c0 = acc(W + K * LINE); LINES1(0, K) LINES1(1, K) LINES1(2, K) LINES1(3, K) }
#define SIXTEEN(W) SIXTEEN_LINE(W, 0) SIXTEEN_LINE(W, 1) SIXTEEN_LINE(W, 2) SIXTEEN_LINE(W, 3)
#elif defined(__AVX2__) && defined(SIGNED)
#define LINES1(T, K) s##T = _mm256_add_epi32(s##T, _mm256_madd_epi16(_mm256_maddubs_epi16(c1, _mm256_sign_epi8(every(y##T + 4 * K), c0)), ones));
#define SIXTEEN_LINE(W, K) { const Acc c0 = acc(W + K * LINE), c1 = _mm256_abs_epi8(c0); LINES1(0, K) LINES1(1, K) LINES1(2, K) LINES1(3, K) }
#define SIXTEEN(W) SIXTEEN_LINE(W, 0) SIXTEEN_LINE(W, 1) SIXTEEN_LINE(W, 2) SIXTEEN_LINE(W, 3)
#elif defined(__AVX2__)
// Codes are at most 63: four products fit into 16 bits.
#define LINES2(T, K) s##T = _mm256_add_epi32(s##T, _mm256_madd_epi16(_mm256_add_epi16(_mm256_maddubs_epi16(c0, every(y##T + 4 * K)), _mm256_maddubs_epi16(c1, every(y##T + 4 * K + 4))), ones)); __asm__ volatile("" : "+x"(s##T) : : "memory"); /* in this order, to save registers */
#define SIXTEEN_LINES(W, K) { const Acc c0 = acc(W + K * LINE), c1 = acc(W + (K + 1) * LINE); LINES2(0, K) LINES2(1, K) LINES2(2, K) LINES2(3, K) }
#define SIXTEEN(W) SIXTEEN_LINES(W, 0) SIXTEEN_LINES(W, 2)
#elif defined(__ARM_FEATURE_MATMUL_INT8)
// Two rows by two vectors at a time, eight columns each: p01a is rows 0 and 1 by vectors 0 and 1, p01b by vectors 2 and 3.
#define EIGHT(W, J) { \
    const int8_t *p = (const int8_t *)W + J * 2 * LINE; \
    const int8x16_t r01 = vld1q_s8(p), r23 = vld1q_s8(p + 16), r45 = vld1q_s8(p + 32), r67 = vld1q_s8(p + 48); \
    p01a = vmmlaq_s32(p01a, r01, a##J), p23a = vmmlaq_s32(p23a, r23, a##J), p45a = vmmlaq_s32(p45a, r45, a##J), p67a = vmmlaq_s32(p67a, r67, a##J); \
    p01b = vmmlaq_s32(p01b, r01, b##J), p23b = vmmlaq_s32(p23b, r23, b##J), p45b = vmmlaq_s32(p45b, r45, b##J), p67b = vmmlaq_s32(p67b, r67, b##J); \
  }
#define LOAD_Y(T) const int64x2_t v##T = vreinterpretq_s64_s8(vld1q_s8((const int8_t *)y##T));
#define SIXTEEN(W) { \
    FOUR(LOAD_Y) \
    const int8x16_t a0 = (int8x16_t)vzip1q_s64(v0, v1), a1 = (int8x16_t)vzip2q_s64(v0, v1); \
    const int8x16_t b0 = (int8x16_t)vzip1q_s64(v2, v3), b1 = (int8x16_t)vzip2q_s64(v2, v3); \
    EIGHT(W, 0) EIGHT(W, 1) \
  }
#else
#define LINES1(T, K) s##T.lo = vdotq_laneq_s32(s##T.lo, c0, c1##T, K), s##T.hi = vdotq_laneq_s32(s##T.hi, c1, c1##T, K);
#define SIXTEEN_LINE(W, K) { const int8x16_t c0 = vld1q_s8((const int8_t *)W + K * LINE), c1 = vld1q_s8((const int8_t *)W + K * LINE + 16); LINES1(0, K) LINES1(1, K) LINES1(2, K) LINES1(3, K) }
#define LOAD_Y(T) const int8x16_t c1##T = vld1q_s8((const int8_t *)y##T);
#define SIXTEEN(W) { FOUR(LOAD_Y) SIXTEEN_LINE(W, 0) SIXTEEN_LINE(W, 1) SIXTEEN_LINE(W, 2) SIXTEEN_LINE(W, 3) }
#endif

// at_run reads the pointer to what belongs to vector t each time, which leaves registers to others.
INLINE const uint8_t *at_run(const uint8_t *const *pointers, int t, int64_t run) { return *(const uint8_t *const volatile *)&pointers[t] + run; }

// CLEAR_SUMS makes the sums 0, and FINISH_SUMS makes them those of one vector each.
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define CLEAR_SUMS int32x4_t p01a = vdupq_n_s32(0), p23a = p01a, p45a = p01a, p67a = p01a, p01b = p01a, p23b = p01a, p45b = p01a, p67b = p01a;
#define FINISH_SUMS \
  Acc s0 = {vuzp1q_s32(p01a, p23a), vuzp1q_s32(p45a, p67a)}, s1 = {vuzp2q_s32(p01a, p23a), vuzp2q_s32(p45a, p67a)}; \
  Acc s2 = {vuzp1q_s32(p01b, p23b), vuzp1q_s32(p45b, p67b)}, s3 = {vuzp2q_s32(p01b, p23b), vuzp2q_s32(p45b, p67b)};
#else
#define CLEAR(T) Acc s##T = ACC_ZERO;
#define CLEAR_SUMS FOUR(CLEAR)
#define FINISH_SUMS
#endif
#define NEXT_Y(T) y##T += 16;

ENTRY void KERNEL(Panel *a) {
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
  const Acc ones = splat4(0x00010001);
#endif
  a->done = 0;
  do {
#define LOCATE(T) { \
    const int64_t v = a->at[a->done + T]; \
    a->ys[T] = (const uint8_t *)a->y + v * a->y_stride; \
    a->dys[T] = a->dy + v * a->dy_stride; \
    a->sumss[T] = a->sums + v * a->sums_stride; \
    a->outs[T] = (float *)((uint8_t *)a->out + (a->done + T) * a->stride); \
    FORGET(); \
  }
    FOUR(LOCATE)
    const uint8_t *w = a->panel;
#define START(T) const uint8_t *y##T = a->ys[T];
    FOUR(START)
#ifdef SUPER
#define CLEAR_TOTAL(T) Acc total##T = ACC_ZERO;
    FOUR(CLEAR_TOTAL)
    const uint8_t *end = w + 64 * LINE, *small = w + LINE_SMALL * LINE;
    (void)small;
    do {
#if SIZE == 16
#define ADD_SCALED(T) total##T = scaled(total##T, s##T, scale);
      CLEAR_SUMS
      SIXTEEN(w)
      FINISH_SUMS
      FOUR(NEXT_Y)
      const Acc scale = acc(small);
      FOUR(ADD_SCALED)
      small += LINE;
      w += 4 * LINE;
#elif SIZE == 32
#define ADD_SCALED(T) total##T = scaled(total##T, s##T, scale);
      CLEAR_SUMS
      SIXTEEN(w)
      FOUR(NEXT_Y)
      SIXTEEN((w + 4 * LINE))
      FOUR(NEXT_Y)
      FINISH_SUMS
      const Acc scale = acc(small);
      FOUR(ADD_SCALED)
      small += LINE;
#else
#define ADD_UNSCALED(T) total##T = plus(total##T, s##T);
      CLEAR_SUMS
      SIXTEEN(w)
      FOUR(NEXT_Y)
      SIXTEEN((w + 4 * LINE))
      FOUR(NEXT_Y)
      FINISH_SUMS
      FOUR(ADD_UNSCALED)
#endif
#if SIZE != 16
      w += 8 * LINE;
#endif
      __asm__("" : "+r"(w));
    } while (w < end);
    FORGET();
    w = a->panel;
#ifdef OFFSET
#define CORRECT(T) total##T = add_pairs2(total##T, acc(w + (LINE_OFFSET + J) * LINE), every(a->sumss[T] + 4 * J));
#define J 0
    FOUR(CORRECT)
#undef J
#define J 1
    FOUR(CORRECT)
#undef J
#define J 2
    FOUR(CORRECT)
#undef J
#define J 3
    FOUR(CORRECT)
#undef J
#define J 4
    FOUR(CORRECT)
#undef J
#define J 5
    FOUR(CORRECT)
#undef J
#define J 6
    FOUR(CORRECT)
#undef J
#define J 7
    FOUR(CORRECT)
#undef J
#endif
#ifdef MIN
#ifdef __AVX2__
#define MINS_OF(T) { \
    const uint8_t *sums = a->sumss[T]; \
    Acc m = ACC_ZERO; \
    for (int j = 0; j < 8; j++) \
      m = add_pairs2(m, acc(w + (LINE_SMALLMIN + j) * LINE), every(sums + 4 * j)); \
    term -= to_sum(m) * (sum(w + LINE_MIN * LINE) * all(a->dys[T])); \
  }
#else
#define ADD_MIN(M, J, V, L) \
    M.lo = vmlal_laneq_s16(M.lo, vget_low_s16(e), V, L), M.hi = vmlal_high_laneq_s16(M.hi, e, V, L); \
    if (SIZE == 16) \
      M.lo = vmlal_laneq_s16(M.lo, vget_low_s16(o), V, (L + 1) % 8), M.hi = vmlal_high_laneq_s16(M.hi, o, V, (L + 1) % 8);
#define ADD_MINS(M, J, V, L) { \
    const int16x8_t p = vld1q_s16((const int16_t *)(w + (LINE_SMALLMIN + J) * LINE)), q = vld1q_s16((const int16_t *)(w + (LINE_SMALLMIN + J) * LINE + 16)); \
    const int16x8_t e = vuzp1q_s16(p, q), o = vuzp2q_s16(p, q); \
    (void)o; \
    ADD_MIN(M, J, V, L) \
    __asm__ volatile("" : "+w"(M.lo), "+w"(M.hi) : : "memory"); /* in this order, to save registers */ \
  }
#define MINS_OF(T) { \
    const int16x8_t b0 = vld1q_s16((const int16_t *)a->sumss[T]), b1 = vld1q_s16((const int16_t *)a->sumss[T] + 8); \
    Acc m = ACC_ZERO; \
    if (SIZE == 16) { \
      ADD_MINS(m, 0, b0, 0) ADD_MINS(m, 1, b0, 2) ADD_MINS(m, 2, b0, 4) ADD_MINS(m, 3, b0, 6) \
      ADD_MINS(m, 4, b1, 0) ADD_MINS(m, 5, b1, 2) ADD_MINS(m, 6, b1, 4) ADD_MINS(m, 7, b1, 6) \
    } else { \
      const int16x8_t b = vpaddq_s16(b0, b1); \
      ADD_MINS(m, 0, b, 0) ADD_MINS(m, 1, b, 1) ADD_MINS(m, 2, b, 2) ADD_MINS(m, 3, b, 3) \
      ADD_MINS(m, 4, b, 4) ADD_MINS(m, 5, b, 5) ADD_MINS(m, 6, b, 6) ADD_MINS(m, 7, b, 7) \
    } \
    term -= to_sum(m) * (sum(w + LINE_MIN * LINE) * all(a->dys[T])); \
  }
#endif
#else
#define MINS_OF(T)
#endif
#define ADD_TERM(T) { \
    Sum term = to_sum(total##T) * (sum(w + LINE_SCALE * LINE) * all(a->dys[T])); \
    MINS_OF(T) \
    put(a->outs[T], sum(a->outs[T]) + term); \
    FORGET(); \
  }
    FOUR(ADD_TERM)
#else // blocks of 32
#define LOAD_OUT(T) Sum out##T = sum(a->outs[T]);
    FOUR(LOAD_OUT)
    const uint8_t *scales = w + LINE_SCALE * LINE;
    int64_t run = 0;
#ifdef OFFSET
    const Acc offset = every(&a->offset);
#endif
    do {
      CLEAR_SUMS
      SIXTEEN(w)
      FOUR(NEXT_Y)
      SIXTEEN((w + 4 * LINE))
      FOUR(NEXT_Y)
      FINISH_SUMS
      const Sum d = sum(scales);
#ifdef OFFSET
#define CORRECT(T) s##T = add_pairs2(s##T, offset, every(at_run(a->sumss, T, run)));
      FOUR(CORRECT)
#endif
#ifdef MIN
      const Sum least = sum(scales + (LINE_MIN - LINE_SCALE) * LINE);
#define ADD_TERM(T) out##T += to_sum(s##T) * (d * all(at_run(a->dys, T, run))) + least * all(at_run(a->sumss, T, run));
#else
#define ADD_TERM(T) out##T += to_sum(s##T) * (d * all(at_run(a->dys, T, run)));
#endif
      FOUR(ADD_TERM)
      w += 8 * LINE, scales += LINE;
      run += 4;
    } while (run < *(volatile int64_t *)&a->runs * 4);
    FORGET();
#define PUT_OUT(T) put(a->outs[T], out##T);
    FOUR(PUT_OUT)
#endif
    FORGET();
  } while ((a->done += 4) < a->count);
}
