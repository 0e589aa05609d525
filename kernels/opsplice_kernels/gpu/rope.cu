// Rotary embeddings: pairs of numbers turned by the angle of their place, a pair by a thread.

// How far apart places are, the numbers of a pair, and the pairs of a place.
struct Steps {
  unsigned m, p, h;
};

__device__ inline void turn(const float *x, const float *cosines, const float *sines, const unsigned *first, float *out,
                            unsigned m, unsigned h, Steps of_x, Steps of_cos, Steps of_sin, Steps of_out) {
  unsigned own = blockIdx.y * blockDim.x + threadIdx.x, i = own / h, j = own % h;
  if (own >= m * h) return;
  first += blockIdx.x * 4;
  x += first[0] + i * of_x.m + j * of_x.h, out += first[3] + i * of_out.m + j * of_out.h;
  cosines += first[1] + i * of_cos.m + j * of_cos.h, sines += first[2] + i * of_sin.m + j * of_sin.h;
  float one = x[0], other = x[of_x.p];
  out[0] = one * cosines[0] - other * sines[0];
  out[of_out.p] = other * cosines[of_cos.p] + one * sines[of_sin.p];
}

extern "C" __global__ void rope_pair(const float *x, const float *cosines, const float *sines, const unsigned *first,
                                     float *out, unsigned b, unsigned m, unsigned p, unsigned h, unsigned x_m,
                                     unsigned x_p, unsigned x_h, unsigned cos_m, unsigned cos_p, unsigned cos_h,
                                     unsigned sin_m, unsigned sin_p, unsigned sin_h, unsigned out_m, unsigned out_p,
                                     unsigned out_h) {
  turn(x, cosines, sines, first, out, m, h, {x_m, x_p, x_h}, {cos_m, cos_p, cos_h}, {sin_m, sin_p, sin_h},
       {out_m, out_p, out_h});
}

// With one cosine and one sine for both numbers of a pair.
extern "C" __global__ void rope_pair_by_halves(const float *x, const float *cosines, const float *sines,
                                               const unsigned *first, float *out, unsigned b, unsigned m, unsigned p,
                                               unsigned h, unsigned x_m, unsigned x_p, unsigned x_h, unsigned cos_m,
                                               unsigned cos_h, unsigned sin_m, unsigned sin_h, unsigned out_m,
                                               unsigned out_p, unsigned out_h) {
  turn(x, cosines, sines, first, out, m, h, {x_m, x_p, x_h}, {cos_m, 0, cos_h}, {sin_m, 0, sin_h},
       {out_m, out_p, out_h});
}
