#version 450
// A tile of 64 rows and 64 columns of a product, 4 by 8 of them for each thread. Any layout.
#extension GL_EXT_control_flow_attributes : require
layout(local_size_x = 128) in;

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer W { float w[]; };
layout(binding = 2) readonly buffer Bias { float bias[]; };
layout(binding = 3) readonly buffer First { uint first[]; };
layout(binding = 4) writeonly buffer Out { float result[]; };
layout(push_constant) uniform Words {
  uint b, m, k, n, x_m, x_k, w_n, w_k, has_bias, out_m, out_n;
};

const uint TILE = 64, DEEP = 16, DOWN = 4, ACROSS = 2;
shared vec4 rows[DEEP][TILE / 4], columns[DEEP][TILE / 4];

void main() {
  uint at = gl_WorkGroupID.x * 3, thread = gl_LocalInvocationID.x;
  uint top = gl_WorkGroupID.y * TILE, left = gl_WorkGroupID.z * TILE;
  uint own_row = thread / 8, own_column = thread % 8 * ACROSS;
  vec4 sums[DOWN][ACROSS];
  [[unroll]] for (uint i = 0; i < DOWN; ++i)
    [[unroll]] for (uint j = 0; j < ACROSS; ++j) sums[i][j] = vec4(0);
  for (uint from = 0; from < k; from += DEEP) {
    for (uint each = thread; each < DEEP * TILE; each += 128) {
      // Neighbours of threads read neighbours in memory.
      uvec2 row = x_m < x_k ? uvec2(each % TILE, each / TILE) : uvec2(each / DEEP, each % DEEP);
      uvec2 column = w_n < w_k ? uvec2(each % TILE, each / TILE) : uvec2(each / DEEP, each % DEEP);
      bool is_row = top + row.x < m && from + row.y < k, is_column = left + column.x < n && from + column.y < k;
      rows[row.y][row.x / 4][row.x % 4] =
          is_row ? x[first[at] + (top + row.x) * x_m + (from + row.y) * x_k] : 0;
      columns[column.y][column.x / 4][column.x % 4] =
          is_column ? w[first[at + 1] + (left + column.x) * w_n + (from + column.y) * w_k] : 0;
    }
    barrier();
    uint deep = min(DEEP, k - from);
    for (uint l = 0; l < deep; ++l) {
      vec4 row = rows[l][own_row];
      [[unroll]] for (uint j = 0; j < ACROSS; ++j) {
        vec4 column = columns[l][own_column + j];
        [[unroll]] for (uint i = 0; i < DOWN; ++i) sums[i][j] += row[i] * column;
      }
    }
    barrier();
  }
  [[unroll]] for (uint i = 0; i < DOWN; ++i)
    [[unroll]] for (uint j = 0; j < ACROSS * 4; ++j) {
      uint row = top + own_row * 4 + i, column = left + own_column * 4 + j;
      if (row < m && column < n) {
        float sum = sums[i][j / 4][j % 4] + (has_bias != 0 ? bias[column] : 0);
        result[first[at + 2] + row * out_m + column * out_n] = sum;
      }
    }
}
