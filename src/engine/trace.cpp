// What ran, for pf.explain.
#include "engine/trace.h"

#include <algorithm>
#include <mutex>
#include <sstream>

#include "core/lock.h"
#include "engine/capture_launch.h"
#include "engine/counters.h"
#include "engine/group.h"
#include "engine/placement.h"
#include "engine/print.h"
#include "pyflame/error.h"
#include "table/kernels/matmul.h"

namespace pyflame::engine {
namespace {

struct Trace {
  Mutex mutex;
  std::vector<std::vector<TraceEvent>> open;  // one list for each start that was not stopped
  std::vector<size_t> ids;
  size_t next = 0;
};
Trace& trace() {
  static auto* t = new Trace;
  return *t;
}

void note(TraceEvent e, const std::string& where = "") {
  e.fields["where"] = where.empty() ? call_site() : where;
  Trace& t = trace();
  std::lock_guard lock(t.mutex);
  for (auto& list : t.open) {
    auto same = [&](const TraceEvent& o) { return o.kind == e.kind && o.fields == e.fields; };
    auto it = std::find_if(list.begin(), list.end(), same);
    if (it == list.end()) it = list.insert(list.end(), {e.kind, e.fields, e.details, 0, 0});
    ++it->count;
    it->bytes += e.bytes;
  }
}

std::string text_of(const Dims& shape) {
  std::ostringstream s;
  s << shape;
  return s.str();
}

std::string nodes_of(const Phase& p) {
  std::string s;
  for (int i = 0; i < p.nnodes; ++i) s += (i ? " " : "") + std::string(name_of_row(p.nodes[i].op));
  return s;
}

}  // namespace

std::atomic<Watcher> detail::g_watcher{nullptr};

void watch_kernels(Watcher watcher) {
  detail::g_watcher.store(watcher);
}

size_t trace_start() {
  Trace& t = trace();
  std::lock_guard lock(t.mutex);
  t.open.emplace_back();
  t.ids.push_back(++t.next);
  detail::g_tracing.fetch_add(1);
  return t.next;
}

std::vector<TraceEvent> trace_stop(size_t start) {
  Trace& t = trace();
  std::lock_guard lock(t.mutex);
  const auto it = std::find(t.ids.begin(), t.ids.end(), start);
  if (it == t.ids.end()) return {};
  const auto list = t.open.begin() + (it - t.ids.begin());
  std::vector<TraceEvent> r = std::move(*list);
  t.open.erase(list);
  t.ids.erase(it);
  detail::g_tracing.fetch_sub(1);
  return r;
}

void trace_group(const Group& g, Flush why, const Plan& plan, bool together) {
  TraceEvent e{"group", {}, {}, 1, 0};
  e.fields["device"] = g.device.str();
  e.fields["reason"] = flush_name(why);
  e.fields["prologue"] = nodes_of(g.phases[0]);
  if (g.has_anchor) {
    const AnchorCall& a = g.anchor;
    e.fields["anchor"] = a.kernel->name;
    // The library adds the bias itself.
    using kernels::Matmul;
    if (std::string_view(a.kernel->name) == Matmul::kInfo.name &&
        a.tensors[kernels::tensors<Matmul>.bias].storage)
      e.fields["library_epilogue"] = "bias";
    e.fields["epilogue"] = plan.to_anchor ? "" : nodes_of(g.phases[1]);
    e.fields["shape"] = text_of(a.shapes[0]);
  } else {
    e.fields["shape"] = text_of(g.phases[0].shape);
  }
  e.details["graph"] = print_graph(g, !plan.to_anchor);
  e.details["plan"] = print_plan(g, plan, together);
  note(std::move(e));
}

void trace_replay(const CapturedLaunch& l, Device device, const std::string& where) {
  const auto names = [](const CapturedProgram& p) {
    std::string s;
    for (int i = 0; p.program && i < p.program->key.nnodes; ++i)
      s += (i ? " " : "") + std::string(name_of_row(p.program->key.nodes[i].op));
    return s;
  };
  const auto shape_of = [](auto* n, int ndim) {
    Dims shape;
    for (int d = 0; d < ndim; ++d) shape.push_back(n[d]);
    return text_of(shape);
  };
  if (l.kernel &&
      (l.kernel->anchor == Anchor::General || l.kernel->anchor == Anchor::MultiTensor)) {
    return note({"kernel",
                 {{"device", device.str()}, {"kernel", l.kernel->name}, {"op", l.options.op}},
                 {},
                 1,
                 0},
                where);
  }
  if (!l.kernel && !l.before.program) return;  // numbers of the host
  TraceEvent e{"group", {}, {}, 1, 0};
  e.fields["device"] = device.str();
  e.fields["reason"] = "replay";
  e.fields["prologue"] = names(l.before);
  if (l.kernel) {
    e.fields["anchor"] = l.kernel->name;
    e.fields["epilogue"] = names(l.after);
    e.fields["shape"] = shape_of(l.tensors[0].shape, l.tensors[0].ndim);
  } else {
    e.fields["shape"] = shape_of(l.before.launch.shape, l.before.launch.ndim);
  }
  e.details["graph"] = "kept by a captured step";
  e.details["plan"] =
      std::to_string(l.accesses.size()) + " addresses, written anew where they change";
  note(std::move(e), where);
}

void trace_kernel(const Kernel& k, Device device, const CallOptions& options) {
  note({"kernel",
        {{"device", device.str()}, {"kernel", k.name}, {"op", options.op ? options.op : k.name}},
        {},
        1,
        0});
}

void trace_copy(const char* op, const Dims& shape, Device from, Device to, size_t bytes) {
  note({"copy",
        {{"op", op}, {"shape", text_of(shape)}, {"from", from.str()}, {"to", to.str()}},
        {},
        1,
        static_cast<int64_t>(bytes)});
}

bool note_slow(const char* op, const std::string& text) {
  bump(counters().slow);
  if (tracing()) note({"slow", {{"op", op}, {"what", text}}, {}, 1, 0});
  return strict();
}

void note_served(const char* op, const char* by) {
  if (tracing()) note({"served", {{"op", op}, {"by", by}}, {}, 1, 0});
}

void slow_path(const char* op, const std::string& text) {
  if (note_slow(op, text)) PF_FAIL(NotSupportedError, op, text, " (strict mode refuses slow ways)");
}

}  // namespace pyflame::engine
