// matrix_units.h acted out by the host: lanes leave their operands where the others of the warp
// find them.
#ifndef PF_MATRIX_UNITS_HOST_H
#define PF_MATRIX_UNITS_HOST_H

template <class T>
PF_DEVICE void pf_unit_multiply(const pf_u32 (&a)[PF_UNIT_WORDS], const pf_u32 (&b)[PF_UNIT_WORDS],
                                pf_compute<T> (&c)[PF_UNIT_SUMS]) {
  static pf_compute<T> all[32][2][64][PF_UNIT_DEPTH];
  constexpr int depth = PF_UNIT_DEPTH / PF_UNIT_REPEAT, steps = PF_UNIT_K / PF_UNIT_REPEAT;
  const int lane = static_cast<int>(pf_lane());
  auto& room = all[pf_thread() / PF_WARP];
  for (int i = 0; i < PF_UNIT_DEPTH; ++i) {
    room[0][lane][i] = pf_acted_value<T>(a, i);
    room[1][lane][i] = pf_acted_value<T>(b, i);
  }
  pf_shuffle_word(0, 0);  // all have written
  for (int r = 0; r < PF_UNIT_REPEAT; ++r) {
    for (int i = 0; i < PF_UNIT_SUMS; ++i) {
      for (int k = 0; k < steps; ++k) {
        // Lanes that hold the same line each read their own copies.
        const int part = depth == steps ? lane / PF_UNIT_N : k / depth, at = r * depth + k % depth;
        pf_acted_add(c[i], room[0][part * PF_UNIT_M + pf_unit_row(lane, i)][at],
                     room[1][part * PF_UNIT_N + lane % PF_UNIT_N][at]);
      }
    }
  }
  pf_shuffle_word(0, 0);  // all have read
}

#endif
