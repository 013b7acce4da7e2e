// Graphs of operations of the stand-in for cuDNN: each is computed by itself, in double, and
// rounded to the type of its result.
#pragma once
#include <cmath>
#include <limits>

#include "cudnn_descriptor.h"
#include "numbers.h"

namespace {

enum : int { kPointwiseOp = 13, kMatmulOp = 19, kReductionOp = 22, kReshapeOp = 31 };

inline bool is_graph(const Descriptor& graph) {
  return graph.values.at(801).count > 1;
}

struct Tensor {
  int64_t size[4], step[4], id, align;
  int type;  // of numbers.h
  bool is_virtual, by_value;

  explicit Tensor(const Descriptor& d) {
    std::memcpy(size, d.at<int64_t>(902), sizeof size);
    std::memcpy(step, d.at<int64_t>(903), sizeof step);
    id = *d.at<int64_t>(906), align = *d.at<int64_t>(900);
    const int given = *d.at<int>(901);
    type = given == 9 ? 14 : given == 4 ? 10 : given == 11 ? 3 : given;
    is_virtual = d.values.count(907) && *d.at<bool>(907);
    by_value = d.values.count(908) && *d.at<bool>(908);
  }
  int64_t count() const { return size[0] * size[1] * size[2] * size[3]; }
  // Of element i of `other`, of which dimensions are shared or repeated here.
  int64_t place(const Tensor& other, const int64_t* i) const {
    int64_t at = 0;
    for (int d = 0; d < 4; ++d) at = at * size[d] + i[d] * size[d] / other.size[d];
    return at;
  }
  template <class F>
  void each(F&& body) const {
    int64_t i[4], n = 0;
    for (i[0] = 0; i[0] < size[0]; ++i[0])
      for (i[1] = 0; i[1] < size[1]; ++i[1])
        for (i[2] = 0; i[2] < size[2]; ++i[2])
          for (i[3] = 0; i[3] < size[3]; ++i[3]) body(i, n++);
  }
  int64_t offset(const int64_t* i) const {
    return i[0] * step[0] + i[1] * step[1] + i[2] * step[2] + i[3] * step[3];
  }
};
using Values = std::vector<double>;

// Sizes that belong together.
inline bool operation_fits(const Descriptor& op) {
  if (op.kind == 17) return op.values.at(902).count == op.values.at(903).count;
  if (op.kind == kMatmulOp) {
    const Tensor a(op.part(1520)), b(op.part(1521)), c(op.part(1522));
    return a.size[3] == b.size[2] && c.size[2] == a.size[2] && c.size[3] == b.size[3] &&
           c.size[1] % b.size[1] == 0 && a.size[0] == c.size[0];
  }
  if (op.kind == kReshapeOp) return Tensor(op.part(2200)).count() == Tensor(op.part(2201)).count();
  return true;
}

inline double pointwise(int mode, double x, double b, double t) {
  switch (mode) {
    case 0:
      return x + b;
    case 1:
      return x * b;
    case 6:
      return x / b;
    case 9:
      return x - b;
    case 13:
      return std::exp(x);
    case 15:
      return std::log(x);
    case 21:
      return x;
    case 303:
      return x >= b;
    case 601:
      return t != 0 ? x : b;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

// False where a tensor has no address, or one that is not aligned as was said.
inline bool run_graph(const Descriptor& graph, const Descriptor& pack) {
  std::map<int64_t, Values> known;
  bool fine = true;
  const auto address = [&](const Tensor& t) -> void* {
    for (int64_t i = 0; i < pack.values.at(1000).count; ++i)
      if (pack.at<int64_t>(1000)[i] == t.id) {
        void* p = pack.at<void*>(1001)[i];
        if (p &&
            (t.by_value || reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(t.align) == 0))
          return p;
      }
    fine = false;
    return nullptr;
  };
  const auto read = [&](const Tensor& t) -> const Values& {
    auto [it, fresh] = known.try_emplace(t.id);
    if (!fresh) return it->second;
    it->second.resize(static_cast<size_t>(t.count()));
    const void* p = address(t);
    if (t.is_virtual) fine = false;  // nobody made it
    if (p && fine)
      t.each([&](const int64_t* i, int64_t n) {
        it->second[static_cast<size_t>(n)] =
            t.type == 10 ? *static_cast<const int32_t*>(p) : get(p, t.offset(i), t.type);
      });
    return it->second;
  };
  const auto write = [&](const Tensor& t, Values v) {
    char memory[8];
    for (double& x : v) {
      if (t.type == 3 || t.type == 10) continue;
      put(memory, 0, t.type, x);
      x = get(memory, 0, t.type);
    }
    if (void* p = t.is_virtual ? nullptr : address(t))
      t.each([&](const int64_t* i, int64_t n) {
        put(p, t.offset(i), t.type, v[static_cast<size_t>(n)]);
      });
    known[t.id] = std::move(v);
  };
  for (int64_t o = 0; fine && o < graph.values.at(801).count; ++o) {
    const Descriptor& op = graph.part(801, o);
    if (op.kind == kPointwiseOp) {
      const Tensor x(op.part(751)), y(op.part(753));
      const int mode = *op.part(750).at<int>(0);
      const bool binary = op.values.count(752) != 0, three = op.values.count(758) != 0;
      const Tensor b(op.part(binary ? 752 : 751)), t(op.part(three ? 758 : 751));
      Values to(static_cast<size_t>(y.count()));
      if (mode == 501) {
        const int64_t axis = *op.part(750).at<int64_t>(9);
        y.each([&](const int64_t* i, int64_t n) {
          to[static_cast<size_t>(n)] = static_cast<double>(i[axis]);
        });
      } else {
        const Values &xs = read(x), &bs = read(b), &ts = read(t);
        const auto at = [&](const Values& v, const Tensor& of, const int64_t* i) {
          return v[static_cast<size_t>(of.place(y, i))];
        };
        y.each([&](const int64_t* i, int64_t n) {
          to[static_cast<size_t>(n)] = pointwise(mode, at(xs, x, i), at(bs, b, i), at(ts, t, i));
        });
      }
      write(y, std::move(to));
    } else if (op.kind == kReductionOp) {
      const Tensor x(op.part(1610)), y(op.part(1611));
      const bool sum = *op.part(1612).at<int>(1600) == 0;
      Values to(static_cast<size_t>(y.count()), sum ? 0 : -std::numeric_limits<double>::infinity());
      const Values& xs = read(x);
      x.each([&](const int64_t* i, int64_t n) {
        double& r = to[static_cast<size_t>(y.place(x, i))];
        const double v = xs[static_cast<size_t>(n)];
        r = sum ? r + v : v > r || v != v ? v : r;
      });
      write(y, std::move(to));
    } else if (op.kind == kMatmulOp) {
      const Tensor a(op.part(1520)), b(op.part(1521)), c(op.part(1522));
      const Values &as = read(a), &bs = read(b);
      Values to(static_cast<size_t>(c.count()));
      c.each([&](const int64_t* i, int64_t n) {
        const int64_t rows = (i[0] * a.size[1] + i[1]) * a.size[2] + i[2],
                      head = i[0] * b.size[1] + i[1] * b.size[1] / c.size[1];
        double s = 0;
        for (int64_t k = 0; k < a.size[3]; ++k)
          s += as[static_cast<size_t>(rows * a.size[3] + k)] *
               bs[static_cast<size_t>((head * b.size[2] + k) * b.size[3] + i[3])];
        to[static_cast<size_t>(n)] = s;
      });
      write(c, std::move(to));
    } else if (op.kind == kReshapeOp) {  // the same memory by other strides
      const Tensor x(op.part(2200)), y(op.part(2201));
      const Values& xs = read(x);
      std::map<int64_t, double> memory;
      x.each(
          [&](const int64_t* i, int64_t n) { memory[x.offset(i)] = xs[static_cast<size_t>(n)]; });
      Values to(static_cast<size_t>(y.count()));
      y.each([&](const int64_t* i, int64_t n) {
        const auto it = memory.find(y.offset(i));
        if (it == memory.end())
          fine = false;
        else
          to[static_cast<size_t>(n)] = it->second;
      });
      write(y, std::move(to));
    } else {
      return false;
    }
  }
  return fine;
}

}  // namespace
