// What the tape executes: kernels over whole tiles. Registers of the tape hold kPad elements more
// than a tile at most, so kernels have no tails: a count is rounded up to whole vectors, never
// past the next multiple of kTileGrain.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pyflame/dtype.h"

namespace pyflame::cpu {

inline constexpr size_t kTileGrain = 16;  // elements; a multiple of every vector's lanes

// The types in which tiles are computed; one byte an element for Bool, 0 or 1.
enum class Reg : uint8_t { F32, F64, I32, I64, Bool, kCount };
constexpr Reg reg_of(DType t) {
  const DTypeInfo& c = info(compute_type(t));
  if (c.kind == Kind::Float) return c.bits == 32 ? Reg::F32 : Reg::F64;
  if (c.kind == Kind::Int) return c.bits == 32 ? Reg::I32 : Reg::I64;
  return Reg::Bool;
}
constexpr int reg_bytes(Reg r) {
  return r == Reg::Bool ? 1 : r == Reg::F32 || r == Reg::I32 ? 4 : 8;
}

// An operand of an instruction: an address and how to walk it.
struct Loc {
  enum Walk : size_t { kSplat = 0, kStep = 1, kStream = 2 };
  char* data;
  size_t walk;        // kSplat: one vector of equal elements; kStream: store past the caches
  const char* ahead;  // a next tile, to be prefetched, or null
};

struct Instr;
using TileFn = void (*)(size_t n, const Loc* locs, const Instr& instr);
struct Instr {
  TileFn fn;
  uint16_t out;
  uint16_t in[4];
  uint16_t attr;   // of the first attribute, the others follow
  uint16_t ahead;  // the location that says what is prefetched meanwhile
  uint16_t cost;   // roughly, in tenths of a nanosecond for 16 elements
};

// A compiled row. Null where its rule forbids the type.
struct Kernel {
  TileFn fn;
  Reg result;
  uint8_t masks;  // bit i: operand i is a mask, one byte an element
  uint16_t cost;
};
Kernel row_kernel(int row, Reg type);
// The gradient of input `input` of a forward row: operands (g, x...) or (g, r). Float types only.
Kernel gradient_kernel(int row, int input, Reg type);
// A micro-operation (table::Micro as int). Bool: And, Or, Xor, Not; also Select over masks.
Kernel micro_kernel(int micro, Reg type);

// Conversions of tiles. Null where there is none.
TileFn load_kernel(DType storage);   // from storage to its register type
TileFn store_kernel(DType storage);  // back; the value is rounded already or now
TileFn round_kernel(DType storage);  // register to register
TileFn convert_kernel(Reg from, Reg to);
TileFn copy_kernel(int bytes);

// For tests: use at most this instruction set ("avx2"), or all again (null). Programs created
// afterwards follow.
void limit_simd(const char* name);
const char* simd_name();

}  // namespace pyflame::cpu
