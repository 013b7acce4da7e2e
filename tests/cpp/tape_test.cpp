// Programs as tapes: against op-by-op execution, over layouts, dtypes, in place, and within bounds.
#include "cpu/tape.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "cpu/convert.h"
#include "cpu/kernel.h"
#include "cpu/tile.h"
#include "gpu/device_text.h"
#include "ops/pointwise.h"
#include "pyflame/error.h"

namespace pyflame::cpu {
namespace {

using Row = table::op::Id;

// A strided array with guard bytes on either side.
struct Array {
  DType dtype;
  std::vector<int64_t> shape, strides;
  int64_t offset = 0;
  std::vector<uint8_t> bytes;
  static constexpr size_t kGuard = 64;

  Array(DType t, std::vector<int64_t> sizes) : dtype(t), shape(std::move(sizes)) {
    int64_t n = 1;
    strides.resize(shape.size());
    for (size_t d = shape.size(); d-- > 0;) {
      strides[d] = n;
      n *= shape[d];
    }
    allocate(n);
  }
  // `extent` elements of memory behind any view.
  Array(DType t, std::vector<int64_t> sizes, std::vector<int64_t> steps, int64_t at, int64_t extent)
      : dtype(t), shape(std::move(sizes)), strides(std::move(steps)), offset(at) {
    allocate(extent);
  }
  void allocate(int64_t n) {
    bytes.assign(static_cast<size_t>(n) * itemsize(dtype) + 2 * kGuard, 0xa5);
  }
  uint8_t* data() { return bytes.data() + kGuard + static_cast<size_t>(offset) * itemsize(dtype); }
  int64_t numel() const {
    int64_t n = 1;
    for (int64_t s : shape) n *= s;
    return n;
  }
  bool contiguous() const {
    int64_t n = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      if (shape[d] != 1 && strides[d] != n) return false;
      n *= shape[d];
    }
    return true;
  }
  pf_tensor tensor() {
    pf_tensor t{};
    t.data = data();
    t.ndim = static_cast<int32_t>(shape.size());
    t.dtype = static_cast<uint8_t>(dtype);
    std::copy(shape.begin(), shape.end(), t.shape);
    std::copy(strides.begin(), strides.end(), t.strides);
    return t;
  }
  pf_operand operand() { return {data(), strides.data(), contiguous()}; }
  // Row-major, as a dense array of the same dtype.
  Array dense() {
    Array r(dtype, shape);
    convert(r.tensor(), tensor());
    return r;
  }
  std::vector<double> values() {
    Array r(DType::Float64, shape);
    convert(r.tensor(), tensor());
    std::vector<double> v(static_cast<size_t>(numel()));
    std::memcpy(v.data(), r.data(), v.size() * 8);
    return v;
  }
  void fill(uint32_t seed, double low = -4, double high = 4) {
    std::mt19937 rng(seed);
    std::uniform_real_distribution<double> u(low, high);
    const int64_t n = (static_cast<int64_t>(bytes.size()) - 2 * static_cast<int64_t>(kGuard)) /
                      static_cast<int64_t>(itemsize(dtype));
    std::vector<double> v(static_cast<size_t>(n));
    for (double& x : v) x = is_float(dtype) ? u(rng) : std::floor(u(rng));
    pf_tensor from{}, to{};
    from.data = v.data();
    from.ndim = to.ndim = 1;
    from.shape[0] = to.shape[0] = n;
    from.strides[0] = to.strides[0] = 1;
    from.dtype = static_cast<uint8_t>(DType::Float64);
    to.dtype = static_cast<uint8_t>(dtype);
    to.data = bytes.data() + kGuard;
    convert(to, from);
  }
  bool guarded() const {
    for (size_t i = 0; i < kGuard; ++i)
      if (bytes[i] != 0xa5 || bytes[bytes.size() - 1 - i] != 0xa5) return false;
    return true;
  }
};

struct Builder {
  std::vector<pf_node> nodes;
  std::vector<uint8_t> in, out;
  std::vector<pf_scalar> scalars;

