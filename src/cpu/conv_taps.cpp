// Convolutions of floats as sums over taps: no columns are made. What a piece of work reads is
// copied once into memory of its own, padded, with channels side by side; there each tap of a line
// of pixels is a matrix [pixels, channels] that lies as products read it, and the micro-kernels of
// products go through all taps before they write. A gradient of the input is the same over the
// pixels of each phase of the stride; one of the weights has pixels where the others have channels.
#include <algorithm>
#include <optional>
#include <vector>

#include "core/dispatch.h"
#include "cpu/conv.h"
#include "cpu/gemm_own.h"
#include "cpu/move.h"
#include "cpu/scratch.h"

namespace pyflame::cpu {
namespace {

constexpr int64_t kPieceBytes = 768 << 10;  // of padded memory: with weights beside it in a L2
// The steps of k after which other pixels come, so that the weights stay in the L1; and those
// pixels.
constexpr int64_t kSteps = 256, kTogether = 96, kManyTogether = 256;
constexpr int64_t kBlockBytes = 16 << 10;
constexpr int64_t kMaxPhases = 64, kFewResults = 8;

// The result pixels first + q * pitch, which sum the same taps.
struct Phase {
  Space first, pitch, count;
  struct At {
    int64_t tap, place;  // in a dimension; place: in the padded source
  };
  std::array<std::vector<At>, 3> taps;
  int64_t k = 0;                    // products of one step
  std::vector<int64_t> a_at, b_at;  // of the steps
};

// How results follow from a padded source, of which pixel i is pixel i * scale + origin.
struct Form {
  int64_t sources, results;  // channels of a group
  Space origin, scale, size;
  Space step;  // between what neighbouring results read
  Space span;  // pixels of the source that one result reads
  std::vector<Phase> phases;

  // The result from x, whose channels lie `apart` or side by side.
  static Form forward(const Problem& p, bool apart) {
    Form f{p.in, p.out, {}, {}, {}, {}, {}, {Phase{{0, 0, 0}, {1, 1, 1}, p.y, {}, 0, {}, {}}}};
    for (size_t d = 0; d < 3; ++d) {
      // Pixels between are not copied, unless whole lines are copied faster than parts of them.
      const bool single = p.taps[d] == 1 && !(d == 2 && apart);
      f.origin[d] = -p.padding[d];
      f.scale[d] = single ? p.stride[d] : 1;
      f.step[d] = single ? 1 : p.stride[d];
      f.span[d] = (p.taps[d] - 1) * p.dilation[d] + 1;
      f.size[d] = (p.y[d] - 1) * f.step[d] + f.span[d];
      for (int64_t t = 0; t < p.taps[d]; ++t) f.phases[0].taps[d].push_back({t, t * p.dilation[d]});
    }
    return f;
  }
  // The gradient of x from that of y.
  static Form backward(const Problem& p) {
    Form f{p.out, p.in, {}, {1, 1, 1}, {}, {1, 1, 1}, {}, {}};
    std::array<std::vector<std::vector<Phase::At>>, 3> lists;
    for (size_t d = 0; d < 3; ++d) {
      int64_t low = INT64_MAX, high = INT64_MIN, most = 0;
      for (int64_t r = 0; r < std::min(p.stride[d], p.x[d]); ++r) {
        auto& list = lists[d].emplace_back();
        for (int64_t t = p.taps[d] - 1; t >= 0; --t) {
          const int64_t at = r + p.padding[d] - t * p.dilation[d];
          if (at % p.stride[d] == 0) list.push_back({t, at / p.stride[d]});
        }
        if (list.empty()) continue;
        low = std::min(low, list.front().place), high = std::max(high, list.back().place);
        most = std::max(most, ceil_div(p.x[d] - r, p.stride[d]));
      }
      if (low > high) low = high = 0;
      for (auto& list : lists[d])
        for (auto& at : list) at.place -= low;
      f.origin[d] = low;
      f.span[d] = high - low + 1;
      f.size[d] = std::max<int64_t>(most - 1, 0) + f.span[d];
    }
    for (int64_t a = 0; a < std::ssize(lists[0]); ++a)
      for (int64_t b = 0; b < std::ssize(lists[1]); ++b)
        for (int64_t e = 0; e < std::ssize(lists[2]); ++e) {
          Phase& ph = f.phases.emplace_back();
          ph.first = {a, b, e}, ph.pitch = p.stride;
          for (size_t d = 0; d < 3; ++d) {
            ph.count[d] = ceil_div(p.x[d] - ph.first[d], p.stride[d]);
            ph.taps[d] = lists[d][static_cast<size_t>(ph.first[d])];
          }
        }
    return f;
  }
};

// A part of the padded source along one dimension, in memory [depth, height, width, channels].
struct Piece {
  size_t cut = 2;     // the dimension along which it is one of `count`
  int64_t lines = 1;  // results of the dimension that one makes
  int64_t count = 1;
  Space size{};
  int64_t elements = 0;

