// The programs before and after a kernel that are part of its text (DeviceProgram::prologue_text,
// epilogue_text): each is another argument of the kernel. What the kernel makes goes to the one
// behind it rounded, and to memory only if somebody else reads it there. PF_EPILOGUE: so many
// elements of a row at a time, as the launcher has told (JoinedRows::vec).
#ifndef PF_AROUND_H
#define PF_AROUND_H

#include "prelude.h"

#ifdef PF_PROLOGUE
#define PF_PROLOGUE_ARGS , pf_before_args before
#define PF_PROLOGUE_REF , const pf_before_args& before
#define PF_PROLOGUE_PASS , before
#else
#define PF_PROLOGUE_ARGS
#define PF_PROLOGUE_REF
#define PF_PROLOGUE_PASS
#endif
#ifdef PF_EPILOGUE
#define PF_EPILOGUE_ARGS , pf_args epilogue
#define PF_EPILOGUE_REF , const pf_args& epilogue
#define PF_EPILOGUE_PASS , epilogue
#else
#define PF_EPILOGUE_ARGS
#define PF_EPILOGUE_REF
#define PF_EPILOGUE_PASS
#endif
#define PF_AROUND_ARGS PF_PROLOGUE_ARGS PF_EPILOGUE_ARGS

#ifdef PF_EPILOGUE
template <class C, int N>
PF_DEVICE void pf_epilogue(const pf_args& a, pf_i64 row, pf_i64 col, const C (&x)[N]) {
  pf_after<N> after;
  after.load(a, row, col);
  after.run(a, row, col, x);
}
#endif

#ifdef PF_RESULT_UNREAD
constexpr bool pf_result_kept = false;
#else
constexpr bool pf_result_kept = true;
#endif

#endif
