// Codes of weights and activations, 32 at a time, for all instruction sets: AVX2, AVX-512 with VNNI in
// registers of 256 bits, NEON, and NEON with dot products. A kernel takes ROWS rows of weights at once.
#pragma once
#ifndef PREFETCH
#define PREFETCH 3
#endif
#include <stdint.h>
#ifdef __AVX2__
#include <immintrin.h>
#else
#include <arm_neon.h>
#endif

#define INLINE static inline __attribute__((always_inline, unused))

// EACH is F for each of the eight runs of 32 in 256.
#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)

typedef uint8_t B16 __attribute__((ext_vector_type(16)));
typedef uint8_t B32 __attribute__((ext_vector_type(32)));
typedef B16 B16u __attribute__((aligned(1)));
typedef B32 B32u __attribute__((aligned(1)));
typedef uint16_t H16u __attribute__((aligned(1)));
typedef uint32_t W32u __attribute__((aligned(1)));
typedef uint64_t W64u __attribute__((aligned(1)));

INLINE B16 load16(const void *p) { return *(const B16u *)p; }
INLINE B32 load32(const void *p) { return *(const B32u *)p; }
INLINE uint16_t load2(const void *p) { return *(const H16u *)p; }
INLINE uint32_t load4(const void *p) { return *(const W32u *)p; }
INLINE uint64_t load8(const void *p) { return *(const W64u *)p; }
INLINE B32 join(B16 a, B16 b) {
  return __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
}

// What all dot kernels get. The work memory belongs to the caller, since a kernel has no stack; it is aligned.
typedef struct {
  float *out;          // one a row
  const uint8_t *rows; // the weights
  int64_t stride;      // bytes from row to row
  int64_t count;       // of rows, a positive multiple of ROWS
  const int8_t *y;     // codes of the activations, or floats
  int64_t size;        // of these, at least one block
  const float *dy;     // their scales
  const void *sums;    // what Activations has more: sums, mins or bsums
  void *work;

  // State of the kernel itself, which moves beyond the memory above and so must not be pointers to Go.
  float *next_out;
  const uint8_t *next_rows, *block, *end;
  const int8_t *last;
  const uint8_t *ahead;
} Args;

// In this calling convention no register has to be saved; the generator knows where the argument is then.
#define ENTRY __attribute__((preserve_none))

#if defined(FLOATS)
#define ROWS 2
#define ROW_LOOP(F)
#elif defined(FOUR_ROWS)
#define ROWS 4
#define ROW_LOOP(F) F(0) F(1) F(2) F(3)
#elif defined(__AVX2__)
#define ROWS 8
#define ROW_LOOP(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#else
#define ROWS 4
#define ROW_LOOP(F) F(0) F(1) F(2) F(3)
#endif

// Rows are pointers to the same place in each row. They take four registers, hidden from the compiler, which
// would otherwise make it one for each row and then have too few.
typedef struct {
  const uint8_t *first, *fifth;
  int64_t stride, stride3;
} Rows;

INLINE int64_t times3(int64_t stride) {
  stride *= 3;
  __asm__("" : "+r"(stride));
  return stride;
}
INLINE Rows rows(const uint8_t *p, int64_t stride, int64_t stride3) {
  __asm__("" : "+r"(p));
  const uint8_t *q = p;
#if ROWS > 4
  __asm__("leaq (%1,%2,4), %0" : "=r"(q) : "r"(p), "r"(stride));
#endif
  return (Rows){p, q, stride, stride3};
}
INLINE const uint8_t *at(const Rows *r, int row) {
  return (row < 4 ? r->first : r->fifth) + (row % 4 == 3 ? r->stride3 : row % 4 * r->stride);
}

// FORGET makes the compiler forget what it holds of memory, so that it reads state from there again instead of
// keeping it in registers, of which there would be too few.
#define FORGET() __asm__ volatile("" ::: "memory")

// first begins with the first rows, and next goes on to the next ones, if there are any. The state is in memory to leave
// registers to the inner loop.
INLINE void first(Args *a) {
  a->next_out = a->out, a->next_rows = a->rows;
  a->last = a->y + a->size;
  FORGET();
}
INLINE int next(Args *a) {
  FORGET();
  a->next_rows += ROWS * a->stride;
  a->next_out += ROWS;
  return (a->count -= ROWS) > 0;
}

// Several rows at once are too many short streams for the prefetchers of CPUs, so the rows to come are fetched
// explicitly, in the order of addresses. These may lie beyond the last row, which does no harm.
#define AHEAD 4096
INLINE void look_ahead(Args *a) { *(const uint8_t *volatile *)&a->ahead = a->next_rows + ROWS * *(const volatile int64_t *)&a->stride + AHEAD; }
INLINE void prefetch_next(Args *a, int bytes) {
  const uint8_t *p = *(const uint8_t *volatile *)&a->ahead;
  *(const uint8_t *volatile *)&a->ahead = p + bytes;
#pragma unroll
  for (int i = 0; i < bytes; i += 64)
    __builtin_prefetch(p + i, 0, PREFETCH);
}

