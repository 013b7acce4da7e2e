// Rows that stay in shared memory while blocks go through them. Part of cross_entropy.h, whose
// vectors (Vector, PF_PAST) they hold.
#ifndef PF_KEPT_ROW_MMA_H
#define PF_KEPT_ROW_MMA_H

// A row in shared memory, of which each thread reads what it has asked for alone. The copies go on
// beside it where there are such instructions (PF_MMA).
struct pf_kept_row {
  char* p;
  // Vector c, from x.
  PF_METHOD void ask(pf_i64 c, const char* x) const {
    char* to = p + c * Vector::bytes;
#ifdef PF_MMA
    if constexpr (Vector::bytes == 16) {
      pf_copy_async(pf_shared_address(to), x, 16);
      return;
    }
#endif
    Vector v;
    v.template load<PF_PAST>(x);
    pf_store_words<Vector::bytes, false>(to, v.w);
  }
  PF_METHOD void get(pf_i64 c, Vector& v) const {
    const char* from = p + c * Vector::bytes;
#ifdef PF_MMA
    if constexpr (Vector::bytes == 16) {
      pf_load_shared4(pf_shared_address(from), v.w);
      return;
    }
#endif
    pf_load_words<Vector::bytes, false>(from, v.w);
  }
  // The end of a round of copies; until all but the last AHEAD rounds have arrived.
  static PF_METHOD void end() {
#ifdef PF_MMA
    pf_copies_end();
#endif
  }
  template <int AHEAD>
  static PF_METHOD void wait() {
#ifdef PF_MMA
    pf_copies_wait<AHEAD>();
#endif
  }
};

#endif
