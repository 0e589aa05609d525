// A workgroup's part of a convolution, and how its sums get to the output.
#ifndef OPSPLICE_KERNELS_LAYER_H
#define OPSPLICE_KERNELS_LAYER_H

#include "../tile.h"
#include "../vector_math.h"

typedef struct {
  const float *x, *w, *bias, *rest;
  float *out;
  size_t activation, c, h, width, kh, kw, columns;  // columns: channels of this panel
  size_t sh, sw, dh, dw, top, left;
  size_t w_c, w_i, w_j;  // from channel to channel and from tap to tap of the panel
  size_t x_c, x_h, x_w, rest_c, rest_y, rest_z, out_c, out_y, out_z;
  // The next panel, as far as it was not fetched, and how many lines of it each channel of a tile fetches.
  const float *next, *last;
  size_t lines;
  // Where some channels are multiplied at a time: sums of a piece of the output, from its first place on, PANEL for each place
  // of its rows, or (point_products) those of a tile; whether channels were in front of these, and whether others follow.
  float *held;
  size_t held_y, held_z, held_wide;
  int has_some, has_more;
  // The group of panels whose places workgroups share (packed.h): which one this is, how many, from one to the next, and their channels.
  size_t number, panels, panel, group;
} layer;

// Sums of `wide` places of a row, TILE channels each, to the output. What is read of `sums` ends at a multiple of
// LANES.
static __attribute__((noinline)) void put(const layer *of, float sums[][TILE], size_t wide, size_t y, size_t z,
                                          size_t channel) {
  const float *rest = of->rest ? of->rest + y * of->rest_y + z * of->rest_z + channel * of->rest_c : 0;
  float *out = of->out + y * of->out_y + z * of->out_z + channel * of->out_c;
  const size_t columns = of->columns - channel, which = of->activation;
  if (of->out_c == 1 && (!rest || of->rest_c == 1)) {
    for (size_t p = 0; p < wide; p++) {
      const float *more = rest + p * of->rest_z;
      float *to = out + p * of->out_z;
      UNROLL for (size_t v = 0; v < TILE; v += LANES) if (v < columns) {
        floats value = load(sums[p] + v);
        if (rest) value += load_up_to(more + v, columns - v, 0.0f);
        store_up_to(to + v, activated(which, value), columns - v);
      }
    }
    return;
  }
  const int is_row = of->out_z == 1 && (!rest || of->rest_z == 1);
  const floats lowest = splat(which == NOTHING ? -__builtin_inff() : 0.0f);
  const floats highest = splat(which == RELU6 ? 6.0f : __builtin_inff());
  for (size_t v = 0; v < TILE && v < columns; v += LANES)
    for (size_t start = 0; start < wide; start += LANES) {
      const float *more = rest + v * of->rest_c;
      float *to = out + v * of->out_c;
      const size_t count = least(LANES, wide - start), lanes = columns - v;
      floats turned[LANES];
      UNROLL for (int i = 0; i < LANES; i++) turned[i] = load(sums[start + i] + v);
      transpose(turned);
      if (is_row && !is_long(which)) {
        UNROLL for (size_t l = 0; l < LANES; l++) if (l < lanes) {
          floats value = turned[l];
          if (rest) value += load_up_to(more + l * of->rest_c + start, count, 0.0f);
          store_up_to(to + l * of->out_c + start, smaller(highest, larger(lowest, value)), count);
        }
        continue;
      }
      float kept[LANES][LANES] __attribute__((aligned(64)));
      UNROLL for (int l = 0; l < LANES; l++) store(kept[l], turned[l]);
      if (is_row) {
        for (size_t l = 0; rest && l < LANES && l < lanes; l++)
          store(kept[l], load(kept[l]) + load_up_to(more + l * of->rest_c + start, count, 0.0f));
        activate_many(which, (floats *)kept, least(LANES, lanes));
        for (size_t l = 0; l < LANES && l < lanes; l++) store_up_to(to + l * of->out_c + start, load(kept[l]), count);
        continue;
      }
      for (size_t l = 0; l < LANES && l < lanes; l++, more += of->rest_c, to += of->out_c) {
        if (rest)
          for (size_t i = 0; i < count; i++) kept[l][i] += more[(start + i) * of->rest_z];
        store(kept[l], activated(which, load(kept[l])));
        for (size_t i = 0; i < count; i++) to[(start + i) * of->out_z] = kept[l][i];
      }
    }
}
#endif
