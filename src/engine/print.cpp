#include "engine/print.h"

#include <sstream>
#include <vector>

#include "engine/placement.h"

namespace pyflame::engine {
namespace {

// Gives values numbers in the order in which they appear.
class Printer {
 public:
  explicit Printer(const Window& w, bool last = true) {
    phase(w.phases[0], before_);
    if (!w.has_anchor) return;
    anchor(w.anchor);
    phase(w.phases[2], beside_);
    if (last) phase(w.phases[1], after_);
  }

  std::string graph() const { return graph_.str(); }
  std::string plan(const Plan&, bool together) const;

 private:
  struct Value {
    const Storage* storage;
    const Place* place;
    Dims shape;
    bool made;  // by a program or the kernel
  };
  struct Names {
    std::vector<int> inputs, outputs;
  };

  static bool same(const Place& a, const Place& b) {
    return a.offset == b.offset && a.dtype == b.dtype && a.strides == b.strides;
  }
  int number(const Place& p, const Dims& shape, bool makes) {
    if (!makes)
      for (size_t i = values_.size(); i-- > 0;) {
        const Value& v = values_[i];
        if (v.storage == p.storage.get() && (v.made || (v.shape == shape && same(*v.place, p))))
          return static_cast<int>(i);
      }
    values_.push_back({p.storage.get(), &p, shape, makes});
    const int n = static_cast<int>(values_.size()) - 1;
    if (!makes) graph_ << "%" << n << " = input " << p.dtype << " " << shape << "\n";
    return n;
  }

  void phase(const Phase& ph, Names& names) {
    for (int j = 0; j < ph.ninputs; ++j)
      names.inputs.push_back(number(ph.inputs[j], ph.shape, false));
    for (int i = 0; i < ph.nnodes; ++i) {
      const pf_node& n = ph.nodes[i];
      std::ostringstream text;
      text << name_of_row(n.op) << "(";
      const auto scalar = [&](int at) {
        if (is_float(static_cast<DType>(n.compute)))
          text << ph.scalars[at].f;
        else
          text << ph.scalars[at].i;
      };
      for (int k = 0; k < n.nin; ++k) {
        if (k) text << ", ";
        if (n.in[k].kind == PF_REF_SCALAR)
          scalar(n.in[k].index);
        else
          text << "%"
               << (n.in[k].kind == PF_REF_NODE ? names.outputs : names.inputs)[n.in[k].index];
      }
      for (int k = 0; k < n.nattr; ++k) {
        text << (n.nin || k ? ", " : "");
        scalar(n.attr0 + k);
      }
      names.outputs.push_back(number(ph.outputs[i], ph.shape, true));
      graph_ << "%" << names.outputs.back() << " = " << text.str() << ") " << ph.outputs[i].dtype
             << " " << ph.shape << "\n";
    }
  }

  void anchor(const AnchorCall& a) {
    std::ostringstream reads, makes, what;
    for (int i = a.nouts; i < a.ntensors; ++i) {
      reads << (i > a.nouts ? ", " : "");
      if (a.tensors[i].storage)
        reads << "%" << number(a.tensors[i], a.shapes[i], false);
      else
        reads << "none";
    }
    for (int i = 0; i < a.nouts; ++i) {
      const Place& p = a.tensors[i];
      const char* comma = i ? ", " : "";
      makes << comma;
      what << comma;
      if (!p.storage) {
        makes << "none";
        what << "none";
        continue;
      }
      makes << "%" << number(p, a.shapes[i], true);
      what << p.dtype << " " << a.shapes[i];
    }
    kernel_ = std::string(a.kernel->name) + "(" + reads.str() + ")";
    graph_ << makes.str() << " = " << kernel_ << " " << what.str() << "\n";
  }

  std::string program(const PlannedProgram&, const Names&) const;

  std::vector<Value> values_;
  std::ostringstream graph_;
  Names before_, beside_, after_;
  std::string kernel_;
};

std::string Printer::program(const PlannedProgram& planned, const Names& names) const {
  const Phase& ph = *planned.phase;
  std::ostringstream s;
  s << "program";
  for (int i = 0; i < planned.key.nnodes; ++i) s << " " << name_of_row(planned.key.nodes[i].op);
  for (int o = 0; o < planned.noutputs; ++o) {
    const int i = planned.stored[o];
    s << (o ? ", %" : " -> %") << names.outputs[static_cast<size_t>(i)];
    if (planned.outputs_without >> o & 1)
      s << " in no memory";
    else if (planned.donor[o] >= 0)
      s << " in the memory of %"
        << names.inputs[planned.used[static_cast<size_t>(planned.donor[o])]];
    else if (ph.outputs[i].storage->data)
      s << " in place";
    else
      s << " in " << ph.outputs[i].storage->nbytes << " new bytes";
  }
  return s.str();
}

std::string Printer::plan(const Plan& plan, bool together) const {
  std::ostringstream s;
  const auto add = [&](const std::string& line) { s << (together ? "| " : "") << line << "\n"; };
  if (together) s << "one launch:\n";
  if (plan.before.runs()) add(program(plan.before, before_));
  if (plan.early.runs()) add(program(plan.early, beside_));
  if (plan.kernel) add("kernel " + kernel_);
  if (plan.late.runs()) add(program(plan.late, beside_));
  if (plan.after.runs()) add(program(plan.after, after_));
  return s.str();
}

}  // namespace

std::string print_graph(const Window& w, bool last) {
  return Printer(w, last).graph();
}
std::string print_plan(const Window& w, const Plan& plan, bool together) {
  return Printer(w).plan(plan, together);
}

}  // namespace pyflame::engine