  // Of results [.., most, ..], so that one takes at most `bytes`, and there are at least `wanted`.
  Piece(const Form& f, const Space& most, size_t item, int64_t bytes, int64_t wanted)
      : size(f.size) {
    while (cut > 0 && most[cut - 1] > 1) --cut;
    const int64_t all = product(size) * f.sources * static_cast<int64_t>(item);
    // What overlaps is copied twice: a piece is not less than that.
    const int64_t least = std::max<int64_t>(1, f.span[cut] / f.step[cut]);
    count = std::clamp<int64_t>(std::max(ceil_div(all, bytes), wanted), 1,
                                std::max<int64_t>(1, most[cut] / least));
    lines = std::max<int64_t>(1, ceil_div(most[cut], count));
    count = ceil_div(most[cut], lines);
    size[cut] = std::min(size[cut], (lines - 1) * f.step[cut] + f.span[cut]);
    elements = product(size) * f.sources;
  }
  int64_t first(int64_t i) const { return i * lines; }
  // The steps of a phase's taps: those side by side are one.
  void steps(const Form& f, Phase& ph, int64_t width, int64_t* packed) const {
    const auto& last = ph.taps[2];
    const auto n = static_cast<int64_t>(last.size());
    const bool dense = n > 0 && last.back().place - last.front().place == n - 1;
    const int64_t along = dense ? n * f.sources : f.sources;
    int64_t cuts = ceil_div(along, kSteps);
    while (cuts > 0 && along % cuts != 0) ++cuts;
    if (cuts > 0 && along / cuts < kSteps / 4) cuts = 1;
    ph.k = cuts > 0 ? along / cuts : 0;
    for (const auto& a : ph.taps[0])
      for (const auto& b : ph.taps[1])
        for (int64_t e = 0; e < (dense ? 1 : n); ++e)
          for (int64_t i = 0; i < cuts; ++i) {
            ph.a_at.push_back(
                ((a.place * size[1] + b.place) * size[2] + last[static_cast<size_t>(e)].place) *
                    f.sources +
                i * ph.k);
            ph.b_at.push_back(*packed);
            *packed += ph.k * width;
          }
  }
};

// Piece `i` of the channels of one group of one item: zeros where it is outside.
template <class T>
void fill(const Form& f, const Piece& piece, int64_t i, const T* from, const Lay& lay,
          const Space& sizes, T* to) {
  Space begin{};
  begin[piece.cut] = piece.first(i) * f.step[piece.cut];
  const int64_t c = f.sources, width = piece.size[2];
  const auto at = [&](size_t d, int64_t q) { return (begin[d] + q) * f.scale[d] + f.origin[d]; };
  // Those of a line that are inside: [low, high).
  const int64_t start = at(2, 0), scale = f.scale[2];
  const int64_t low = std::clamp<int64_t>(start < 0 ? ceil_div(-start, scale) : 0, 0, width);
  const int64_t high =
      std::clamp<int64_t>(sizes[2] > start ? ceil_div(sizes[2] - start, scale) : 0, low, width);
  for (int64_t z = 0; z < piece.size[0]; ++z)
    for (int64_t y = 0; y < piece.size[1]; ++y, to += width * c) {
      const int64_t v = at(0, z), u = at(1, y);
      if (v < 0 || v >= sizes[0] || u < 0 || u >= sizes[1]) {
        std::fill_n(to, width * c, T(0));
        continue;
      }
      std::fill_n(to, low * c, T(0));
      if (high > low)
        gather_box(to + low * c,
                   from + v * lay.at[0] + u * lay.at[1] + (start + low * scale) * lay.at[2],
                   sizeof(T), high - low, c, scale * lay.at[2], lay.channel);
      std::fill_n(to + high * c, (width - high) * c, T(0));
    }
}

int64_t tap_at(const Problem& p, const Lay& lay, int64_t t) {
  return t / p.taps[2] / p.taps[1] * lay.at[0] + t / p.taps[2] % p.taps[1] * lay.at[1] +
         t % p.taps[2] * lay.at[2];
}

// Weights of all groups as [panel of results, phase, tap, source channel, result of the panel].
template <class T>
class Packing {
 public:
  Packing(const Form& f, const Problem& p, const T* w, const Lay& lay, bool forward, int64_t nr)
      : f_(f),
        p_(p),
        w_(w),
        lay_(lay),
        nr_(nr),
        result_(forward ? lay.outer : lay.channel),
        source_(forward ? lay.channel : lay.outer),
        panels_(ceil_div(f.results, nr)),
        block_(std::max<int64_t>(1, kBlockBytes / (p.ntaps * nr * int64_t{sizeof(T)}))) {
    if (block_ > 8) block_ -= block_ % 8;  // what micro::pack takes at a time
    for (const Phase& ph : f.phases)
      for (const auto& a : ph.taps[0])
        for (const auto& b : ph.taps[1])
          for (const auto& e : ph.taps[2])
            taps_.push_back((a.tap * p.taps[1] + b.tap) * p.taps[2] + e.tap);
  }
  int64_t count() const { return p_.groups * panels_ * panel(); }
  int64_t panel() const { return std::ssize(taps_) * f_.sources * nr_; }
  int64_t room() const { return direct() ? 0 : block_ * p_.ntaps * nr_; }

