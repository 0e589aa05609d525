// Kernels that are wrong in one way each, and some that are right.
#include <opsplice_dispatch.h>
#include <stddef.h>

void right(const float *x, float *out, size_t m, size_t n, size_t row) {
  for (size_t i = 0; i < n; i++)
    out[row * n + i] = -x[row * n + i];
}

// The last row is left out.
void last_row(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < (m - 1) * n; i++)
    out[i] = x[i] < 0 ? -x[i] : x[i];
}

// Each workgroup also writes the first number of the next row, which is the next one's.
void race(const float *x, float *out, size_t m, size_t n, size_t row) {
  if (row + 1 < m)
    out[(row + 1) * n] = 0;
  for (size_t i = 0; i < n; i++)
    out[row * n + i] = x[row * n + i] * x[row * n + i];
}

static void scale_racing(const float *x, float *out, size_t m, size_t n, size_t row, float factor) {
  for (size_t i = 0; i < n; i++)
    out[row * n + i] = x[row * n + i] * factor;
  if (row + 1 < m)
    out[(row + 1) * n] = 0;
}

int race_in_dispatch(const void *environment, const opsplice_dispatch *dispatch, const opsplice_workgroup *workgroup) {
  void *const *buffers = dispatch->bindings;
  scale_racing(buffers[0], buffers[1], dispatch->constants[0], dispatch->constants[1], workgroup->x, 17.0f);
  return 0;
}

void race_provided(const float *x, float *out, size_t m, size_t n, size_t row) {
  scale_racing(x, out, m, n, row, 19.0f);
}

// Reads one number too many, and computes nothing with it.
void past_end(const float *x, float *out, size_t m, size_t n) {
  volatile float next;
  for (size_t i = 0; i < m * n; i++) {
    next = x[i + 1];
    out[i] = x[i] - 1.0f;
  }
}

// Writes one number too many.
void write_past(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i <= m * n; i++)
    out[i] = i < m * n ? x[i] + 1.0f : 0.0f;
}

// A comparison with NaN is false.
void lost_nan(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; i++)
    out[i] = x[i] > 0.0f ? x[i] : 0.0f;
}

static void larger(const float *x, float *out, size_t count, float least) {
  for (size_t i = 0; i < count; i++)
    out[i] = x[i] > least ? x[i] : least;
}

// NaN are lost here, too, and may be: their inputs are to be finite.
void finite(const float *x, float *out, size_t m, size_t n) { larger(x, out, m * n, 21.0f); }

void finite_made(const float *x, float *out, size_t m, size_t n) { larger(x, out, m * n, 23.0f); }

// Takes its input to be dense.
void no_stride(const float *x, float *out, size_t m, size_t n, size_t x_m, size_t x_n) {
  for (size_t i = 0; i < m * n; i++)
    out[i] = x[i] * 3.0f;
}

// Not what the pattern says, in the fourth digit.
void imprecise(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; i++)
    out[i] = x[i] / 2.0f * 1.0003f;
}

// Writes to its input.
void scribble(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; i++) {
    out[i] = x[i] * 5.0f;
    ((float *)x)[i] = out[i];
  }
}

// Keeps a row where all workers do.
void scratch(const float *x, float *out, size_t m, size_t n, size_t row) {
  static float kept[64];
  for (size_t i = 0; i < n; i++)
    kept[i] = x[row * n + i] * 7.0f;
  for (size_t i = 0; i < n; i++)
    out[row * n + i] = kept[i];
}

// Right: what it keeps is the same each time.
void table(const float *x, float *out, size_t m, size_t n, size_t row) {
  static volatile float factor;
  factor = 9.0f;
  for (size_t i = 0; i < n; i++)
    out[row * n + i] = x[row * n + i] * factor;
}

// Adds to what its result holds.
void adds_to_result(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; i++)
    out[i] += x[i] * 11.0f;
}

// Takes the larger of its result and what its result holds, which NaN never is.
void keeps_most(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; i++)
    out[i] = out[i] > x[i] * 13.0f ? out[i] : x[i] * 13.0f;
}

// Right in memory that holds no zeros.
void unless_zero(const float *x, float *out, size_t m, size_t n) {
  for (size_t i = 0; i < m * n; i++)
    out[i] = out[i] == 0.0f ? 1.0f : x[i] * 15.0f;
}
