// Parts of matrices that the threads of a workgroup share, for products of tiles.
#pragma once
#include "group.cuh"

// So that neighbours of threads write into other banks of shared memory, whichever way a matrix lies.
constexpr unsigned PAD = 4;

struct __align__(16) Four {
  float each[4];
};

__device__ inline float product(float a, float b) { return a * b; }

__device__ inline float product(const Four &a, const Four &b) {
  return a.each[0] * b.each[0] + a.each[1] * b.each[1] + a.each[2] * b.each[2] + a.each[3] * b.each[3];
}

// Whether four neighbours can be read at once wherever they start: `step` is between neighbours, `other` between rows.
__device__ inline bool in_fours(const float *matrix, unsigned step, unsigned other) {
  return step == 1 && other % 4 == 0 && (size_t)matrix % sizeof(Four) == 0;
}

// TILE rows of a matrix from `top` on, DEEP columns at a time, by THREADS threads, with zeros beyond its ends. A thread
// has four numbers next to one another in memory, or two where there are no more for it.
template <unsigned TILE, unsigned DEEP, unsigned THREADS>
struct Part {
  static constexpr unsigned COUNT = DEEP * TILE / THREADS, WIDE = COUNT < 4 ? COUNT : 4;
  const float *matrix;
  unsigned top, rows, depth, row_step, depth_step;
  bool by_rows, fours;
  float held[COUNT];

  __device__ Part(const float *matrix, unsigned top, unsigned rows, unsigned depth, unsigned row_step,
                  unsigned depth_step)
      : matrix(matrix), top(top), rows(rows), depth(depth), row_step(row_step), depth_step(depth_step),
        by_rows(row_step < depth_step),
        fours(WIDE == 4 && in_fours(matrix, by_rows ? row_step : depth_step, by_rows ? depth_step : row_step)) {}

  __device__ unsigned each(unsigned i) const { return (i / WIDE * THREADS + threadIdx.x) * WIDE + i % WIDE; }
  __device__ unsigned row(unsigned i) const { return by_rows ? each(i) % TILE : each(i) / DEEP; }
  __device__ unsigned at(unsigned i) const { return by_rows ? each(i) / TILE : each(i) % DEEP; }

  __device__ void read(unsigned from) {
#pragma unroll
    for (unsigned i = 0; i < COUNT; i += WIDE) {
      unsigned row = top + this->row(i), column = from + at(i), step = by_rows ? row_step : depth_step;
      unsigned left = row < rows && column < depth ? by_rows ? rows - row : depth - column : 0;
      const float *first = matrix + (size_t)row * row_step + (size_t)column * depth_step;
      if (fours && left >= 4) {
        Four four = *(const Four *)first;
#pragma unroll
        for (unsigned j = 0; j < WIDE; ++j) held[i + j] = four.each[j];
      } else {
#pragma unroll
        for (unsigned j = 0; j < WIDE; ++j) held[i + j] = j < left ? first[j * step] : 0.0f;
      }
    }
  }

  template <unsigned LENGTH>
  __device__ void write(float (&to)[DEEP][LENGTH]) const {
#pragma unroll
    for (unsigned i = 0; i < COUNT; ++i) to[at(i)][row(i)] = held[i];
  }
};