  void all(T* to) const {
    parallel_with(p_.groups * panels_, 1, static_cast<size_t>(room()) * sizeof(T),
                  [&](int64_t begin, int64_t end, char* own) {
                    for (int64_t u = begin; u < end; ++u)
                      one(u, to + u * panel(), reinterpret_cast<T*>(own));
                  });
  }
  // Panel `u` of all groups'; `some` has `room` elements.
  void one(int64_t u, T* out, T* some) const {
    const int64_t r0 = u % panels_ * nr_, s = f_.sources, step = step_of(p_.taps, lay_.at);
    const int rows = static_cast<int>(std::min(nr_, f_.results - r0)), nr = static_cast<int>(nr_);
    const T* from = w_ + u / panels_ * p_.out * lay_.outer + r0 * result_;
    if (direct()) {
      for (const int64_t tap : taps_) {
        micro::pack(from + tap_at(p_, lay_, tap), result_, source_, rows, s, nr, out);
        out += s * nr;
      }
      return;
    }
    const bool flat = step == 1 && source_ == p_.ntaps;  // taps and channels follow each other
    for (int64_t c0 = 0; c0 < s; c0 += block_) {
      const int64_t channels = std::min(block_, s - c0);
      for (int64_t c = 0; c < (flat ? 1 : channels); ++c)
        for (int64_t t = 0; t < (step != 0 ? 1 : p_.ntaps); ++t)
          micro::pack(from + (c0 + c) * source_ + tap_at(p_, lay_, t), result_, step, rows,
                      flat        ? channels * p_.ntaps
                      : step != 0 ? p_.ntaps
                                  : 1,
                      nr, some + (c * p_.ntaps + t) * nr);
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t t = 0; t < std::ssize(taps_); ++t)
          for (int64_t i = 0; i < nr; i += kLine)
            std::copy_n(some + (c * p_.ntaps + taps_[static_cast<size_t>(t)]) * nr + i, kLine,
                        out + (t * s + c0 + c) * nr + i);
    }
  }

 private:
  // Channels of either side lie side by side: a tap of them is a matrix as it is.
  bool direct() const { return result_ == 1 || source_ == 1; }

  static constexpr int64_t kLine = 64 / sizeof(T);

