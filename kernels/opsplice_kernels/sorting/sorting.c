// The first k elements of each row in order, and where they were: all of them for a sort.
//
// A row's results are first a heap of those that are the first so far, with the last of them on top: an element comes in
// if it goes before that one. Vectors of elements of which none does are passed over. Equal elements stay in their order.
// NaN counts as the largest, as in PyTorch; in `opsplice_top` it does if it has no sign, and -0 comes after 0, as in JAX.
//
// Grid: (m); a workgroup does one row.
#include "../vector.h"

// A heap of `count` entries. In an entry an element's rank, which is larger for what goes first, is above the complement
// of its index, so that all entries differ. Ranks lie in `ranks`, indices in one of the two others, or nowhere; without
// `ranks` whole entries lie in `wide`.
typedef uint32_t __attribute__((may_alias)) word;
typedef struct {
  word *ranks;
  int32_t *narrow;
  int64_t *wide;
  size_t count;
} heap;

INLINE uint64_t entry(const heap *of, size_t i) {
  if (!of->ranks) return (uint64_t)of->wide[i];
  uint32_t index = of->narrow ? (uint32_t)of->narrow[i] : of->wide ? (uint32_t)of->wide[i] : 0;
  return (uint64_t)of->ranks[i] << 32 | (uint32_t)~index;
}

INLINE void put(const heap *of, size_t i, uint64_t value) {
  if (!of->ranks) {
    of->wide[i] = (int64_t)value;
    return;
  }
  of->ranks[i] = (uint32_t)(value >> 32);
  if (of->narrow) of->narrow[i] = (int32_t)~(uint32_t)value;
  if (of->wide) of->wide[i] = (int64_t)(uint32_t)~value;
}

// Which elements come first. By their bits: in the order of all floats, which tells zeros and NaN apart by their signs.
typedef enum { LARGEST, SMALLEST, LARGEST_BY_BITS } order;

// Where an element comes among all floats.
INLINE uint32_t rank(float value, order by) {
  uint32_t bits;
  if (by != LARGEST_BY_BITS) value += 0.0f;
  __builtin_memcpy(&bits, &value, sizeof bits);
  bits = by != LARGEST_BY_BITS && value != value ? 0xffffffff : bits >> 31 ? ~bits : bits | 0x80000000;
  return by == SMALLEST ? ~bits : bits;
}

INLINE float of_rank(uint32_t bits, order by) {
  float value;
  if (by == SMALLEST) bits = ~bits;
  bits = bits >> 31 ? bits & 0x7fffffff : ~bits;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// Put an entry in the place of the top, and lower ones above it.
static void sink(const heap *of, uint64_t value) {
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < of->count; i = child) {
    uint64_t below = entry(of, child);
    if (child + 1 < of->count) {
      uint64_t other = entry(of, child + 1);
      if (other < below) below = other, child++;
    }
    if (value <= below) break;
    put(of, i, below);
  }
  put(of, i, value);
}

static void raise(const heap *of, size_t i, uint64_t value) {
  for (size_t parent; i; i = parent) {
    uint64_t above = entry(of, parent = (i - 1) / 2);
    if (above <= value) break;
    put(of, i, above);
  }
  put(of, i, value);
}

// Numbers whose order is that of the floats' bits.
INLINE ints by_bits(floats x) { return (ints)x ^ ((ints)x >> 31 & 0x7fffffff); }

INLINE void first_of(const float *x, size_t n, heap of, order by) {
  size_t count = of.count, i = 0;
  for (; i < count; i++) raise(&of, i, (uint64_t)rank(x[i], by) << 32 | (uint32_t)~i);
  uint64_t top = entry(&of, 0);
  while (i < n) {
    size_t some = least(LANES, n - i);
    if (some == LANES) {
      float last = of_rank((uint32_t)(top >> 32), by);
      ints last_bits;
      UNROLL for (int lane = 0; lane < LANES; lane++) __builtin_memcpy((char *)&last_bits + 4 * lane, &last, 4);
      floats bound = (floats)last_bits, values = load(x + i);
      ints passes = by == SMALLEST  ? values >= bound
                    : by == LARGEST ? values <= bound
                                    : by_bits(values) <= by_bits(bound);
      if (!any_lane(~passes)) {
        i += LANES;
        continue;
      }
    }
    for (size_t end = i + some; i < end; i++) {
      uint64_t value = (uint64_t)rank(x[i], by) << 32 | (uint32_t)~i;
      if (value <= top) continue;
      sink(&of, value);
      top = entry(&of, 0);
    }
  }
  while (of.count > 1) {
    uint64_t last = entry(&of, 0), other = entry(&of, --of.count);
    sink(&of, other);
    put(&of, of.count, last);
  }
  for (size_t j = 0; j < count; j++) {
    uint32_t index = (uint32_t)~entry(&of, j);
    if (!of.ranks) {
      of.wide[j] = index;
      continue;
    }
    float value = of.narrow || of.wide ? x[index] : of_rank(of.ranks[j], by);
    __builtin_memcpy(&of.ranks[j], &value, sizeof value);
  }
}

void opsplice_first(const float *x, int32_t is_smallest, float *values, int64_t *at, size_t m, size_t n, size_t k,
                    size_t row) {
  (void)m;
  heap of = {(word *)(values + row * k), 0, at + row * k, k};
  if (is_smallest) first_of(x + row * n, n, of, SMALLEST);
  else first_of(x + row * n, n, of, LARGEST);
}

void opsplice_first_values(const float *x, int32_t is_smallest, float *values, size_t m, size_t n, size_t k, size_t row) {
  (void)m;
  heap of = {(word *)(values + row * k), 0, 0, k};
  if (is_smallest) first_of(x + row * n, n, of, SMALLEST);
  else first_of(x + row * n, n, of, LARGEST);
}

void opsplice_first_places(const float *x, int32_t is_smallest, int64_t *at, size_t m, size_t n, size_t k, size_t row) {
  (void)m;
  heap of = {0, 0, at + row * k, k};
  if (is_smallest) first_of(x + row * n, n, of, SMALLEST);
  else first_of(x + row * n, n, of, LARGEST);
}

void opsplice_top(const float *x, float *values, int32_t *at, size_t m, size_t n, size_t k, size_t row) {
  (void)m;
  heap of = {(word *)(values + row * k), at + row * k, 0, k};
  first_of(x + row * n, n, of, LARGEST_BY_BITS);
}