// last reads the end of the codes again each time, for the same reason.
INLINE const int8_t *last(const Args *a) { return *(const int8_t *const volatile *)&a->last; }

#ifdef __AVX2__

typedef __m256i Lanes; // of 32 bits
typedef __m256i Pairs; // of 16 bits
typedef __m256 Floats; // one lane a row

INLINE Lanes splat4(uint32_t v) {
  __asm__("" : "+r"(v)); // or the compiler loads a constant, from a section that is lost
  return _mm256_set1_epi32((int)v);
}
INLINE Lanes splat8(uint64_t v) {
  __asm__("" : "+r"(v));
  return _mm256_set1_epi64x((long long)v);
}
INLINE B32 bytes(uint8_t v) { return (B32)splat4(v * 0x01010101u); }
// Shifts bytes, leaving bits of their neighbours that the caller masks out.
INLINE B32 right(B32 v, int n) { return (B32)_mm256_srli_epi16((__m256i)v, n); }
INLINE B32 left(B32 v, int n) { return (B32)_mm256_slli_epi16((__m256i)v, n); }
INLINE B32 twice(B16 v) { return (B32)_mm256_broadcastsi128_si256((__m128i)v); }

// SUMS(F) are the sums of the lanes of F(0) to F(7), which are computed in this order to save registers.
INLINE Lanes add_pairs(Lanes a, Lanes b) {
  Lanes s = _mm256_hadd_epi32(a, b);
  __asm__ volatile("" : "+x"(s));
  return s;
}
INLINE Lanes add_halves(Lanes a, Lanes b) {
  return _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20), _mm256_permute2x128_si256(a, b, 0x31));
}
#define SUMS4(A, B, C, D) ({ Lanes ab = add_pairs(A, B), cd = add_pairs(C, D); add_pairs(ab, cd); })
#define SUMS(F) ({ Lanes low = SUMS4(F(0), F(1), F(2), F(3)), high = SUMS4(F(4), F(5), F(6), F(7)); add_halves(low, high); })
INLINE Floats floats(Lanes v) { return _mm256_cvtepi32_ps(v); }
INLINE Floats splatf(const float *p) { return _mm256_broadcast_ss(p); }
INLINE Lanes splati(const int32_t *p) { return _mm256_set1_epi32(*p); }
INLINE Floats loadf(const float *p) { return _mm256_loadu_ps(p); }
INLINE void storef(float *p, Floats v) { _mm256_storeu_ps(p, v); }
INLINE Lanes sub(Lanes a, Lanes b) { return _mm256_sub_epi32(a, b); }
INLINE Lanes shift(Lanes a, int n) { return _mm256_slli_epi32(a, n); }
#define ZERO _mm256_setzero_si256()
#define ZEROF _mm256_setzero_ps()

INLINE Floats halves(const Rows *r, int offset) {
  __m128i v = _mm_cvtsi32_si128(load2(at(r, 0) + offset));
#define HALF(R) if (R > 0) v = _mm_insert_epi16(v, load2(at(r, R) + offset), R);
  ROW_LOOP(HALF)
#undef HALF
  return _mm256_cvtph_ps(v);
}

#else

typedef int32x4_t Lanes;
typedef int16x8_t Pairs;
typedef float32x4_t Floats;

INLINE B32 bytes(uint8_t v) { return (B32)v; }
INLINE B32 right(B32 v, int n) { return v >> (B32)(uint8_t)n; }
INLINE B32 left(B32 v, int n) { return v << (B32)(uint8_t)n; }
INLINE B32 twice(B16 v) { return join(v, v); }
INLINE int8x16_t lower(B32 v) { return (int8x16_t)v.lo; }
INLINE int8x16_t upper(B32 v) { return (int8x16_t)v.hi; }

#define SUMS(F) vpaddq_s32(vpaddq_s32(F(0), F(1)), vpaddq_s32(F(2), F(3)))
INLINE Floats floats(Lanes v) { return vcvtq_f32_s32(v); }
INLINE Floats splatf(const float *p) { return vld1q_dup_f32(p); }
INLINE Lanes splati(const int32_t *p) { return vld1q_dup_s32(p); }
INLINE Floats loadf(const float *p) { return vld1q_f32(p); }
INLINE void storef(float *p, Floats v) { vst1q_f32(p, v); }
INLINE Lanes sub(Lanes a, Lanes b) { return vsubq_s32(a, b); }
INLINE Lanes shift(Lanes a, int n) { return a << n; }
INLINE Pairs products0(int8x16_t a, int8x16_t b) { return vmlal_high_s8(vmull_s8(vget_low_s8(a), vget_low_s8(b)), a, b); }
INLINE Pairs products(Pairs p, int8x16_t a, int8x16_t b) { return vmlal_high_s8(vmlal_s8(p, vget_low_s8(a), vget_low_s8(b)), a, b); }
INLINE Lanes weighted(Pairs a, Pairs b, Pairs c, Pairs d) {
  Lanes s = vmlal_high_s16(vmull_s16(vget_low_s16(a), vget_low_s16(b)), a, b);
  return vmlal_high_s16(vmlal_s16(s, vget_low_s16(c), vget_low_s16(d)), c, d);
}
#define ZERO vdupq_n_s32(0)
#define ZEROF vdupq_n_f32(0)