  const Form& f_;
  const Problem& p_;
  const T* w_;
  const Lay& lay_;
  int64_t nr_, result_, source_, panels_;
  int64_t
      block_;  // source channels that are transposed at once, with all taps: they stay in the L1
  std::vector<int64_t> taps_;  // in the order of the steps
};

// What the order of packed weights follows from.
template <class T>
KeptKey key_of(const Problem& p, const T* w, const Lay& lay, bool forward) {
  KeptKey key{forward ? kTapsForm : kTapsInputForm,
              sizeof(T),
              address(w),
              p.groups,
              p.in,
              p.out,
              lay.outer,
              lay.channel};
  for (size_t d = 0; d < 3; ++d) {
    key.insert(key.end(), {p.taps[d], lay.at[d]});
    if (!forward)
      key.insert(key.end(),
                 {p.stride[d], p.padding[d], p.dilation[d], std::min(p.stride[d], p.x[d])});
  }
  return key;
}

// Some lines of results of a phase, `cols` channels wide.
template <class T>
struct Lines {
  const micro::Kernels<T>& kernels;
  const Form& f;
  const Piece& piece;
  const Lay& lay;
  const T* bias;
  T* buffer;
  bool ahead;

  static int64_t count(int64_t width, int64_t pixels) {
    return std::max<int64_t>(1, pixels / width);
  }

