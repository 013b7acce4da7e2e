#include "cpu/gemm.h"
#include "cpu/gemm_own.h"
namespace pyflame::cpu {
void gemm(const Gemm& g) { if (g.batch && g.m && g.n) gemm_own(g); }
void set_gemm_source(GemmSource) {}
const char* gemm_source() { return "own"; }
}
