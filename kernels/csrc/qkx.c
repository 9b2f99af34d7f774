// The asymmetric search of the K-quants, LANES blocks at a time, each lane in exactly the order of
// the definition in qkx.go. ABS = 1 sums absolute errors, ABS = 0 squared ones.
#include "lanes.h"

typedef struct {
  Vu x, w, l;
} Element;

// What does not fit in registers lives here, since a kernel has no stack.
typedef struct {
  Element elements[32];
  Vu magic, top, limit, mask; // constants
  Vu least, lo, hi, sw, sx, is;
  Vu best, bestscale, bestis, bestlo;
  Iu bad, flat;
} Work;

typedef struct {
  const float *x, *w;   // LANES blocks of size values, one after the other
  float *scales, *mins; // LANES each
  uint8_t *codes;       // LANES blocks of size codes
  const float *tries;   // numerators of the trial scales
  int32_t *unusual;     // LANES, nonzero where the result must not be used
  Work *work;           // should be aligned to 64 bytes, for speed
  int64_t size;         // 16 or 32
  int64_t ntries;       // at least 1
  float max;            // the largest code
} Args;

#define ELEMENT ((long)(sizeof(Element) / sizeof(float)))

// The code of x, still with 1.5·2^23 added: the addition rounds, and leaves the integer in the low bits.
// Up to an absolute value of limit, subtracting the constant gives that integer. Floats above zero
// are ordered like their bits.
static inline __attribute__((always_inline)) V rounded(const Work *m, V x, V lo, V is, V magic) {
  I t = (I)(is * (x - lo) + magic);
  return (V)__builtin_elementwise_min(__builtin_elementwise_max(t, (I)magic), (I)m->top);
}

static inline __attribute__((always_inline)) V error(const Work *m, V l, V scale, V lo, V x) {
  V diff = (scale * l + lo) - x;
  return ABS ? (V)((I)diff & *(const volatile Iu *)&m->mask) : diff * diff;
}

// Every x lies between least and hi, and rounding is monotone: if the codes of these two are within
// the limit, so are all.
static inline __attribute__((always_inline)) I outside(const Work *m, V is) {
  V most = (V)((I)(is * (m->hi - m->lo)) & (I)m->mask), least = (V)((I)(is * (m->least - m->lo)) & (I)m->mask);
  return ~(most <= m->limit) | ~(least <= m->limit);
}

// spread moves LANES blocks of n values to one field of the elements: the blocks become lanes.
static inline __attribute__((always_inline)) void spread(Vu *field, const float *src, long n) {
  for (long b = 0; b < LANES; b += 4, src += 3 * n) {
    float *dst = (float *)field + b;
    const float *end = src + n;
    do {
      transpose4(dst, ELEMENT, src, n);
      dst += 4 * ELEMENT;
      src += 4;
    } while (src < end);
  }
  SPILL();
}

void KERNEL(const Args *a) {
  Work *const m = a->work;
  const V zero = (V)(I)0;
  spread(&m->elements->x, a->x, a->size);
  spread(&m->elements->w, a->w, a->size);

  m->magic = splat_bits(0x4B400000);
  m->top = m->magic + a->max;
  m->limit = splat_bits(0x4A7FFFFC); // 4194303
  m->mask = splat_bits(0x7FFFFFFF);
  {
    const Element *e = m->elements, *end = e + a->size;
    V lo = e->x, hi = lo, sw = e->w, sx = sw * lo;
    I bad = lo != lo;
    while (++e < end) {
      bad |= e->x != e->x;
      lo = e->x < lo ? e->x : lo;
      hi = e->x > hi ? e->x : hi;
      sw += e->w;
      sx += e->w * e->x;
    }
    m->least = lo;
    m->lo = lo > zero ? zero : lo;
    m->hi = hi;
    m->sw = sw;
    m->sx = sx;
    m->bad = bad;
    m->flat = m->hi <= m->lo;
  }
  SPILL();
  {
    V lo = m->lo, is = a->max / (m->hi - lo), scale = splat_bits(0x3F800000) / is, best = zero, magic = m->magic;
    m->bad |= outside(m, is);
    m->bestscale = scale;
    m->bestis = is;
    m->bestlo = lo;
    const Element *e = m->elements, *end = e + a->size;
    do
      best += e->w * error(m, rounded(m, e->x, lo, is, magic) - magic, scale, lo, e->x);
    while (++e < end);
    m->best = best;
  }
  SPILL();

  const float *try = a->tries, *last = try + a->ntries;
  do {
    V sl = zero, sl2 = zero, sxl = zero;
    {
      V is = *try / (m->hi - m->lo), magic = m->magic;
      m->is = is;
      m->bad |= outside(m, is);
      SPILL();
      Element *e = m->elements, *end = e + a->size;
      do {
        V l = rounded(m, e->x, m->lo, is, magic) - magic;
        e->l = l;
        V wl = e->w * l;
        sl += wl;
        sl2 += wl * l;
        sxl += wl * e->x;
      } while (++e < end);
    }
    SPILL();
    V D = m->sw * sl2 - sl * sl;
    V scale = (m->sw * sxl - m->sx * sl) / D, min = (sl2 * m->sx - sl * sxl) / D;
    scale = min > zero ? sxl / sl2 : scale;
    min = min > zero ? zero : min;
    V err = zero;
    const Element *e = m->elements, *end = e + a->size;
    do
      err += e->w * error(m, e->l, scale, min, e->x);
    while (++e < end);
    I better = (D > zero) & (err < m->best);
    m->best = better ? err : m->best;
    m->bestscale = better ? scale : m->bestscale;
    m->bestis = better ? m->is : m->bestis;
    m->bestlo = better ? m->lo : m->bestlo;
    m->lo = better ? min : m->lo;
    SPILL();
  } while (++try < last);

  // The codes of the best trial again; four of a lane share a word, which makes them bytes in order.
  {
    V lo = m->bestlo, is = m->bestis, magic = m->magic;
    m->mask = splat_bits(0xFF);
    Element *e = m->elements, *end = e + a->size;
    do {
      I word = (I)rounded(m, e[0].x, lo, is, magic) & (I)m->mask;
      word |= ((I)rounded(m, e[1].x, lo, is, magic) & (I)m->mask) << 8;
      word |= ((I)rounded(m, e[2].x, lo, is, magic) & (I)m->mask) << 16;
      word |= (I)rounded(m, e[3].x, lo, is, magic) << 24;
      e->l = (V)(word & ~m->flat);
    } while ((e += 4) < end);
  }
  SPILL();
  float *codes = (float *)a->codes;
  for (long b = 0; b < LANES; b += 4, codes += 3 * (a->size / 4)) {
    const Element *e = m->elements, *end = e + a->size;
    do {
      transpose4(codes, a->size / 4, (const float *)&e->l + b, 4 * ELEMENT);
      codes += 4;
    } while ((e += 16) < end);
  }
  SPILL();
  store(a->scales, (V)((I)m->bestscale & ~m->flat));
  // Flat lanes went through the trials too, on infinities and NaN: their minimum is the first one.
  V lo = m->flat ? (m->least > zero ? zero : m->least) : m->lo;
  store(a->mins, (V)((I)lo ^ (I)splat_bits(INT32_MIN)));
  *(Iu *)a->unusual = m->bad & ~m->flat;
}