  // Results [from, to) of the height, of a depth: `source` is what the first of them read.
  void run(const Phase& ph, int64_t lines, int64_t width, const T* source, const T* packed,
           int64_t cols, T* to) const {
    const int64_t pixel = ph.pitch[2] * lay.at[2], line = ph.pitch[1] * lay.at[1];
    const bool direct = lay.channel == 1;
    T* c = direct ? to : buffer;
    const int64_t row = direct ? pixel : cols, c_line = direct ? line : width * cols;
    const int64_t steps = ph.k == 0 ? 0 : std::ssize(ph.a_at);
    if (steps == 0)
      for (int64_t y = 0; y < lines; ++y)
        for (int64_t q = 0; q < width; ++q)
          for (int64_t i = 0; i < cols; ++i) c[y * c_line + q * row + i] = bias ? bias[i] : T(0);
    const micro::Split tiles(width, kernels.mr);
    const int64_t step = f.step[2] * f.sources;
    const int64_t down = f.step[1] * piece.size[2] * f.sources;
    const int64_t block = steps == 0 ? 0 : std::max<int64_t>(1, kSteps / ph.k);
    // Beside each tile a part of the weights of the next steps is fetched.
    const int64_t all = lines * tiles.count, bytes = block * ph.k * kernels.nr * int64_t{sizeof(T)};
    const int64_t ahead_bytes = steps == 0 ? 0 : ceil_div(bytes, all * block * ph.k);
    for (int64_t s = 0; s < steps; s += block) {
      const char* const next =
          reinterpret_cast<const char*>(packed + ph.b_at[static_cast<size_t>(s)]) + bytes;
      for (int64_t y = 0; y < lines; ++y)
        for (int64_t i = 0; i < tiles.count; ++i) {
          const int64_t q = tiles.at(i), number = y * tiles.count + i;
          kernels.run_in_steps(static_cast<int>(tiles.at(i + 1) - q),
                               {.k = ph.k,
                                .a = source + y * down + q * step,
                                .a_row = step,
                                .a_col = 1,
                                .b = packed,
                                .b_row = kernels.nr,
                                .c = c + y * c_line + q * row,
                                .c_row = row,
                                .cols = static_cast<int>(cols),
                                .accumulate = s > 0,
                                .bias = s + block >= steps ? bias : nullptr,
                                .a_at = ph.a_at.data() + s,
                                .b_at = ph.b_at.data() + s,
                                .steps = std::min(block, steps - s),
                                .ahead = ahead ? next + bytes * number / all : nullptr,
                                .ahead_bytes = ahead_bytes});
        }
    }
    if (direct) return;
    const int64_t joined = line == width * pixel ? lines : 1;  // lines that follow each other
    for (int64_t y = 0; y < lines; y += joined)
      scatter_box(to + y * line, buffer + y * c_line, sizeof(T), joined * width, cols, pixel,
                  lay.channel, /*stream=*/false);
  }
};

template <class T>
void results(const Problem& p, Form f, const T* from, const Lay& source, const Space& sizes,
             const T* weight, const Lay& w, bool forward, const T* bias, T* to, const Lay& lay,
             const KernelArgs* call) {
  const micro::Kernels<T>& kernels = micro::kernels<T>();
  const int64_t nr = kernels.nr, panels = ceil_div(f.results, nr);
  Space most{};
  for (const Phase& ph : f.phases)
    for (size_t d = 0; d < 3; ++d) most[d] = std::max(most[d], ph.count[d]);
  const auto item = static_cast<int64_t>(sizeof(T));
  // More weights than pixels: a thread has all pixels, and reads weights of its own once.
  const bool few = panels >= kUnits && product(f.size) * f.sources * item <= kPieceBytes &&
                   p.ntaps * f.results > product(f.size);
  const Piece piece(f, most, sizeof(T), kPieceBytes, few ? 1 : ceil_div(kUnits, p.n * p.groups));
  int64_t panel = 0;
  for (Phase& ph : f.phases) piece.steps(f, ph, nr, &panel);
  // Items that are worked on together read weights of many bytes once.
  const bool heavy = panels * panel * item > kPieceBytes / 2;
  const int64_t fit = std::max<int64_t>(1, kPieceBytes / (piece.elements * item));
  const int64_t batches = heavy && piece.count == 1 ? ceil_div(p.n, fit) : p.n;
  const int64_t together = ceil_div(p.n, batches);
  const int64_t pieces = batches * p.groups * piece.count;
  const int64_t parts = std::min(panels, ceil_div(kUnits, pieces));
  const int64_t pixels = few ? kManyTogether : kTogether;

  const Packing<T> packing(f, p, weight, w, forward, nr);
  const auto held = kept(key_of(p, weight, w, forward), static_cast<size_t>(packing.count() * item),
                         [&](char* to) { packing.all(reinterpret_cast<T*>(to)); });
  const T* packed = reinterpret_cast<const T*>(held.get());
  // Where nobody else reads a panel it is made by who does.
  const bool own_panels = !packed && batches * piece.count == 1;
  const Scratch<T> made(packed || own_panels ? 0 : packing.count());
  if (!packed && !own_panels) packing.all(made.get()), packed = made.get();

  std::optional<Done> done;  // of a result; a gradient's phases are its pixels in several parts
  if (call) done.emplace(*call, p, lay);
  const int64_t inner = product(most) / std::max<int64_t>(most[piece.cut], 1);
  const int64_t results = Lines<T>::count(most[2], pixels) * most[2] * nr;
  const size_t room = Parts::bytes<T>(together * piece.elements) + Parts::bytes<T>(results) +
                      (own_panels ? Parts::bytes<T>(panel) + Parts::bytes<T>(packing.room()) : 0);
  parallel_with(pieces * parts, 1, room, [&](int64_t begin, int64_t end, char* own) {
    Parts memory(own);
    T* const sources = memory.take<T>(together * piece.elements);
    T* const buffer = memory.take<T>(results);
    T* const own_panel = own_panels ? memory.take<T>(panel) : nullptr;
    T* const some = own_panels ? memory.take<T>(packing.room()) : nullptr;
    const auto lines = [&](const T* padded, int64_t i, int64_t g, int64_t which, const T* weights,
                           T* out) {
      const T* const own_bias = bias ? bias + g * f.results + which * nr : nullptr;
      const Lines<T> of{kernels, f, piece, lay, own_bias, buffer, few};
      const int64_t cols = std::min(nr, f.results - which * nr);
      out += which * nr * lay.channel;
      for (const Phase& ph : f.phases) {
        Space low{}, high = ph.count;
        low[piece.cut] = std::min(piece.first(i), high[piece.cut]);
        high[piece.cut] = std::min(piece.first(i + 1), high[piece.cut]);
        const int64_t x = low[2], width = high[2] - low[2];
        if (width <= 0) continue;
        const int64_t group = Lines<T>::count(width, pixels);
        for (int64_t z = low[0]; z < high[0]; ++z)
          for (int64_t y = low[1]; y < high[1]; y += group) {
            const int64_t at = (z - low[0]) * f.step[0] * piece.size[1] + (y - low[1]) * f.step[1];
            of.run(ph, std::min(group, high[1] - y), width, padded + at * piece.size[2] * f.sources,
                   weights, cols,
                   out + (ph.first[0] + z * ph.pitch[0]) * lay.at[0] +
                       (ph.first[1] + y * ph.pitch[1]) * lay.at[1] +
                       (ph.first[2] + x * ph.pitch[2]) * lay.at[2]);
          }
      }
    };
    int64_t filled = -1;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t part = u % parts, which = u / parts;
      const int64_t i = which % piece.count, g = which / piece.count % p.groups;
      const int64_t batch = which / piece.count / p.groups;
      const int64_t n0 = p.n * batch / batches, n1 = p.n * (batch + 1) / batches;
      if (which != filled)
        for (int64_t n = n0; n < n1; ++n)
          fill(f, piece, i, from + n * source.outer + g * f.sources * source.channel, source, sizes,
               sources + (n - n0) * piece.elements);
      filled = which;
      for (int64_t q = panels * part / parts; q < panels * (part + 1) / parts; ++q) {
        const int64_t number = g * panels + q;
        if (own_panels) packing.one(number, own_panel, some);
        const T* const weights = own_panels ? own_panel : packed + number * panel;
        for (int64_t n = n0; n < n1; ++n)
          lines(sources + (n - n0) * piece.elements, i, g, q, weights,
                to + n * lay.outer + g * f.results * lay.channel);
      }
      const int64_t r0 = panels * part / parts * nr;
      const int64_t r1 = std::min(panels * (part + 1) / parts * nr, f.results);
      const int64_t first = piece.first(i), last = std::min(piece.first(i + 1), most[piece.cut]);
      for (int64_t n = n0; done && n < n1; ++n)
        (*done)(n, g * f.results + r0, r1 - r0, first * inner, (last - first) * inner);
    }
  });
}

