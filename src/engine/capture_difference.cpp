// What of a trial is not as it was captured.
#include <algorithm>
#include <cstring>

#include "engine/capture.h"

namespace pyflame::engine {
namespace {

bool same_scalar(const pf_scalar& a, const pf_scalar& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

std::string text_of(const pf_scalar& s) {
  std::string r = std::to_string(s.f);
  while (r.find('.') != std::string::npos && (r.back() == '0' || r.back() == '.')) {
    const bool point = r.back() == '.';
    r.pop_back();
    if (point) break;
  }
  return r;
}

}  // namespace

Capture::Difference Capture::difference(const Capture& trial, int stage) const {
  const auto at_stage = static_cast<size_t>(stage);
  const std::vector<Part>&ours = stages_.at(at_stage).parts,
        &theirs = trial.stages_.at(at_stage).parts;
  const size_t first = ours.front().first, n = ours.back().last - first,
               first_of_trial = theirs.front().first;
  if (const size_t made = theirs.back().last - first_of_trial; n != made)
    return {(stage ? "its backward pass launches " : "it launches ") + std::to_string(made) +
            " programs and kernels, and launched " + std::to_string(n)};
  const auto at = [&](int32_t place) {
    const std::string& text = trial.text_of_place(place);
    return text.empty() ? text : " (at " + text + ")";
  };
  const auto of_scalars = [&](const char* name, std::span<const pf_scalar> a,
                              std::span<const pf_scalar> b, int32_t place,
                              std::span<const int32_t> places) -> std::string {
    for (size_t i = 0; i < a.size(); ++i)
      if (!same_scalar(a[i], b[i]))
        return std::string("a number of '") + name + "' is " + text_of(b[i]) + ", and was " +
               text_of(a[i]) + at(i < places.size() ? places[i] : place);
    return "";
  };
  const auto same_program = [](const CapturedProgram& a, const CapturedProgram& b) {
    if (!a.program || !b.program) return !a.program == !b.program;
    const ProgramKey &x = a.program->key, &y = b.program->key;
    return x.size() == y.size() && std::memcmp(&x, &y, x.size()) == 0 && a.dims == b.dims;
  };
  const auto same_tensors = [](const CapturedLaunch& x, const CapturedLaunch& y) {
    if (x.noted_tensors() != y.noted_tensors()) return false;
    for (size_t i = 0; i < x.noted_tensors(); ++i) {
      const pf_tensor &a = x.noted(i), &b = y.noted(i);
      if (a.ndim != b.ndim || a.dtype != b.dtype ||
          !std::equal(a.shape, a.shape + a.ndim, b.shape) ||
          !std::equal(a.strides, a.strides + a.ndim, b.strides))
        return false;
    }
    return true;
  };
  Difference numbers;
  for (size_t i = 0; i < n; ++i) {
    const CapturedLaunch &a = *launches_[first + i], &b = *trial.launches_[first_of_trial + i];
    const char* name = b.name();
    if (a.kernel != b.kernel || a.together != b.together || a.bytes.size() != b.bytes.size() ||
        a.attrs.size() != b.attrs.size() || a.serials.size() != b.serials.size() ||
        !same_program(a.before, b.before) || !same_program(a.after, b.after) || !same_tensors(a, b))
      return {std::string("it launches '") + name + "', or over other shapes, where it launched '" +
              a.name() + "'" + at(b.place)};
    for (size_t j = 0; j < a.serials.size(); ++j) {
      const Slot& s = slots_[static_cast<size_t>(by_serial_.at(a.serials[j]))];
      if (s.kind == Kind::Outer && a.serials[j] != b.serials[j])
        return {std::string("'") + name + "' reads or writes another tensor from outside" +
                at(b.place)};
    }
    if (!numbers.what.empty()) continue;
    // Of random kernels seed and offset are the generator's, of cells all is the program's.
    const size_t known = a.live ? a.attrs.size() : a.kernel && a.kernel->random ? 2 : 0;
    numbers.what = of_scalars(name, std::span(a.attrs).subspan(known),
                              std::span(b.attrs).subspan(known), b.place, {});
    for (const auto part : {&CapturedLaunch::before, &CapturedLaunch::after})
      if (numbers.what.empty())
        numbers.what = of_scalars(name, (a.*part).scalars, (b.*part).scalars, b.place,
                                  (b.*part).scalar_places);
    if (numbers.what.empty() && a.bytes != b.bytes)
      numbers.what = "a tensor is made of other numbers" + at(b.place);
    numbers.numbers = !numbers.what.empty();
  }
  return numbers;
}

}  // namespace pyflame::engine
