// Work over a list of tensors: blocks of a fixed number of elements, cut over all of them.
#ifndef PF_TABLE_H
#define PF_TABLE_H

#include "optim_args.h"
#include "rows.h"

// The elements of one tensor that this block works on. All threads call it; `slot` is one shared
// word.
struct pf_stretch {
  pf_entry_of tensor;
  pf_i64 begin, end;
  PF_METHOD pf_stretch(const pf_list& l, pf_i32* slot) {
    const pf_i64 b = pf_block();
    for (pf_i64 i = pf_thread(); i < l.count; i += pf_threads())
      if (l.first[i] <= b && b < l.first[i + 1]) *slot = static_cast<pf_i32>(i);
    pf_barrier();
    tensor = l.tensors[*slot];
    PF_UNROLL for (void*& p : tensor.data) p = pf_global(p);
    begin = (b - l.first[*slot]) * l.chunk;
    end = begin + l.chunk < tensor.count ? begin + l.chunk : tensor.count;
  }
};

#endif