// The sums of `chunks` parts of the pixels, [chunk, result channel, tap, source channel].
template <class T>
void weight_sums(const Problem& p, const T* from, const Lay& source, const T* gradient,
                 const Lay& dy, int64_t chunks, int64_t parts, T* sums) {
  const micro::Kernels<T>& kernels = micro::kernels<T>();
  const Form f = Form::forward(p, source.channel != 1);
  const auto item = static_cast<int64_t>(sizeof(T));
  const int64_t c = f.sources, k = p.ntaps * c, outs = p.out * p.groups;
  const int64_t high = ceil_div(p.out, parts);
  // x and the gradient of the same pixels are in cache together.
  const int64_t ours = product(f.size) * c, theirs = p.pixels * high;
  const Piece piece(f, p.y, sizeof(T), std::max<int64_t>(1, kPieceBytes * ours / (ours + theirs)),
                    ceil_div(chunks, p.n));
  Piece lines = piece;  // of the gradient
  lines.size = p.y;
  lines.size[piece.cut] = piece.lines;
  const int64_t pixels = product(lines.size), both = piece.elements + pixels * high;
  const int64_t all = p.n * piece.count;
  const int64_t together =
      piece.cut == 2 ? 1 : std::clamp<int64_t>(kPieceBytes / (both * item), 1, all);
  // Taps of a line that lie side by side are columns of one product.
  const bool dense = p.dilation[2] == 1 || p.taps[2] == 1;
  const int64_t across = dense ? 1 : p.taps[2], cols = k / (p.taps[0] * p.taps[1] * across);
  const auto room = static_cast<size_t>(together * both * item);
  parallel_with(chunks * p.groups * parts, 1, room, [&](int64_t begin, int64_t end, char* own) {
    T* const xs = reinterpret_cast<T*>(own);
    T* const gs = xs + together * piece.elements;
    std::vector<int64_t> a_at, b_at;
    for (int64_t u = begin; u < end; ++u) {
      const int64_t o0 = u % parts * high, rows = std::min(high, p.out - o0);
      const int64_t g = u / parts % p.groups, chunk = u / parts / p.groups;
      if (rows <= 0) continue;
      T* const sum = sums + (chunk * outs + g * p.out + o0) * k;
      std::fill_n(sum, rows * k, T(0));
      const Form plain{rows, 0, {}, {1, 1, 1}, p.y, {1, 1, 1}, {1, 1, 1}, {}};
      const int64_t stop = all * (chunk + 1) / chunks;
      for (int64_t j = all * chunk / chunks; j < stop; j += together) {
        a_at.clear(), b_at.clear();
        int64_t width = 0;
        for (int64_t i = j; i < std::min(j + together, stop); ++i) {
          const int64_t n = i / piece.count, which = i % piece.count;
          T* const x = xs + (i - j) * piece.elements;
          T* const d = gs + (i - j) * pixels * rows;
          fill(f, piece, which, from + n * source.outer + g * c * source.channel, source, p.x, x);
          fill(plain, lines, which, gradient + n * dy.outer + (g * p.out + o0) * dy.channel, dy,
               p.y, d);
          Space inside = lines.size;
          inside[piece.cut] = std::min(piece.lines, p.y[piece.cut] - piece.first(which));
          width = inside[2];
          for (int64_t z = 0; z < inside[0]; ++z)
            for (int64_t y = 0; y < inside[1]; ++y) {
              a_at.push_back(d - gs + (z * lines.size[1] + y) * lines.size[2] * rows);
              b_at.push_back(x - xs +
                             (z * f.step[0] * piece.size[1] + y * f.step[1]) * piece.size[2] * c);
            }
        }
        const micro::Split tiles(rows, kernels.mr);
        int64_t column = 0;
        for (int64_t a = 0; a < p.taps[0]; ++a)
          for (int64_t b = 0; b < p.taps[1]; ++b)
            for (int64_t e = 0; e < across; ++e, column += cols) {
              const int64_t line = a * p.dilation[0] * piece.size[1] + b * p.dilation[1];
              const T* x = xs + (line * piece.size[2] + e * p.dilation[2]) * c;
              for (int64_t at = 0; at < cols; at += kernels.nr)
                for (int64_t i = 0; i < tiles.count; ++i) {
                  const int64_t o = tiles.at(i);
                  kernels.run_in_steps(
                      static_cast<int>(tiles.at(i + 1) - o),
                      {.k = width,
                       .a = gs + o,
                       .a_row = 1,
                       .a_col = rows,
                       .b = x + at,
                       .b_row = f.step[2] * c,
                       .c = sum + o * k + column + at,
                       .c_row = k,
                       .cols = static_cast<int>(std::min<int64_t>(kernels.nr, cols - at)),
                       .accumulate = true,
                       .bias = nullptr,
                       .a_at = a_at.data(),
                       .b_at = b_at.data(),
                       .steps = std::ssize(a_at)});
                }
            }
      }
    }
  });
}

}  // namespace

