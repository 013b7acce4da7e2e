// Recording: what joins the calling thread's group, and what makes it flush first.
#include <algorithm>
#include <cstdlib>
#include <vector>

#include "core/allocator.h"
#include "core/backends.h"
#include "core/interrupt.h"
#include "core/kept.h"
#include "core/lock.h"
#include "core/mapped.h"
#include "engine/capture.h"
#include "engine/counters.h"
#include "engine/hazards.h"
#include "engine/hidden.h"
#include "engine/placement.h"
#include "engine/planner.h"
#include "engine/rules.h"
#include "engine/takeover.h"
#include "engine/trace.h"
#include "table/kernels/move.h"

namespace pyflame::engine {
namespace {

constexpr size_t kIndependentBytes = 256 << 10;  // unrelated roots share a group up to this
constexpr size_t kEarlyBytes = 64 << 10;  // what is computed before a pending product, at most
constexpr size_t kTinyBytes = 64;  // a number made from none joins anything: a gradient's seed
constexpr size_t kLargeRoot = 256 << 10;  // a dropped root of this size is computed
// Memory that only the group keeps alive: a device that runs behind the host has more of it.
constexpr size_t kHeldBytes = size_t{64} << 20, kHeldBytesAhead = size_t{512} << 20;
constexpr size_t kBudgetCheck = 1 << 20;

// Which operations run before their call returns: none; those on GPUs, where launches are to block,
// so that a launch's error is raised by the call that made it; all.
enum class Eager : uint8_t { None, OnGpus, All };
bool set(const char* name) {
  const char* v = std::getenv(name);
  return v && *v && *v != '0';
}
bool blocking() {
  static const bool on =
      set("HIP_LAUNCH_BLOCKING") || set("CUDA_LAUNCH_BLOCKING") || set("AMD_SERIALIZE_KERNEL");
  return on;
}
std::atomic<Eager>& eager_flag() {
  static std::atomic<Eager> flag = set("PYFLAME_EAGER") ? Eager::All
                                   : blocking()         ? Eager::OnGpus
                                                        : Eager::None;
  return flag;
}
bool on_gpu(Device d) {
  return d.type == DeviceType::ROCm || d.type == DeviceType::CUDA;
}
bool runs_at_once(Device device) {
  const Eager e = eager_flag().load(std::memory_order_relaxed);
  if (e == Eager::None) [[likely]]
    return false;
  return e == Eager::All || on_gpu(device);
}

// What one recording needs to know.
struct Request {
  OpId op;
  const Dims* shape;
  DType out;
  DType compute;
  Device device;
  std::span<const Operand> operands;
  std::span<const Scalar> attrs;
  TensorImpl* dst;  // in-place target, or null
};

enum class Join { Yes, No };

// Whether the request widens a float tensor to the dtype in which it is about to be calculated with
// (a promotion, or x.float()): its consumer would read the same memory in its place.
bool widens(const Request& q) {
  if (q.op != 0 || q.dst || !q.operands[0].tensor) return false;
  const DType from = (*q.operands[0].tensor)->dtype;
  return is_float(from) && is_float(q.out) && info(q.out).bits > info(from).bits;
}

// Whether what the group works on already has this shape.
bool has_shape(const Group& g, const Dims& shape) {
  const Phase& ph = g.has_anchor ? g.phases[1] : g.phases[0];
  if (ph.nnodes) return ph.shape == shape;
  if (!g.has_anchor) return false;
  for (int i = 0; i < g.anchor.nouts; ++i)
    if (g.anchor.shapes[i] == shape) return true;
  return false;
}

// Whether a pending product does not wait for a small request whose shape it has not, nor that for
// the product: then the request runs before it, and what is made of both can follow the product.
bool comes_early(const Group& g, const Request& q) {
  const AnchorCall& a = g.anchor;
  const Phase& first = g.phases[0];
  if (!g.has_anchor || a.kernel->anchor != Anchor::Library || q.dst || has_shape(g, *q.shape) ||
      nbytes(q.out, numel(*q.shape)) > kEarlyBytes || (first.nnodes && !(first.shape == *q.shape)))
    return false;
  // What is there may join the product already.
  for (int i = 0; first.nnodes && i < a.ntensors; ++i)
    if (a.tensors[i].storage && writes(g, *a.tensors[i].storage, kBefore)) return false;
  return std::none_of(q.operands.begin(), q.operands.end(), [&g](const Operand& o) {
    return o.tensor && writes(g, *(*o.tensor)->storage) &&
           part_of((*o.tensor)->storage->writer_node) != kBefore;
  });
}

// Whether a pending kernel gives what elements of cells are made of, and this is the shape of
// those.
bool goes_through_cells(const Group& g, const Dims& shape) {
  const AnchorCall& a = g.anchor;
  return g.has_anchor && a.kernel->anchor == Anchor::Cells && a.shapes[a.nouts] == shape;
}
// Whether the request has one number for each cell of a pending kernel that gives such, and may run
// between that and the program over the elements: what is made of both can follow the kernel.
bool goes_beside(const Group& g, const Request& q) {
  const AnchorCall& a = g.anchor;
  const Phase& after = g.phases[1];
  if (!g.has_anchor || a.kernel->anchor != Anchor::Cells || !(a.shapes[0] == *q.shape))
    return false;
  const auto made_after = [&g](const Storage& s) { return writes(g, s, kAfter); };
  if (q.dst && (made_after(*q.dst->storage) ||
                std::any_of(after.inputs, after.inputs + after.ninputs, [&q](const Place& p) {
                  return p.storage.get() == q.dst->storage.get();
                })))
    return false;
  return std::none_of(q.operands.begin(), q.operands.end(), [&](const Operand& o) {
    return o.tensor && made_after(*(*o.tensor)->storage);
  });
}

// Whether a tensor is all of what lies in a place; row-major, it may have another shape.
bool is_all_of(const Place& p, const Dims& shape, const TensorImpl& t) {
  if (t.shape == shape) return same_place(p, t, shape);
  return p.contiguous && t.contiguous && p.offset == t.offset && p.dtype == t.dtype &&
         t.numel == numel(shape);
}

bool reads(const Group& g, const Request& q) {
  return std::any_of(q.operands.begin(), q.operands.end(), [&g](const Operand& o) {
    return o.tensor && writes(g, *(*o.tensor)->storage);
  });
}

// Tries to append the request to the group. On No, `why` says what the group must be flushed for;
// the half-made entry is harmless, since the flush clears it.
Join try_append(Group& g, const Request& q, Flush* why, const TensorImpl* fresh) {
  const bool early = comes_early(g, q);
  const bool beside = goes_beside(g, q);
  const int part = beside ? kBeside : g.has_anchor && !early ? kAfter : kBefore;
  Phase& ph = g.phase(part);
  const Dims& shape = *q.shape;
  if (ph.nnodes) {
    if (!(ph.shape == shape)) return *why = Flush::CannotJoin, Join::No;
    if (ph.nnodes == kMaxNodes ||
        ph.nscalars + static_cast<int>(q.operands.size() + q.attrs.size()) > kMaxScalars)
      return *why = Flush::Caps, Join::No;
  }
  bool consumes = false;
  const int node = ph.nnodes;
  int ninputs = ph.ninputs, nscalars = ph.nscalars;
  pf_node n{};
  n.op = q.op;
  n.dtype = static_cast<uint8_t>(q.out);
  n.compute = static_cast<uint8_t>(q.compute);
  n.nin = static_cast<uint8_t>(q.operands.size());
  n.store = -1;

  for (size_t i = 0; i < q.operands.size(); ++i) {
    const Operand& o = q.operands[i];
    if (!o.tensor) {
      n.in[i] = {PF_REF_SCALAR, static_cast<uint8_t>(nscalars)};
      ph.scalars[nscalars++] = to_kernel_scalar(o.scalar);
      continue;
    }
    const TensorImpl& t = *o.tensor->impl();
    Storage& s = *t.storage;
    if (writes(g, s)) {
      const int code = s.writer_node, k = index_of(code);
      if (part_of(code) == part) {
        if (!(t.shape == shape) || !same_place(ph.outputs[k], t, shape))
          return *why = Flush::AliasHazard, Join::No;
        n.in[i] = {PF_REF_NODE, static_cast<uint8_t>(k)};
        ph.consumed |= 1u << k;
        consumes = true;
        continue;
      }
      // Written before the anchor, beside it or by it, read after it: through memory.
      if (part_of(code) != kAnchor)
        g.phase(part_of(code)).materialise |= 1u << k;
      else if (!is_all_of(g.anchor.tensors[k], g.anchor.shapes[k], t))
        return *why = Flush::AliasHazard, Join::No;
      consumes = true;
    }
    int found = -1;
    for (int j = 0; j < ninputs && found < 0; ++j)
      if (ph.inputs[j].storage.get() == &s && same_place(ph.inputs[j], t, shape)) found = j;
    if (found < 0) {
      if (ninputs == kMaxInputs) return *why = Flush::Caps, Join::No;
      found = ninputs++;
      set_place(ph.inputs[found], t, shape);
      ph.ninputs = ninputs;
      g.input_bytes += s.nbytes;
      mark_reader(s, g);
    }
    n.in[i] = {PF_REF_INPUT, static_cast<uint8_t>(found)};
  }

  size_t bytes = nbytes(q.out, numel(shape));
  if (q.dst) {
    Storage& s = *q.dst->storage;
    if (writes(g, s)) {
      const int code = s.writer_node;
      if (part_of(code) != part || !same_place(ph.outputs[index_of(code)], *q.dst, shape))
        return *why = Flush::AliasHazard, Join::No;
      ph.superseded |= 1u << index_of(code);
    }
    for (int j = 0; j < ninputs; ++j)
      if (ph.inputs[j].storage.get() == &s && !same_place(ph.inputs[j], *q.dst, shape))
        return *why = Flush::AliasHazard, Join::No;
  }
  const auto is_seed = [&] {
    return bytes <= kTinyBytes && (!q.dst || !q.dst->storage->data) &&
           std::none_of(q.operands.begin(), q.operands.end(),
                        [](const Operand& o) { return o.tensor != nullptr; });
  };
  if (!consumes && !early && !beside && !goes_through_cells(g, shape) && !g.empty() &&
      g.output_bytes + bytes > kIndependentBytes && !is_seed() &&
      !(widens(q) && has_shape(g, shape)))
    return *why = Flush::CannotJoin, Join::No;

  n.attr0 = static_cast<uint8_t>(nscalars);
  n.nattr = static_cast<uint8_t>(q.attrs.size());
  for (const Scalar& a : q.attrs) ph.scalars[nscalars++] = to_kernel_scalar(a);
  ph.nscalars = nscalars;
  if (node == 0) {
    ph.shape = shape;
    ph.numel = numel(shape);
  }
  ph.nodes[node] = n;
  ph.nnodes = node + 1;
  Place& out = ph.outputs[node];
  if (q.dst) {
    set_place(out, *q.dst, shape);
  } else {
    out.storage = Ref<Storage>::share(fresh->storage.get());
    out.dtype = q.out;
    out.contiguous = fresh->contiguous;
    out.offset = 0;
    out.strides = fresh->strides;
    g.output_bytes += bytes;
  }
  out.storage->writer_node = code_of(part, node);
  out.storage->writer.store(&g, std::memory_order_release);
  g.device = q.device;
  bump(counters().nodes);
  return Join::Yes;
}

// Whether too much memory of inputs is such that nobody but the group can read it any more.
bool holds_too_much(const Group& g) {
  if (g.input_bytes <= kHeldBytes) return false;
  const size_t most = backend_of(g.device)->synchronous ? kHeldBytes : kHeldBytesAhead;
  size_t sum = 0;
  for (const Phase& ph : g.phases)
    for (int i = 0; i < ph.ninputs; ++i)
      if (ph.inputs[i].storage->handles.load(std::memory_order_relaxed) == 0)
        sum += ph.inputs[i].storage->nbytes;
  return sum > most;
}

// A cast of a whole parameter to 16 bits: in a capture it is a launch of its own, which need not
// run each time (capture_copies.cpp, find_constants()).
bool casts_parameter(const Request& q) {
  if (q.op != 0 || q.dst || !q.operands[0].tensor) return false;
  const TensorImpl& t = *q.operands[0].tensor->impl();
  return t.requires_grad && t.dtype == DType::Float32 && is_float(q.out) &&
         info(q.out).bits == 16 && t.storage->nbytes == nbytes(t.dtype, t.numel) &&
         t.storage->data && !t.storage->writer.load(std::memory_order_relaxed);
}

// `fresh` is the result, where there is no q.dst.
void append(const Request& q, const TensorImpl* fresh, const char* op) {
  Group& g = current_group();
  bool foreign = false;
  if (follows_aside(g, q.operands)) [[unlikely]] {
    std::lock_guard lock(g.mutex);
    bring_back(g);
  }
  for (const Operand& o : q.operands) {
    if (!o.tensor) continue;
    Storage& s = *(*o.tensor)->storage;
    settle_read(s, &g);
    foreign |= s.foreign;
  }
  if (q.dst) {
    Storage& s = *q.dst->storage;
    if (s.poisoned && q.op == 0 && q.dst->contiguous && q.dst->offset == 0 &&
        nbytes(q.dst->dtype, q.dst->numel) == s.nbytes) {
      // Written anew as a whole (copy_, fill_): what failed before does not matter any more.
      s.poisoned = false;
      s.error = nullptr;
    }
    settle_write(*q.dst->storage, &g, op);
    foreign |= q.dst->storage->foreign;
  }
  std::lock_guard lock(g.mutex);
  if (!g.empty() && g.device != q.device) run_group(g, Flush::DeviceSwitch);
  Storage* target = (fresh ? fresh : q.dst)->storage.get();
  if (g.capture) [[unlikely]]
    g.capture->note_place(*target);
  if (target->nbytes >= kBudgetCheck && !target->data &&
      static_cast<int64_t>(g.output_bytes + bytes_aside(g) + target->nbytes) >
          memory_headroom(q.device)) {
    // What cannot surely be supplied later is allocated now: out of memory is raised here, where
    // the caller can catch it.
    run_group(g, Flush::Budget);
    // A row without arithmetic fills or copies.
    const char* row = q.op ? name_of_row(q.op) : q.operands[0].tensor ? "copy_" : "fill_";
    ensure_memory(*target, g.stream(q.device), {row, q.out, q.shape});
  }
  const bool alone = g.capture && casts_parameter(q), beside = alone && !g.empty();
  if (beside) set_aside(g);
  Flush why;
  while (try_append(g, q, &why, fresh) == Join::No) {
    if (why == Flush::CannotJoin && !q.dst && !reads(g, q) &&
        (better_later(g) || follows_later(g) || reduces_the_same(g, *q.shape, q.operands)))
      set_aside(g);
    else
      run_group(g, why);
  }
  if (g.error) [[unlikely]] {
    // A flush on the way here failed: if it was to make what this node reads, the node goes too.
    for (const Operand& o : q.operands)
      if (o.tensor && (*o.tensor)->storage->poisoned) {
        const Storage& s = *(*o.tensor)->storage;
        discard(g);
        raise_poison(s, g);
      }
  }
  if (q.dst) note_write(*q.dst);
  if (runs_at_once(q.device)) {
    run_group(g, Flush::Eager);
    // Who has launches block wants to know here, and not where the result is read.
    if (target->poisoned && on_gpu(q.device)) [[unlikely]]
      raise_poison(*target, g);
  } else if (beside)
    bring_back(g);
  else if (alone)
    run_group(g, Flush::CannotJoin);
  else if (foreign)
    run_group(g, Flush::Foreign);
  else if (holds_too_much(g))
    run_group(g, Flush::HeldMemory);
  if (foreign) [[unlikely]] {
    submit(q.device);
    for (const Operand& o : q.operands)
      if (o.tensor) check_mapped((*o.tensor)->storage->data, op);
  }
}

}  // namespace

namespace {

bool storage_only(DType out, std::span<const Operand> operands) {
  bool any = info(out).storage_only;
  for (const Operand& o : operands) any |= o.tensor && info((*o.tensor)->dtype).storage_only;
  return any;
}

// A cast from or to a dtype without arithmetic, into `dst`. Neither tapes nor the text of groups
// know these; two kernels do.
void cast_stored(OpId op, const Tensor& dst, std::span<const Operand> operands, CallOptions how) {
  if (op != 0)  // the first row, cast
    for (DType t : {dst->dtype, operands[0].tensor ? (*operands[0].tensor)->dtype : dst->dtype})
      PF_CHECK(!info(t).storage_only, DTypeError, name_of_row(op), "got ", t,
               "; it can be stored and converted but not calculated with; use to() first");
  how.takes = Takes::All;
  if (dst->numel == 0) return;
  if (operands[0].tensor)
    call<kernels::Copy>({dst, *operands[0].tensor}, how);
  else
    call<kernels::Fill>({dst}, {operands[0].scalar}, how);
}

bool repeats(const TensorImpl& t) {
  for (int d = 0; d < t.shape.size(); ++d)
    if (t.strides[d] == 0 && t.shape[d] > 1) return true;
  return false;
}
// A fresh result lies in memory as the first operand of its shape does: what is channels-last stays
// so. What was expanded does not say how it should lie, unless all operands were.
void inherit_layout(TensorImpl& result, std::span<const Operand> operands) {
  if (result.shape.size() < 2) return;
  const TensorImpl* like = nullptr;
  for (const Operand& o : operands) {
    if (!o.tensor || !((*o.tensor)->shape == result.shape)) continue;
    const TensorImpl& t = *o.tensor->impl();
    if (!repeats(t)) return lay_out_like(result, t);
    if (!like) like = &t;
  }
  if (like) lay_out_like(result, *like);
}

// Where some operand is placed, or there are several devices.
[[gnu::noinline]] Tensor pointwise_placed(OpId op, const Dims& shape, DType out, DType compute,
                                          Device device, std::span<const Operand> operands,
                                          std::span<const Scalar> attrs) {
  Operand list[PF_MAX_OPERANDS] = {Scalar(), Scalar(), Scalar(), Scalar()};
  Tensor moved[PF_MAX_OPERANDS];
  device = place_operands(op, operands, device, list, moved);
  Tensor result = make_tensor(shape, out, device);
  inherit_layout(*result.impl(), {list, operands.size()});
  append({op,
          &result->shape,
          out,
          compute,
          result->storage->device,
          {list, operands.size()},
          attrs,
          nullptr},
         result.impl(), "pointwise");
  return result;
}

}  // namespace

Tensor pointwise(OpId op, const Dims& shape, DType out, DType compute, Device device,
                 std::span<const Operand> operands, std::span<const Scalar> attrs) {
  GilScope gil;
  if (hiding()) [[unlikely]]
    if (Tensor r = pointwise_hidden(op, shape, out, compute, device, operands, attrs); r.defined())
      return r;
  if (storage_only(out, operands)) [[unlikely]] {
    Tensor result = make_tensor(shape, out, device);
    cast_stored(op, result, operands, {.op = "to"});
    return result;
  }
  bool floats = true;
  for (const Operand& o : operands) floats &= !o.tensor || (*o.tensor)->floating;
  if (!floats || several_devices()) [[unlikely]] {
    Together where;
    for (const Operand& o : operands)
      if (o.tensor) where.add(*o.tensor->impl());
    if (!where.settled()) return pointwise_placed(op, shape, out, compute, device, operands, attrs);
    device = where.any() ? where.device() : device.floating ? get_device() : device;
  }
  Tensor result = make_tensor_at(shape, out, device);
  inherit_layout(*result.impl(), operands);
  append({op, &result->shape, out, compute, device, operands, attrs, nullptr}, result.impl(),
         "pointwise");
  return result;
}

void pointwise_into(OpId op, const Tensor& dst, DType compute, std::span<const Operand> operands,
                    std::span<const Scalar> attrs) {
  GilScope gil;
  if (hiding()) [[unlikely]]
    if (pointwise_into_hidden(op, dst, compute, operands, attrs)) return;
  // An operand that reaches the same memory by another way (x += x[0]) is copied first.
  Tensor copies[PF_MAX_OPERANDS];
  Operand list[PF_MAX_OPERANDS] = {Scalar(), Scalar(), Scalar(), Scalar()};
  for (size_t i = 0; i < operands.size(); ++i) {
    list[i] = operands[i];
    const Tensor* t = list[i].tensor;
    if (!t) continue;
    if (!((*t)->storage->device == dst->storage->device)) [[unlikely]] {
      check_source(*dst.impl(), *t->impl(), name_of_row(op));
      copies[i] = replica(*t, dst->storage->device, name_of_row(op));
      list[i].tensor = &copies[i];
      continue;
    }
    if (!((*t)->storage == dst->storage)) continue;
    const TensorImpl& a = *t->impl();
    const TensorImpl& b = *dst.impl();
    if (a.offset == b.offset && a.dtype == b.dtype && a.shape == b.shape &&
        ((a.contiguous && b.contiguous) || a.strides == b.strides))
      continue;
    const DeviceScope home(a.storage->device);
    copies[i] = make_tensor(a.shape, a.dtype, a.storage->device);
    call<kernels::Copy>({copies[i], *t}, {.takes = Takes::All});
    list[i].tensor = &copies[i];
  }
  if (storage_only(dst->dtype, operands)) [[unlikely]]
    return cast_stored(op, dst, {list, operands.size()}, {.inplace = 1, .op = "copy_"});
  append({op,
          &dst->shape,
          dst->dtype,
          compute,
          dst->storage->device,
          {list, operands.size()},
          attrs,
          dst.impl()},
         nullptr, "in-place operation");
}

namespace {

// Every kernel is asked for dtypes it knows only: there is no other place where they are checked.
void check_taken(std::span<const Tensor> tensors, const CallOptions& how) {
  for (const Tensor& t : tensors) {
    if (!t.defined() || !info(t->dtype).storage_only) [[likely]]
      continue;
    if (how.takes == Takes::Bytes && info(t->dtype).bits >= 8) continue;
    if (info(t->dtype).bits < 8)
      PF_FAIL(
          DTypeError, how.op, "got ", t->dtype,
          ", two elements in a byte; it can be copied and converted as a whole; use to() first");
    PF_FAIL(DTypeError, how.op, "got ", t->dtype,
            "; it can be stored and converted but not calculated with; use to() first");
  }
}

// The same tensors, those that are not row-major copied; `copies` holds them.
std::span<const Tensor> row_major(std::span<const Tensor> ins, std::vector<Tensor>& copies) {
  const auto lies = [](const Tensor& t) { return !t.defined() || t->contiguous; };
  if (std::all_of(ins.begin(), ins.end(), lies)) return ins;
  std::vector<Tensor> list(ins.begin(), ins.end());
  for (Tensor& t : list) {
    if (lies(t)) continue;
    const Tensor copy = make_tensor_at(t->shape, t->dtype, t->storage->device);
    call<kernels::Copy>({copy, t}, {.takes = Takes::All});
    t = copy;
  }
  return copies = std::move(list);
}

}  // namespace

void call(const Kernel& k, std::span<const Tensor> outs, std::span<const Tensor> ins,
          std::span<const Scalar> attrs, CallOptions options) {
  GilScope gil;
  if (!options.op) options.op = k.name;
  if (options.takes != Takes::All) {
    check_taken(outs, options);
    check_taken(ins, options);
  }
  if (hiding()) [[unlikely]]
    if (call_hidden(k, outs, ins, attrs, options)) return;
  if (const Watcher watcher = detail::g_watcher.load(std::memory_order_relaxed)) [[unlikely]]
    watcher(k, outs, ins);
  std::vector<Tensor> moved;
  bool floats = true;
  for (const Tensor& t : ins) floats &= !t.defined() || t->floating;
  if (!floats || several_devices()) [[unlikely]] {
    Together where;
    for (const Tensor& t : ins)
      if (t.defined()) where.add(*t.impl());
    for (const Tensor& t : outs)
      if (t.defined()) where.add(*t.impl());
    if (!where.settled()) ins = place_call(outs, ins, options, moved);
  }
  std::vector<Tensor> copies;
  if (k.layout == kernels::Layout::RowMajor) ins = row_major(ins, copies);
  Group& g = current_group();
  Device device;
  bool foreign = false, touches_mine = false;
  size_t count = outs.size() + ins.size();
  for (size_t i = 0; i < outs.size(); ++i) {
    if (!outs[i].defined()) continue;
    Storage& s = *outs[i]->storage;
    device = s.device;
    foreign |= s.foreign;
    settle_write(s, &g, options.op);
    if (g.capture) [[unlikely]]
      g.capture->note_place(s);
    touches_mine |= writes(g, s) || s.reader.load(std::memory_order_relaxed) == &g;
  }
  for (const Tensor& t : ins) {
    if (!t.defined()) continue;
    Storage& s = *t->storage;
    if (outs.empty()) device = s.device;
    foreign |= s.foreign;
    // What waits aside may go on waiting for a product; if not, see below.
    if (k.anchor != Anchor::Library || !g.aside || !writes(*g.aside, s)) settle_read(s, &g);
    touches_mine |= writes(g, s);
  }
  const bool pending =
      k.anchor != Anchor::General && k.anchor != Anchor::MultiTensor &&
      count <= kMaxAnchorTensors && attrs.size() <= kMaxAttrs && !foreign &&
      !((k.indices != kernels::Indices::None || options.indices != kernels::Indices::None) &&
        backend_of(device)->synchronous) &&
      !runs_at_once(device);

  auto after_inplace = [&] {
    const bool all = options.inplace == CallOptions::kAllInplace;
    for (size_t i = 0; i < outs.size() && (all || i < 32); ++i)
      if (all || options.inplace >> i & 1) note_write(*outs[i].impl());
  };
  auto each = [&](auto&& fn) {
    for (size_t i = 0; i < count; ++i) {
      const Tensor& t = i < outs.size() ? outs[i] : ins[i - outs.size()];
      fn(static_cast<int>(i), t);
    }
  };

  if (!pending) {
    for (const Tensor& t : ins)
      if (g.aside && t.defined()) settle_read(*t->storage, &g);
    if (touches_mine) {
      std::lock_guard lock(g.mutex);
      if (!foreign && g.device == device && keep_row(g, k, outs, ins, attrs, options)) {
        drop_kept(*outs[0]->storage);
        after_inplace();
        return;
      }
      if (!g.empty()) run_group(g, Flush::General);
    }
    std::vector<pf_tensor> tensors(count);
    // While the GIL is away another thread may give these tensors other memory (`.data = `).
    constexpr size_t kFew = 8;
    Ref<Storage> few[kFew];
    std::vector<Ref<Storage>> many(count > kFew ? count : 0);
    const std::span<Ref<Storage>> held(count > kFew ? many.data() : few, count);
    StreamState* stream = g.stream(device);
    int64_t work = 0;
    bool fresh = true;  // nothing that is written holds values already
    each([&](int i, const Tensor& t) {
      pf_tensor& p = tensors[static_cast<size_t>(i)];
      if (!t.defined()) return set_undefined(p);
      held[static_cast<size_t>(i)] = Ref<Storage>::share(t->storage.get());
      if (t->storage->poisoned) raise_poison(*t->storage);
      fresh &= i >= static_cast<int>(outs.size()) || !t->storage->data;
      ensure_memory(*t->storage, stream, {options.op, t->dtype, &t->shape});
      char* base = static_cast<char*>(t->storage->data);
      set_tensor(p, base + t->offset * static_cast<int64_t>(itemsize(t->dtype)), t->dtype, t->shape,
                 t->strides);
      work += t->numel;
    });
    std::vector<pf_scalar> scalars(attrs.size());
    std::transform(attrs.begin(), attrs.end(), scalars.begin(), to_kernel_scalar);
    after_inplace();
    long_work(work);
    if (tracing()) [[unlikely]]
      trace_kernel(k, device, options);
    const bool keeps = options.keeps >= 0 && device.is_cpu() && !runs_at_once(device);
    const KeepScope keep(keeps ? held[static_cast<size_t>(options.keeps)].get() : nullptr);
    const MayStop stoppable((fresh || OwnCopies::here()) && hears_interrupts(), work);
    if (!(g.capture && g.capture->takes(k, tensors, held, scalars, options))) [[likely]]
      run_kernel(k, device, stream, tensors, scalars, options);
    if (g.capture) [[unlikely]] {
      std::vector<Capture::Located> storages(count);
      each([&](int i, const Tensor& t) {
        if (!t.defined()) return;
        const auto at = static_cast<size_t>(i);
        storages[at] = {held[at].get(), t->offset * static_cast<int64_t>(itemsize(t->dtype))};
      });
      std::lock_guard lock(g.mutex);
      g.capture->note_kernel(k, tensors, storages, scalars, static_cast<int>(outs.size()), options);
    }
    // What another thread made while the kernel wrote has the version of what is there now.
    for (const Tensor& t : outs)
      if (t.defined()) drop_kept(*t->storage);
    if (foreign) [[unlikely]] {
      submit(device);
      for (const auto& s : held)
        if (s) check_mapped(s->data, options.op);
    }
    return;
  }

  std::lock_guard lock(g.mutex);
  if ((g.empty() || g.device == device) && merge(g, k, outs, ins, attrs)) return;
  if (!g.empty()) {
    bool consumes = false, hazard = false;
    for (const Tensor& t : ins) consumes |= t.defined() && writes(g, *t->storage);
    for (const Tensor& t : outs)
      hazard |= t.defined() && (writes(g, *t->storage) ||
                                t->storage->reader.load(std::memory_order_relaxed) == &g);
    if (hazard)
      run_group(g, Flush::AliasHazard);
    else if (!(g.device == device && (keep_last_phase(g, k, ins) || carry_cast(g, k, ins))) &&
             (g.has_anchor || !consumes || g.device != device)) {
      if (g.device == device && k.anchor == Anchor::Library && better_later(g))
        set_aside(g);
      else
        run_group(g, Flush::CannotJoin);
    }
  }
  if (k.anchor == Anchor::Library) read_aside(g, ins);
  for (const Tensor& t : ins)
    if (t.defined() && t->storage->poisoned) [[unlikely]]
      raise_poison(*t->storage, g);
  AnchorCall& a = g.anchor;
  a.kernel = &k;
  a.reads_beside = 0;
  a.options = options;
  a.nouts = static_cast<int>(outs.size());
  a.ntensors = static_cast<int>(count);
  a.nattrs = static_cast<int>(attrs.size());
  std::transform(attrs.begin(), attrs.end(), a.attrs, to_kernel_scalar);
  each([&](int i, const Tensor& t) {
    if (!t.defined()) return;
    a.shapes[i] = t->shape;
    set_place(a.tensors[i], *t.impl(), t->shape);
    Storage& s = *t->storage;
    if (i < a.nouts) {
      s.writer_node = code_of(kAnchor, i);
      s.writer.store(&g, std::memory_order_release);
      g.output_bytes += s.nbytes;
    } else {
      if (writes(g, s, kBefore)) g.phases[0].materialise |= 1u << index_of(s.writer_node);
      mark_reader(s, g);
      g.input_bytes += s.nbytes;
    }
  });
  g.has_anchor = true;
  g.device = device;
  after_inplace();
  bump(counters().nodes);
  if (holds_too_much(g)) run_group(g, Flush::HeldMemory);
}

void on_last_handle(Storage& s) noexcept {
  Group* g = s.writer.load(std::memory_order_acquire);
  if (!g || s.nbytes < kLargeRoot) return;
  GilScope gil;
  if (g->waits_for_reader) return forget_again(*g, s);
  std::lock_guard lock(g->mutex);
  if (s.writer.load(std::memory_order_relaxed) != g || part_of(s.writer_node) == kAnchor) return;
  Phase& ph = g->phase(part_of(s.writer_node));
  uint32_t bit = 1u << index_of(s.writer_node);
  if ((ph.consumed | ph.materialise | ph.superseded) & bit) return;
  ph.materialise |= bit;
  run_group(*g, Flush::DroppedRoot);
}

bool eager() {
  return eager_flag().load() == Eager::All;
}
void set_eager(bool on) {
  flush(Flush::Explicit);
  eager_flag().store(on ? Eager::All : blocking() ? Eager::OnGpus : Eager::None);
}

}  // namespace pyflame::engine