  pf_ref input(DType t) {
    in.push_back(static_cast<uint8_t>(t));
    return {PF_REF_INPUT, static_cast<uint8_t>(in.size() - 1)};
  }
  pf_ref number(double v) {
    scalars.push_back({v, static_cast<int64_t>(v)});
    return {PF_REF_SCALAR, static_cast<uint8_t>(scalars.size() - 1)};
  }
  pf_ref node(int op, DType dtype, DType compute, std::vector<pf_ref> refs) {
    pf_node n{};
    n.op = static_cast<uint16_t>(op);
    n.dtype = static_cast<uint8_t>(dtype);
    n.compute = static_cast<uint8_t>(compute);
    n.nin = static_cast<uint8_t>(refs.size());
    n.store = -1;
    std::copy(refs.begin(), refs.end(), n.in);
    nodes.push_back(n);
    return {PF_REF_NODE, static_cast<uint8_t>(nodes.size() - 1)};
  }
  void store(pf_ref r) {
    nodes[r.index].store = static_cast<int8_t>(out.size());
    out.push_back(nodes[r.index].dtype);
  }
  void run(std::vector<Array*> inputs, std::vector<Array*> outputs) {
    const pf_program p{static_cast<uint32_t>(nodes.size()),
                       static_cast<uint32_t>(in.size()),
                       static_cast<uint32_t>(out.size()),
                       static_cast<uint32_t>(scalars.size()),
                       nodes.data(),
                       in.data(),
                       out.data()};
    void* kernel = nullptr;
    ASSERT_EQ(program_create(&p, &kernel), PF_OK);
    std::vector<pf_operand> i, o;
    for (Array* a : inputs) i.push_back(a->operand());
    for (Array* a : outputs) o.push_back(a->operand());
    const Array& first = *outputs[0];
    const pf_launch l{static_cast<int32_t>(first.shape.size()),
                      first.shape.data(),
                      first.numel(),
                      i.data(),
                      o.data(),
                      scalars.data()};
    program_launch(kernel, &l);
    program_destroy(kernel);
  }
};

// One operation by itself over dense arrays.
Array alone(int op, DType dtype, DType compute, std::vector<Array*> in,
            std::vector<double> numbers = {}) {
  Builder b;
  std::vector<pf_ref> refs;
  for (Array* a : in) refs.push_back(b.input(a->dtype));
  for (double v : numbers) refs.push_back(b.number(v));
  b.store(b.node(op, dtype, compute, refs));
  Array out(dtype, in[0]->shape);
  b.run(in, {&out});
  return out;
}

bool same_bits(Array& a, Array& b) {
  Array x = a.dense(), y = b.dense();
  return x.bytes == y.bytes;
}

// The layouts that an operand of shape [rows, cols] comes in.
Array layout(int kind, DType t, int64_t rows, int64_t cols) {
  switch (kind) {
    case 0:
      return Array(t, {rows, cols});
    case 1:
      return Array(t, {rows, cols}, {1, rows}, 0, rows * cols);
    case 2:
      return Array(t, {rows, cols}, {0, 1}, 0, cols);
    case 3:
      return Array(t, {rows, cols}, {1, 0}, 0, rows);
    case 4:
      return Array(t, {rows, cols}, {0, 0}, 0, 1);
    case 5:
      return Array(t, {rows, cols}, {2 * cols + 3, 2}, 1, rows * (2 * cols + 3));
    case 6:
      return Array(t, {rows, cols}, {cols + 5, 1}, 2, rows * (cols + 5));
    default:
      return Array(t, {rows, cols}, {-cols, 1}, (rows - 1) * cols, rows * cols);
  }
}

TEST(Tape, FusedEqualsUnfusedOverLayoutsAndDtypes) {
  const std::pair<int64_t, int64_t> sizes[] = {{1, 1},   {1, 17},   {3, 5},     {16, 16},
                                               {40, 64}, {7, 513},  {2, 5000},  {300, 7},
                                               {65, 96}, {130, 48}, {33, 1024}, {4100, 3}};
  for (DType t : {DType::Float32, DType::BFloat16, DType::Float16, DType::Float64}) {
    const DType compute = compute_type(t);
    for (auto [rows, cols] : sizes) {
      for (int kind = 0; kind < 8; ++kind) {
        SCOPED_TRACE(testing::Message() << name(t) << " " << rows << "x" << cols << " " << kind);
        Array x = layout((kind + 1) % 8, t, rows, cols), y = layout(kind, t, rows, cols);
        x.fill(1);
        y.fill(2);
        // z = gelu((x + y) * 0.5) + x, the sum stored too.
        Builder b;
        const pf_ref rx = b.input(t), ry = b.input(t);
        const pf_ref sum = b.node(Row::add, t, compute, {rx, ry});
        const pf_ref half = b.node(Row::mul, t, compute, {sum, b.number(0.5)});
        const pf_ref act = b.node(Row::gelu, t, compute, {half});
        const pf_ref z = b.node(Row::add, t, compute, {act, rx});
        b.store(sum);
        b.store(z);
        Array s = layout(kind == 6 ? 6 : 0, t, rows, cols);
        Array out = layout(kind == 1 ? 1 : kind == 5 ? 5 : 0, t, rows, cols);
        b.run({&x, &y}, {&s, &out});
        Array dx = x.dense(), dy = y.dense();
        Array a = alone(Row::add, t, compute, {&dx, &dy});
        Array h = alone(Row::mul, t, compute, {&a}, {0.5});
        Array g = alone(Row::gelu, t, compute, {&h});
        Array w = alone(Row::add, t, compute, {&g, &dx});
        EXPECT_TRUE(same_bits(s, a));
        EXPECT_TRUE(same_bits(out, w));
        EXPECT_TRUE(out.guarded() && s.guarded() && x.guarded() && y.guarded());
        // What lies between the elements of a sliced output stays.
        if (kind == 5) {
          EXPECT_EQ(out.bytes[Array::kGuard], 0xa5);
        }
        // And the values are right.
        const auto vx = dx.values(), vy = dy.values(), vz = out.values();
        const double tolerance = t == DType::BFloat16  ? 0.1
                                 : t == DType::Float16 ? 0.02
                                 : t == DType::Float32 ? 4e-6
                                                       : 1e-14;
        for (size_t i = 0; i < vx.size(); ++i) {
          const double v = (vx[i] + vy[i]) * 0.5;
          ASSERT_NEAR(vz[i], 0.5 * v * (1 + std::erf(v / std::sqrt(2.0))) + vx[i], tolerance);
        }
      }
    }
  }
}

TEST(Tape, ManyDimensions) {
  Array x(DType::Float32, {3, 4, 5, 6, 2}, {1, 3, 12, 60, 360}, 0, 720);
  Array y(DType::Float32, {3, 4, 5, 6, 2}, {0, 12, 0, 2, 1}, 0, 48);
  x.fill(1);
  y.fill(2);
  Builder b;
  const pf_ref rx = b.input(DType::Float32), ry = b.input(DType::Float32);
  b.store(b.node(Row::sub, DType::Float32, DType::Float32, {rx, ry}));
  Array out(DType::Float32, x.shape);
  b.run({&x, &y}, {&out});
  const auto vx = x.values(), vy = y.values(), vo = out.values();
  for (size_t i = 0; i < vo.size(); ++i)
    ASSERT_EQ(vo[i], static_cast<float>(static_cast<float>(vx[i]) - static_cast<float>(vy[i])));
}

TEST(Tape, InPlaceReadsBeforeItWrites) {
  for (int64_t n : {5, 64, 3000, 200000}) {
    Array x(DType::Float32, {n}), r(DType::Float32, {n});
    x.fill(1);
    const auto before = x.values();
    Builder b;
    const pf_ref rx = b.input(DType::Float32);
    // The first node overwrites x; the second still sees the old values.
    b.store(b.node(Row::add, DType::Float32, DType::Float32, {rx, b.number(1)}));
    b.store(b.node(Row::mul, DType::Float32, DType::Float32, {rx, b.number(2)}));
    b.run({&x}, {&x, &r});
    const auto after = x.values(), twice = r.values();
    for (size_t i = 0; i < before.size(); ++i) {
      ASSERT_EQ(after[i], static_cast<float>(before[i]) + 1.0f);
      ASSERT_EQ(twice[i], 2 * before[i]);
    }
  }
}

TEST(Tape, ComparesSelectsAndThinksInMasks) {
  Array x(DType::Float32, {1000}), y(DType::Float32, {1000});
  x.fill(1);
  y.fill(2);
  Builder b;
  const DType f = DType::Float32, m = DType::Bool;
  const pf_ref rx = b.input(f), ry = b.input(f);
  const pf_ref less = b.node(Row::lt, m, f, {rx, ry});
  const pf_ref positive = b.node(Row::gt, m, f, {rx, b.number(0)});
  const pf_ref both = b.node(Row::logical_and, m, m, {less, positive});
  const pf_ref z = b.node(Row::where, f, f, {both, rx, b.number(-1)});
  const pf_ref count = b.node(Row::cast, DType::Int64, DType::Int64, {both});
  b.store(both);
  b.store(z);
  b.store(count);
  Array mask(m, {1000}), out(f, {1000}), ints(DType::Int64, {1000});
  b.run({&x, &y}, {&mask, &out, &ints});
  const auto vx = x.values(), vy = y.values(), vm = mask.values(), vo = out.values(),
             vi = ints.values();
  for (size_t i = 0; i < vx.size(); ++i) {
    const bool want = vx[i] < vy[i] && vx[i] > 0;
    ASSERT_EQ(vm[i], want);
    ASSERT_EQ(vi[i], want);
    ASSERT_EQ(vo[i], want ? vx[i] : -1);
  }
}

template <class T>
void expect_cast(DType from, DType to, const std::vector<double>& in, const std::vector<T>& want) {
  Array wide(DType::Float64, {static_cast<int64_t>(in.size())});
  std::memcpy(wide.data(), in.data(), in.size() * 8);
  Array x(from, wide.shape), y(to, wide.shape);
  convert(x.tensor(), wide.tensor());
  convert(y.tensor(), x.tensor());
  std::vector<T> got(in.size());
  std::memcpy(got.data(), y.data(), got.size() * sizeof(T));
  EXPECT_EQ(got, want) << name(from) << " to " << name(to);
}
TEST(Tape, CastsAsC) {
  const double inf = INFINITY;
  const int32_t low = INT32_MIN;
  expect_cast<int32_t>(DType::Float32, DType::Int32, {1.9, -1.9, 0.5, 3e9, -3e9, inf, NAN},
                       {1, -1, 0, low, low, low, low});
  expect_cast<int64_t>(DType::Float64, DType::Int64, {1.9, -1.9, 1e18, 1e19},
                       {1, -1, 1000000000000000000, INT64_MIN});
  expect_cast<int8_t>(DType::Int32, DType::Int8, {127, 128, -129, 300}, {127, -128, 127, 44});
  expect_cast<uint8_t>(DType::Float32, DType::UInt8, {255, -1, 256, 3.7}, {255, 255, 0, 3});
  expect_cast<uint8_t>(DType::Float32, DType::Bool, {0, -0.0, 0.1, NAN, 1e-44}, {0, 0, 1, 1, 1});
  expect_cast<float>(DType::Bool, DType::Float32, {0, 1, 1}, {0, 1, 1});
  expect_cast<uint16_t>(DType::Float32, DType::BFloat16, {1, 1.00390625, 1.01171875, -0.0, inf},
                        {0x3f80, 0x3f80, 0x3f82, 0x8000, 0x7f80});
  expect_cast<uint16_t>(DType::Float32, DType::Float16, {1, 65504, 65520, 1e-8, 6e-8},
                        {0x3c00, 0x7bff, 0x7c00, 0, 1});
  expect_cast<uint8_t>(DType::Float32, DType::Float8E4M3, {1, 448, 460, 1e6, 0.0019, -2},
                       {0x38, 0x7e, 0x7e, 0x7e, 1, 0xc0});
  expect_cast<uint8_t>(DType::Float32, DType::Float8E5M2, {1, 57344, 61440, 1e-5, -2},
                       {0x3c, 0x7b, 0x7c, 1, 0xc0});
}

// A tape that stored 4 bytes where an element has 1 would write past its memory: it is not made.
TEST(Tape, RefusesDtypesThatItCannotLoadOrStore) {
  int refused = 0;
  for (const DTypeInfo& t : kDTypes)
    for (const bool as_input : {false, true}) {
      pf_node node{};
      node.op = table::op::cast;
      node.dtype = node.compute = static_cast<uint8_t>(as_input ? DType::Float32 : t.id);
      node.nin = 1;
      node.in[0] = {PF_REF_INPUT, 0};
      const auto in = static_cast<uint8_t>(as_input ? t.id : DType::Float32), out = node.dtype;
      const pf_program program{1, 1, 1, 0, &node, &in, &out};
      void* tape = nullptr;
      if (t.storage_only) {
        EXPECT_THROW(program_create(&program, &tape), NotSupportedError) << t.name;
        EXPECT_THROW(gpu::DeviceProgram{program}, NotSupportedError) << t.name;
        ++refused;
      } else {
        ASSERT_EQ(program_create(&program, &tape), PF_OK) << t.name;
        program_destroy(tape);
      }
    }
  EXPECT_GE(refused, 2 * 11);
}

// The kernels' 16-bit rounding is the core's.
TEST(Tape, SixteenBitRoundingIsTheCores) {
  std::mt19937 rng(5);
  const int64_t n = 1 << 16;
  Array x(DType::Float32, {n});
  std::vector<float> v(static_cast<size_t>(n));
  for (float& f : v) {
    uint32_t bits = rng();
    std::memcpy(&f, &bits, 4);
  }
  std::memcpy(x.data(), v.data(), v.size() * 4);
  Array b(DType::BFloat16, {n}), h(DType::Float16, {n});
  convert(b.tensor(), x.tensor());
  convert(h.tensor(), x.tensor());
  for (size_t i = 0; i < v.size(); ++i) {
    uint16_t gb, gh;
    std::memcpy(&gb, b.data() + 2 * i, 2);
    std::memcpy(&gh, h.data() + 2 * i, 2);
    if (std::isnan(v[i])) {
      EXPECT_TRUE(std::isnan(to_float(bfloat16{gb})) && std::isnan(to_float(float16{gh})));
    } else {
      ASSERT_EQ(gb, to_bfloat16(v[i]).bits) << v[i];
      ASSERT_EQ(gh, to_float16(v[i]).bits) << v[i];
    }
  }
}

TEST(Tape, SmallIntegersWrapAfterEachNode) {
  Array x(DType::Int8, {100});
  x.fill(1, -128, 127);
  Builder b;
  const pf_ref rx = b.input(DType::Int8);
  const pf_ref square = b.node(Row::mul, DType::Int8, DType::Int32, {rx, rx});
  b.store(b.node(Row::floor_divide, DType::Int8, DType::Int32, {square, b.number(3)}));
  Array out(DType::Int8, {100});
  b.run({&x}, {&out});
  const auto vx = x.values(), vo = out.values();
  for (size_t i = 0; i < vx.size(); ++i) {
    const int8_t s = static_cast<int8_t>(static_cast<int>(vx[i]) * static_cast<int>(vx[i]));
    ASSERT_EQ(vo[i], std::floor(s / 3.0));
  }
}

// Native gradients and runtime expressions of the same rows.
TEST(Tape, GradientsMatchFiniteDifferences) {
  Array x(DType::Float64, {512}), g(DType::Float64, {512});
  x.fill(1, 0.1, 0.9);
  g.fill(2);
  for (int row : {+Row::exp, +Row::gelu, +Row::gelu_tanh, +Row::tanh, +Row::silu, +Row::log}) {
    const DType d = DType::Float64;
    Array r = alone(row, d, d, {&x});
    Array second = table::kRowTable[row].grad == table::Grad::FROM_RESULT ? r : x;
    Array slope = alone(table::gradient_row(static_cast<table::OpId>(row), 0), d, d, {&g, &second});
    Array up = alone(Row::add, d, d, {&x}, {1e-6}), down = alone(Row::add, d, d, {&x}, {-1e-6});
    const auto f1 = alone(row, d, d, {&up}).values(), f0 = alone(row, d, d, {&down}).values();
    const auto vg = g.values(), vs = slope.values();
    for (size_t i = 0; i < vs.size(); ++i)
      ASSERT_NEAR(vs[i], vg[i] * (f1[i] - f0[i]) / 2e-6, 1e-7) << table::kRowTable[row].name;
  }
}

TEST(Tape, LargeOutputsBypassTheCaches) {
  const int64_t n = (int64_t{20} << 20) + 37;
  Array x(DType::Float32, {n}), out(DType::Float32, {n});
  x.fill(1);
  Builder b;
  const pf_ref rx = b.input(DType::Float32);
  const pf_ref twice = b.node(Row::mul, DType::Float32, DType::Float32, {rx, b.number(2)});
  b.store(b.node(Row::add, DType::Float32, DType::Float32, {twice, b.number(1)}));
  b.run({&x}, {&out});
  const float* px = reinterpret_cast<const float*>(x.data());
  const float* po = reinterpret_cast<const float*>(out.data());
  int64_t wrong = 0;
  for (int64_t i = 0; i < n; ++i) wrong += po[i] != px[i] * 2 + 1;
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(out.guarded());
}

// Memory that ends, or begins, where the next page must not be touched.
struct Fenced {
  static constexpr size_t kPage = 4096, kPages = 16;
  char* map;
  Fenced() {
    map = static_cast<char*>(
        mmap(nullptr, (kPages + 2) * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map + kPage, kPages * kPage, PROT_READ | PROT_WRITE);
  }
  ~Fenced() { munmap(map, (kPages + 2) * kPage); }
  char* place(size_t bytes, bool at_end) {
    return map + kPage + (at_end ? kPages * kPage - bytes : 0);
  }
};

TEST(Tape, NeverTouchesWhatLiesBeyondATensor) {
  Fenced fx, fy, fo;
  for (DType t : {DType::Float32, DType::BFloat16, DType::Int8, DType::Float64}) {
    const size_t size = itemsize(t);
    for (int64_t n : {1, 2, 3, 7, 15, 16, 17, 31, 63, 65, 100, 513, 1000, 2047, 2049, 7000}) {
      for (int64_t cols : {int64_t{1}, int64_t{3}, int64_t{5}, int64_t{17}, int64_t{100}}) {
        const int64_t rows = n / cols;
        if (rows == 0) continue;
        for (bool at_end : {true, false}) {
          for (int kind = 0; kind < 4; ++kind) {
            Builder b;
            const pf_ref rx = b.input(t), ry = b.input(t);
            b.store(b.node(Row::add, t, compute_type(t), {rx, ry}));
            const pf_program p{1, 2, 1, 0, b.nodes.data(), b.in.data(), b.out.data()};
            void* kernel = nullptr;
            ASSERT_EQ(program_create(&p, &kernel), PF_OK);
            const int64_t shape[2] = {rows, cols}, dense[2] = {cols, 1}, turned[2] = {1, rows},
                          row[2] = {0, 1}, column[2] = {1, 0};
            const int64_t* steps[] = {dense, turned, row, column};
            const int64_t extent[] = {rows * cols, rows * cols, cols, rows};
            const auto bytes = [&](int64_t count) { return static_cast<size_t>(count) * size; };
            const pf_operand in[2] = {
                {fx.place(bytes(rows * cols), at_end), dense, 1},
                {fy.place(bytes(extent[kind]), at_end), steps[kind], kind == 0}};
            const pf_operand out = {fo.place(bytes(rows * cols), at_end), dense, 1};
            const pf_launch l{2, shape, rows * cols, in, &out, nullptr};
            program_launch(kernel, &l);
            program_destroy(kernel);
          }
        }
      }
    }
  }
}

TEST(Tape, CopiesAnyLayout) {
  std::mt19937 rng(9);
  for (int round = 0; round < 400; ++round) {
    const DType types[] = {DType::UInt8, DType::Float16, DType::Float32, DType::Float64,
                           DType::Complex128};
    const DType t = types[rng() % 5];
    const int64_t rows = 1 + rng() % 90, cols = 1 + rng() % 90;
    Array from = layout(static_cast<int>(rng() % 8), t, rows, cols);
    for (uint8_t& byte : from.bytes) byte = static_cast<uint8_t>(rng());
    const int kinds[] = {0, 1, 5, 6, 7};
    Array to = layout(kinds[rng() % 5], t, rows, cols);
    const Array untouched = to;
    convert(to.tensor(), from.tensor());
    std::vector<uint8_t> want = untouched.bytes;
    const size_t size = itemsize(t);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < cols; ++c)
        std::memcpy(
            want.data() + Array::kGuard +
                static_cast<size_t>(to.offset + r * to.strides[0] + c * to.strides[1]) * size,
            from.data() + (r * from.strides[0] + c * from.strides[1]) * static_cast<int64_t>(size),
            size);
    ASSERT_EQ(to.bytes, want) << name(t) << " " << rows << "x" << cols;
  }
}

}  // namespace
}  // namespace pyflame::cpu