bool taps(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y, const Lay& weight) {
  constexpr auto at = kernels::tensors<kernels::Conv>;
  if (p.out < kFewResults || p.y[2] < kShortLine) return false;
  return dispatch_wide(a.dtype(at.x), [&]<class T>() {
    results(p, Form::forward(p, x.channel != 1), a.data<T>(at.x), x, p.x, a.data<T>(at.weight),
            weight, true, a.has(at.bias) ? a.data<T>(at.bias) : nullptr, a.data<T>(at.y), y, &a);
  });
}

bool taps_input(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y,
                const Lay& weight) {
  constexpr auto at = kernels::tensors<kernels::ConvInput>;
  int64_t phases = 1;
  for (size_t d = 0; d < 3; ++d) phases *= std::min({p.stride[d], p.x[d], kMaxPhases + 1});
  if (p.in < kFewResults || p.x[2] / p.stride[2] < kShortLine || phases > kMaxPhases) return false;
  return dispatch_wide(a.dtype(at.dx), [&]<class T>() {
    results<T>(p, Form::backward(p), a.data<T>(at.dy), y, p.y, a.data<T>(at.weight), weight, false,
               nullptr, a.data<T>(at.dx), x, nullptr);
  });
}

bool taps_weight(const KernelArgs& a, const Problem& p, const Lay& x, const Lay& y, int64_t chunks,
                 int64_t parts, void* sums) {
  constexpr auto at = kernels::tensors<kernels::ConvWeight>;
  if (p.in * p.taps[2] < kFewResults || p.y[2] < kShortLine) return false;
  return dispatch_wide(a.dtype(at.x), [&]<class T>() {
    weight_sums(p, a.data<T>(at.x), x, a.data<T>(at.dy), y, chunks, parts, static_cast<T*>(sums));
  });
}

}  // namespace pyflame::cpu
