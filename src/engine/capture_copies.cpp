// Casts of weights that the optimizer of a captured step makes: at its end the new weight is at
// hand, so its kernel writes that in 16 bits, too, where the next run reads it. The casts
// themselves run where somebody else has written a weight, as constants do.
#include <algorithm>
#include <unordered_map>

#include "engine/capture.h"
#include "table/kernels/optim.h"
#include "table/rows.h"

namespace pyflame::engine {
namespace {

// Whether a launch can write copies of the parameters that it steps.
bool may_copy(const CapturedLaunch& l) {
  if (!l.live || !l.runs() || l.kernel->weights < 0) return false;
  return l.attrs[static_cast<size_t>(l.kernel->weights)].i ==
             static_cast<int64_t>(kernels::Weights::None) &&
         std::all_of(l.tensors.begin(), l.tensors.end(), [](const pf_tensor& t) {
           return static_cast<DType>(t.dtype) == DType::Float32;
         });
}

// Whether a launch does nothing but cast float32 tensors to one dtype of 16 bits, element by
// element.
bool casts_alone(const CapturedLaunch& l) {
  if (!l.runs() || l.kernel || !l.before.program) return false;
  const ProgramKey& key = l.before.program->key;
  const auto type = static_cast<DType>(key.nodes[0].dtype);
  if (type != DType::BFloat16 && type != DType::Float16) return false;
  for (int i = 0; i < key.nnodes; ++i) {
    const pf_node& n = key.nodes[i];
    if (n.op != table::op::cast || n.dtype != key.nodes[0].dtype || n.store < 0 ||
        n.in[0].kind != PF_REF_INPUT ||
        static_cast<DType>(key.input_dtypes[n.in[0].index]) != DType::Float32)
      return false;
  }
  const auto contiguous = [](const pf_operand& o) { return o.contiguous != 0; };
  return std::all_of(l.before.in.begin(), l.before.in.end(), contiguous) &&
         std::all_of(l.before.out.begin(), l.before.out.end(), contiguous);
}

const Access& access_at(const CapturedLaunch& l, void* const* where) {
  return *std::find_if(l.accesses.begin(), l.accesses.end(),
                       [&](const Access& a) { return a.where == where; });
}

}  // namespace

const pf_tensor& CapturedLaunch::noted(size_t i) const {
  return tensors[static_cast<int>(i) < outputs - copies ? i : i + static_cast<size_t>(copies)];
}

// Which casts the steps of a capture can make. Readers and writers are those before any is made so.
class Capture::Copies {
 public:
  struct Stepped {
    size_t launch, parameter;
  };
  struct Copy {
    Stepped by;
    int slot;
    void* data;
  };

  // Of `below` bytes each.
  Copies(const Capture& c, size_t below) : c_(c), below_(below), writes_(c.writers()) {
    last_.resize(c.slots_.size());
    for (size_t i = 0; i < c.launches_.size(); ++i) {
      const CapturedLaunch& l = *c.launches_[i];
      if (!l.runs()) continue;
      for (const Access& a : l.accesses) last_[static_cast<size_t>(a.slot)] = i;
      if (may_copy(l)) find_stepped(l, i);
    }
  }

  bool any() const { return !stepped_.empty(); }

  // What steps write in place of the launch at `at`; none unless they can write all that it does.
  std::vector<Copy> in_place_of(size_t at) const {
    const CapturedLaunch& l = *c_.launches_[at];
    const ProgramKey& key = l.before.program->key;
    std::vector<Copy> made;
    for (int k = 0; k < key.nnodes; ++k) {
      const pf_operand& in = l.before.in[key.nodes[k].in[0].index];
      const pf_operand& out = l.before.out[static_cast<size_t>(key.nodes[k].store)];
      const Access &from = access_at(l, &in.data), &to = access_at(l, &out.data);
      const auto found = stepped_.find(from.slot);
      if (found == stepped_.end() || from.offset != 0 ||
          slot(from).nbytes != static_cast<size_t>(l.before.launch.numel) * sizeof(float) ||
          !fits(to, at, found->second, key.nodes[k].dtype))
        return {};
      const Stepped& by = found->second;
      for (const Copy& other : made)
        if (other.by.launch == by.launch && other.by.parameter == by.parameter) return {};
      made.push_back({by, to.slot, out.data});
    }
    return made;
  }

 private:
  const Slot& slot(const Access& a) const { return c_.slots_[static_cast<size_t>(a.slot)]; }

  // Parameters that this step alone writes, all of each.
  void find_stepped(const CapturedLaunch& l, size_t at) {
    const size_t n = l.tensors.size() - static_cast<size_t>(l.outputs);  // what it reads: gradients
    for (size_t k = 0; k < n; ++k) {
      if (!l.tensors[k].data) continue;
      const Access& a = access_at(l, &l.tensors[k].data);
      if (a.whole && a.offset == 0 && slot(a).kind == Kind::Outer && only_ours(*slot(a).storage) &&
          writes_[static_cast<size_t>(a.slot)] == 1)
        stepped_.emplace(a.slot, Stepped{at, k});
    }
  }

