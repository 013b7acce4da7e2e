// Device text, compiled for the host and run, against the CPU backend.
#include "gpu/device_text.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "../standin/block.h"
#include "cpu/convert.h"
#include "cpu/tape.h"
#include "device_corpus.h"
#include "ops/pointwise.h"

namespace pyflame::testing {
namespace {

using gpu::DeviceLaunch;
using gpu::DeviceProgram;
using gpu::kDeviceWords;
using gpu::LaunchClass;

// Memory of one operand between guards.
struct Memory {
  static constexpr size_t kGuard = 64;
  DType dtype;
  int64_t extent, offset;
  std::vector<uint8_t> bytes;

  explicit Memory(const DeviceCase::Operand& o)
      : dtype(o.dtype),
        extent(o.extent),
        offset(o.offset),
        bytes(static_cast<size_t>(o.extent) * itemsize(o.dtype) + 2 * kGuard + 16, 0xa5) {}
  // Aligned as a device allocation is.
  uint8_t* base() {
    auto at = reinterpret_cast<uintptr_t>(bytes.data() + kGuard);
    return reinterpret_cast<uint8_t*>((at + 15) & ~uintptr_t{15});
  }
  void* data() { return base() + static_cast<size_t>(offset) * itemsize(dtype); }

  void fill(uint64_t seed, double low, double high) {
    std::mt19937_64 rng(seed);
    std::uniform_real_distribution<double> u(low, high);
    std::vector<double> v(static_cast<size_t>(extent));
    for (double& x : v) x = is_float(dtype) ? u(rng) : std::floor(u(rng));
    if (is_float(dtype) && extent > 64) {
      const double inf = HUGE_VAL, nan = std::nan("");
      const double special[] = {0.0,    -0.0, inf, -inf, nan,  1.0,   -1.0,   0.5,  -0.5,  1e-40,
                                -1e-40, 2.0,  3.0, -2.0, 88.8, -87.5, -103.5, 1e30, -1e30, 1e5};
      size_t at = rng() % 7;
      for (double s : special) v[at % v.size()] = s, at += 1 + rng() % 5;
    }
    pf_tensor from{}, to{};
    from.data = v.data();
    to.data = base();
    from.ndim = to.ndim = 1;
    from.shape[0] = to.shape[0] = extent;
    from.strides[0] = to.strides[0] = 1;
    from.dtype = static_cast<uint8_t>(DType::Float64);
    to.dtype = static_cast<uint8_t>(dtype);
    cpu::convert(to, from);
  }
  double value(int64_t i) {
    double v = 0;
    pf_tensor from{}, to{};
    from.data = base() + static_cast<size_t>(i) * itemsize(dtype);
    to.data = &v;
    from.ndim = to.ndim = 1;
    from.shape[0] = to.shape[0] = from.strides[0] = to.strides[0] = 1;
    from.dtype = static_cast<uint8_t>(dtype);
    to.dtype = static_cast<uint8_t>(DType::Float64);
    cpu::convert(to, from);
    return v;
  }
};

// Units of the last place between two values of a dtype; of 1/64 where they are smaller.
double distance(double a, double b, DType t) {
  const int digits = t == DType::Float64   ? 53
                     : t == DType::Float32 ? 24
                     : t == DType::Float16 ? 11
                                           : 8;
  const double big = std::max({std::fabs(a), std::fabs(b), 1.0 / 64});
  if (!std::isfinite(big)) return HUGE_VAL;
  return std::fabs(a - b) / std::ldexp(1.0, std::ilogb(big) - digits + 1);
}

// Text compiled for the host.
class Library {
 public:
  explicit Library(const std::vector<std::string>& parts) {
    char name[] = "/tmp/pyflame_text_XXXXXX";
    dir_ = mkdtemp(name);
    const std::string compiler = PF_TEST_COMPILER;
    std::string objects;
    std::vector<std::thread> workers;  // as many compilers at once as there are parts
    std::vector<int> status(parts.size(), 1);
    for (size_t i = 0; i < parts.size(); ++i) {
      const std::string file = dir_ + "/part" + std::to_string(i);
      std::string text = "#include \"math.h\"\n";
      if (i == 0)
        text +=
            "extern \"C\" char* lds_begin() { return pf_lds_begin; }\n"
            "extern \"C\" char* lds_end() { return pf_lds_end; }\n";
      write("part" + std::to_string(i) + ".cpp", text + parts[i]);
      objects += " " + file + ".o";
      workers.emplace_back([&status, compiler, file, i, this] {
        status[i] = run(compiler + " -std=c++17 -O0 -fPIC -mfma -ffp-contract=off -w -DPF_HOST " +
                        "-DPF_WARP=32 -I" PF_TEST_SHIM " -I" PF_TEST_KERNELS " -c " + file +
                        ".cpp -o " + file + ".o");
      });
    }
    for (auto& w : workers) w.join();
    for (int s : status)
      if (s != 0) return;
    if (run(compiler + " -shared -Wl,-z,muldefs -o " + dir_ + "/all.so" + objects) == 0)
      handle_ = dlopen((dir_ + "/all.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  ~Library() {
    if (handle_) dlclose(handle_);
    std::filesystem::remove_all(dir_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  explicit operator bool() const { return handle_ != nullptr; }
  template <class F>
  F* find(const std::string& name) const {
    return reinterpret_cast<F*>(dlsym(handle_, name.c_str()));
  }

 private:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(dir_ + "/" + name) << text;
  }
  static int run(const std::string& command) { return std::system(command.c_str()); }
  std::string dir_;
  void* handle_ = nullptr;
};

struct Words {
  uint64_t w[kDeviceWords];
};
struct Packed {
  void (*kernel)(Words);  // takes as many as it wants: they lie on the stack
  Words words;
};

void run_text(const Library& library, const std::string& entry, const DeviceLaunch& l) {
  Packed packed{library.find<void(Words)>(entry), {}};
  ASSERT_NE(packed.kernel, nullptr);
  std::memcpy(packed.words.w, l.words, sizeof packed.words.w);
  standin::Entry e{};
  e.run = [](void* p) { static_cast<Packed*>(p)->kernel(static_cast<Packed*>(p)->words); };
  e.warp = 32;
  e.shim = library.find<standin::Block*>("pf_shim");
  e.lds_begin = library.find<char*()>("lds_begin")();
  e.lds_end = library.find<char*()>("lds_end")();
  EXPECT_EQ(standin::run_blocks(e, &packed, {l.grid, 1, 1}, {l.block, 1, 1}, 0, false), "");
}

void compare(const DeviceCase& c, const Library& library, const std::string& entry, uint64_t seed) {
  SCOPED_TRACE(c.name);
  std::vector<Memory> in, cpu, text;
  std::vector<void*> at_cpu, at_text;
  for (size_t k = 0; k < c.inputs.size(); ++k) {
    in.emplace_back(c.inputs[k]);
    in.back().fill(seed + k, c.low, c.high);
  }
  for (const auto& o : c.outputs) cpu.emplace_back(o), text.emplace_back(o);
  for (Memory& m : in) at_cpu.push_back(m.data()), at_text.push_back(m.data());
  for (Memory& m : cpu) at_cpu.push_back(m.data());
  for (Memory& m : text) at_text.push_back(m.data());
  c.with_program([&](const pf_program& p) {
    void* tape = nullptr;
    ASSERT_EQ(cpu::program_create(&p, &tape), PF_OK);
    c.with_launch(at_cpu, [&](const pf_launch& l) { cpu::program_launch(tape, &l); });
    cpu::program_destroy(tape);
    const DeviceProgram program(p);
    DeviceLaunch launch;
    c.with_launch(at_text, [&](const pf_launch& l) { program.plan(l, launch); });
    run_text(library, entry, launch);
  });
  for (size_t o = 0; o < cpu.size(); ++o) {
    if (cpu[o].bytes.size() != text[o].bytes.size()) FAIL();
    int wrong = 0;
    const size_t size = itemsize(cpu[o].dtype);
    for (int64_t i = 0; i < cpu[o].extent && wrong < 3; ++i) {
      if (std::memcmp(cpu[o].base() + static_cast<size_t>(i) * size,
                      text[o].base() + static_cast<size_t>(i) * size, size) == 0)
        continue;
      const double a = cpu[o].value(i), b = text[o].value(i);
      if (std::isnan(a) && std::isnan(b)) continue;
      // What 16-bit results are made of may be 0 for less than the smallest normal float
      // (kernels/half_math.h): then an infinite gradient gives NaN.
      if (size == 2 && std::isnan(b) && std::isinf(a) && in[0].extent > i &&
          std::isinf(in[0].value(i)))
        continue;
      if (is_float(cpu[o].dtype) && distance(a, b, cpu[o].dtype) <= c.ulps) continue;
      ++wrong;
      ADD_FAILURE() << "output " << o << " (" << name(cpu[o].dtype) << ") element " << i << ": CPU "
                    << a << ", text " << b << ", " << distance(a, b, cpu[o].dtype) << " ulps"
                    << (in.empty() || in[0].extent <= i ? "" : ", x ")
                    << (in.empty() || in[0].extent <= i ? 0 : in[0].value(i));
    }
    for (size_t i = 0; i < Memory::kGuard; ++i) {
      ASSERT_EQ(text[o].bytes[i], 0xa5);
      ASSERT_EQ(text[o].bytes[text[o].bytes.size() - 1 - i], 0xa5);
    }
  }
}

void check(const std::vector<DeviceCase>& cases) {
  std::vector<std::string> parts(2);
  for (size_t i = 0; i < cases.size(); ++i)
    parts[i % parts.size()] += device_case_text(cases[i], "k" + std::to_string(i));
  const Library library(parts);
  ASSERT_TRUE(library) << "the text does not compile";
  for (size_t i = 0; i < cases.size(); ++i)
    compare(cases[i], library, "k" + std::to_string(i), 1000 * i);
}

TEST(DeviceText, RowsGiveWhatTheCpuGives) {
  check(row_cases());
}
TEST(DeviceText, GradientsGiveWhatTheCpuGives) {
  check(gradient_cases());
}
TEST(DeviceText, ConversionsGiveWhatTheCpuGives) {
  check(cast_cases());
}
TEST(DeviceText, GroupsOfModels) {
  check(model_cases());
}
TEST(DeviceText, RandomGroupsOverAnyLayout) {
  std::vector<DeviceCase> cases;
  int met[4][2] = {};  // by kind; with vectors
  for (uint64_t seed = 0; seed < 150; ++seed) cases.push_back(random_case(seed));
  for (const DeviceCase& c : cases) {
    const LaunchClass k = device_case_class(c);
    ++met[k.kind][k.vec > 1];
  }
  for (int kind : {LaunchClass::Flat, LaunchClass::Rows, LaunchClass::Tiles}) {
    EXPECT_GT(met[kind][0], 4) << "kind " << kind << " by elements";
    EXPECT_GT(met[kind][1], 4) << "kind " << kind << " by vectors";
  }
  EXPECT_GT(met[LaunchClass::Lines][0], 4);
  check(cases);
}

TEST(DeviceText, DivisionsByMultiplication) {
  const Library library(
      {"extern \"C\" unsigned divide(unsigned n, pf_u64 d) { return pf_divide(n, d); }\n"});
  ASSERT_TRUE(library);
  const auto divide = library.find<unsigned(unsigned, uint64_t)>("divide");
  std::mt19937 rng(1);
  std::vector<uint32_t> ends = {0, 1, 2, 3, 5, 7, 0x7fffffff, 0x7ffffffe, 0x40000000, 0x3fffffff};
  for (int i = 0; i < 3000; ++i) ends.push_back(rng() >> (1 + rng() % 31));
  for (uint32_t d : ends) {
    if (d == 0) continue;
    const uint64_t word = gpu::device_divisor(d);
    for (uint32_t n : {0u, d - 1, d, d + 1, 2 * d - 1, 0x7fffffffu, uint32_t(rng() >> 1)})
      if (n < 0x80000000u) {
        ASSERT_EQ(divide(n, word), n / d) << n << " / " << d;
      }
  }
}

// An operand whose elements lie further apart than 32 bits reach.
TEST(DeviceText, OffsetsOf64Bits) {
  DeviceCase c;
  c.shape = {3, 5};
  const int64_t far = int64_t{3} << 29;
  c.inputs.push_back({DType::Int8, {far, 7}, 0, 2 * far + 29});
  c.outputs.push_back({DType::Int8, {1, 3}, 0, 15});
  pf_node n{};
  n.op = table::op::neg;
  n.dtype = static_cast<uint8_t>(DType::Int8);
  n.compute = static_cast<uint8_t>(DType::Int32);
  n.nin = 1;
  n.in[0] = {PF_REF_INPUT, 0};
  c.nodes.push_back(n);
  const size_t bytes = static_cast<size_t>(c.inputs[0].extent);
  auto* in = static_cast<int8_t*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  ASSERT_NE(in, MAP_FAILED);
  for (int64_t i = 0; i < 15; ++i) in[i / 5 * far + i % 5 * 7] = static_cast<int8_t>(i + 1);
  int8_t out[15] = {};
  c.with_program([&](const pf_program& p) {
    const DeviceProgram program(p);
    DeviceLaunch launch;
    c.with_launch({in, out}, [&](const pf_launch& l) { program.plan(l, launch); });
    EXPECT_EQ(launch.key.kind, LaunchClass::Lines);
    EXPECT_EQ(launch.key.wide, 1);
    const Library library({program.text(launch.key)});
    ASSERT_TRUE(library);
    run_text(library, DeviceProgram::kEntry, launch);
  });
  munmap(in, bytes);
  for (int i = 0; i < 15; ++i) EXPECT_EQ(out[i / 5 + i % 5 * 3], -(i + 1));
}

// For every number of 16 bits: right to 1/32 of a unit in the last place before the rounding.
TEST(DeviceText, FunctionsForHalvesAreRightToTheRounding) {
  struct Function {
    const char* name;
    double (*reference)(double);
  };
  const Function functions[] = {
      {"exp", [](double x) { return std::exp(x); }},
      {"exp2", [](double x) { return std::exp2(x); }},
      {"tanh", [](double x) { return std::tanh(x); }},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"erf", [](double x) { return std::erf(x); }},
      {"gelu",
       [](double x) { return x == -HUGE_VAL ? 0 : x * std::erfc(-x / std::sqrt(2.0)) / 2; }},
  };
  std::string text;
  for (const Function& f : functions)
    text += std::string("extern \"C\" float half_") + f.name + "(float x) { return pf_half::pf_" +
            f.name + "(x); }\n";
  const Library library({text});
  ASSERT_TRUE(library);
  for (const Function& f : functions) {
    const auto fn = library.find<float(float)>(std::string("half_") + f.name);
    for (const bool brain : {false, true}) {
      const int digits = brain ? 8 : 11, lowest = brain ? -126 : -14;
      double worst = 0;
      float at = 0;
      for (uint32_t bits = 0; bits < 65536; ++bits) {
        const uint16_t b = static_cast<uint16_t>(bits);
        const float x = brain ? to_float(bfloat16{b}) : to_float(float16{b});
        const double want = f.reference(x), got = fn(x);
        if (std::isnan(want)) {
          ASSERT_TRUE(std::isnan(got)) << f.name << "(" << x << ") = " << got;
          continue;
        }
        const double most = brain ? 3.3953e38 : 65520;  // from here on infinite
        if (std::fabs(want) >= most) {
          ASSERT_GE(std::fabs(got), most) << f.name << "(" << x << ")";
          continue;
        }
        if (std::fabs(want) < std::ldexp(1.0, lowest) && got == 0) continue;
        const int exponent = std::max(want != 0 ? std::ilogb(want) : lowest, lowest);
        const double off = std::fabs(got - want) / std::ldexp(1.0, exponent - digits + 1);
        if (!(off <= worst)) worst = off, at = x;
      }
      EXPECT_LE(worst, 1.0 / 32) << f.name << (brain ? " bfloat16" : " float16") << " at " << at;
    }
  }
}

}  // namespace
}  // namespace pyflame::testing