INLINE Floats halves(const Rows *r, int offset) {
  // In a general register, next to which vector instructions can run.
  uint32_t a = load2(at(r, 0) + offset), b = load2(at(r, 1) + offset), c = load2(at(r, 2) + offset), d = load2(at(r, 3) + offset);
  a |= b << 16, c |= d << 16;
  __asm__("" : "+r"(a), "+r"(c));
  uint64_t v = a | (uint64_t)c << 32;
  __asm__("" : "+r"(v));
  return vcvt_f32_f16((float16x4_t)vcreate_u16(v));
}

#endif

// Constants that some types need. Unused ones cost nothing.
typedef struct {
  B32 low4, m1, m2, m3, m4, m16, m32, m48, m63, m85, m170, flip;
  B16 table;  // iq4Values
  B16 shifts; // four integers: by 0, 2, 4 and 6 to the right
  B16 by4;    // 0 and 4
#ifdef __AVX2__
  Lanes ones, spread, bits;
#else
  B16 spread0, spread1, bits;
#endif
} Consts;

INLINE Consts constants(void) {
  Consts k;
  k.low4 = bytes(15);
  k.m1 = bytes(1), k.m2 = bytes(2), k.m3 = bytes(3), k.m4 = bytes(4), k.m16 = bytes(16), k.m32 = bytes(32), k.m48 = bytes(48), k.m63 = bytes(63);
  k.m85 = bytes(85), k.m170 = bytes(170), k.flip = bytes(128);
  uint64_t t0 = 0xF6EADDCFBFAD9881, t1 = 0x7159453526190D01;
  __asm__("" : "+r"(t0), "+r"(t1));
  typedef uint64_t D2 __attribute__((ext_vector_type(2)));
  k.table = (B16)(D2){t0, t1};
#ifdef __AVX2__
  uint64_t h0 = (uint64_t)2 << 32, h1 = 4 | (uint64_t)6 << 32;
#else
  uint64_t h0 = (uint64_t)-2 << 32, h1 = (uint32_t)-4 | (uint64_t)-6 << 32;
#endif
  __asm__("" : "+r"(h0), "+r"(h1));
  k.shifts = (B16)(D2){h0, h1};
  uint64_t h4 = (uint64_t)4 << 32;
  __asm__("" : "+r"(h4));
  k.by4 = (B16)(D2){h4};
  uint64_t s0 = 0, s1 = 0x0101010101010101, s2 = 0x0202020202020202, s3 = 0x0303030303030303, bits = 0x8040201008040201;
  __asm__("" : "+r"(s0), "+r"(s1), "+r"(s2), "+r"(s3), "+r"(bits));
#ifdef __AVX2__
  k.ones = splat4(0x00010001);
  k.spread = _mm256_set_epi64x((long long)s3, (long long)s2, (long long)s1, (long long)s0);
  k.bits = _mm256_set1_epi64x((long long)bits);
#else
  k.spread0 = (B16)(D2){s0, s1}, k.spread1 = (B16)(D2){s2, s3}, k.bits = (B16)(D2){bits, bits};
#endif
  return k;
}

// nibbles gives the low halves of 16 bytes, then the high ones.
INLINE B32 nibbles(B16 v, const Consts *k) {
#ifdef __AVX2__
  return join(v, (B16)_mm_srli_epi16((__m128i)v, 4)) & k->low4;
#else
  return join(v & k->low4.lo, v >> (B16)(uint8_t)4);
#endif
}

// spread gives the bytes of mask of which the bit in v is set.
INLINE B32 spread(uint32_t v, B32 mask, const Consts *k) {
#ifdef __AVX2__
  Lanes b = _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32((int)v), k->spread), k->bits);
  return (B32)_mm256_cmpeq_epi8(b, k->bits) & mask;
#else
  uint8x16_t b = vreinterpretq_u8_u32(vdupq_n_u32(v));
  return join(vtstq_u8(vqtbl1q_u8(b, k->spread0), k->bits), vtstq_u8(vqtbl1q_u8(b, k->spread1), k->bits)) & mask;
#endif
}

INLINE B32 lookup(B32 index, B16 table) {
#ifdef __AVX2__
  return (B32)_mm256_shuffle_epi8((__m256i)twice(table), (__m256i)index);
#else
  return join(vqtbl1q_u8(table, index.lo), vqtbl1q_u8(table, index.hi));
#endif
}
