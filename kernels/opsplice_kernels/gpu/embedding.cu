// Rows of a table by their numbers: a row by a workgroup. A number behind the last row is that row, one before the first is
// the first; where `from_end` says so, negative ones count from the end.

template <class Id>
__device__ void copy_row(const float *w, const Id *ids, float *out, int from_end, unsigned v, unsigned n) {
  Id id = ids[blockIdx.x];
  if (from_end && id < 0) id += v;
  const float *row = w + (id < 0 ? 0 : id < v ? (size_t)id : v - 1) * n;
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) out[(size_t)blockIdx.x * n + i] = row[i];
}

extern "C" __global__ void embedding_row(const float *w, const int *ids, float *out, int from_end, unsigned v, unsigned n,
                                         unsigned m) {
  copy_row(w, ids, out, from_end, v, n);
}

extern "C" __global__ void embedding_row_wide(const float *w, const long long *ids, float *out, int from_end, unsigned v,
                                              unsigned n, unsigned m) {
  copy_row(w, ids, out, from_end, v, n);
}