  // Whether a step may write what the launch at `at` writes.
  bool fits(const Access& to, size_t at, const Stepped& by, uint8_t dtype) const {
    if (!c_.sole(to, writes_) || slot(to).nbytes >= below_) return false;
    if (at > by.launch || last_[static_cast<size_t>(to.slot)] > by.launch) return false;
    if (seen_between_parts(slot(to), by.launch)) return false;
    const CapturedLaunch& step = *c_.launches_[by.launch];
    const auto first = static_cast<size_t>(step.outputs - step.copies);
    return !step.copies ||
           (step.tensors[first].dtype == dtype && !step.tensors[first + by.parameter].data);
  }

  // Whether somebody has it when the caller does something between two parts behind a launch.
  bool seen_between_parts(const Slot& s, size_t launch) const {
    for (const Stage& stage : c_.stages_)
      for (size_t k = 0; k + 1 < stage.parts.size(); ++k)
        if (const size_t at = stage.parts[k].last; at > launch && s.died_at >= static_cast<int>(at))
          return true;
    return false;
  }

  const Capture& c_;
  size_t below_;
  std::vector<int> writes_;
  std::vector<size_t> last_;                  // launch that uses a slot
  std::unordered_map<int, Stepped> stepped_;  // by slot
};

size_t Capture::find_copies(size_t below) {
  const Copies copies(*this, below);
  if (!copies.any()) return 0;
  size_t largest = 0;
  for (Stage& stage : stages_)
    for (Part& part : stage.parts)
      for (size_t i = part.first; i < part.last; ++i) {
        CapturedLaunch& l = *launches_[i];
        if (!casts_alone(l)) continue;
        const std::vector<Copies::Copy> made = copies.in_place_of(i);
        if (made.empty()) continue;
        l.fate = CapturedLaunch::Fate::Constant;
        ++outcome_.constant;
        ++outcome_.copied;
        for (const Copies::Copy& m : made) {
          largest = std::max(largest, slots_[static_cast<size_t>(m.slot)].nbytes);
          CapturedLaunch& step = *launches_[m.by.launch];
          if (!step.copies) make_room_for_copies(step, l.before.program->key.nodes[0].dtype);
          pf_tensor& to =
              step.tensors[static_cast<size_t>(step.outputs - step.copies) + m.by.parameter];
          to.data = m.data;
          step.accesses.push_back({m.slot, false, true, true, &to.data, 0, m.slot});
          const Access& weight = access_at(step, &step.tensors[m.by.parameter].data);
          part.roots.push_back({weight.slot, 0, nullptr});
        }
      }
  return largest;
}

// change(tensors) says where a tensor goes; what knows the address of one follows.
template <class F>
void Capture::change_tensors(CapturedLaunch& l, F change) {
  std::vector<pf_tensor> fresh = l.tensors;
  const auto goes = change(fresh);
  for (Access& a : l.accesses) {
    const auto at = reinterpret_cast<char*>(a.where) - reinterpret_cast<char*>(l.tensors.data());
    void** to = &fresh[goes(static_cast<size_t>(at) / sizeof(pf_tensor))].data;
    for (Site& s : slots_[static_cast<size_t>(a.noted)].sites)
      if (s.where == a.where) s.where = to;
    a.where = to;
  }
  l.tensors = std::move(fresh);
}

// Behind its outputs; each undefined, until one is found.
void Capture::make_room_for_copies(CapturedLaunch& l, uint8_t dtype) {
  const auto outputs = static_cast<size_t>(l.outputs), n = l.tensors.size() - outputs;
  std::vector<pf_tensor> copies(l.tensors.begin(),
                                l.tensors.begin() + static_cast<std::ptrdiff_t>(n));
  for (pf_tensor& t : copies) t.data = nullptr, t.dtype = dtype;
  change_tensors(l, [&](std::vector<pf_tensor>& t) {
    t.insert(t.begin() + l.outputs, copies.begin(), copies.end());
    return [=](size_t i) { return i < outputs ? i : i + n; };
  });
  l.outputs += static_cast<int>(n);
  l.copies = static_cast<int>(n);
}

void Capture::forget_copies() {
  for (const auto& l : launches_) {
    if (!l->copies) continue;
    const auto first = static_cast<size_t>(l->outputs - l->copies),
               n = static_cast<size_t>(l->copies);
    std::erase_if(l->accesses, [&](const Access& a) {
      return a.where >= &l->tensors[first].data && a.where <= &l->tensors[first + n - 1].data;
    });
    change_tensors(*l, [&](std::vector<pf_tensor>& t) {
      t.erase(t.begin() + static_cast<std::ptrdiff_t>(first),
              t.begin() + static_cast<std::ptrdiff_t>(first + n));
      return [=](size_t i) { return i < first ? i : i - n; };
    });
    l->outputs -= l->copies;
    l->copies = 0;
  }
  outcome_.copied = 0;
}

}  // namespace pyflame::engine
