// Groups of pointwise nodes: text from device_text.h, one kernel for each launch class.
#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <mutex>
#include <string>
#include <unordered_map>

#include "gpu/around.h"
#include "gpu/device.h"
#include "gpu/device_text.h"
#include "gpu/graph_recorder.h"
#include "gpu/host.h"
#include "table/rows.h"

namespace pyflame::gpu {
namespace {

constexpr int64_t kNeighbours[] = {1};

uint64_t next_serial() {
  static std::atomic<uint64_t> next{0};
  return ++next;
}

struct Program {
  gpu::DeviceProgram text;
  std::mutex mutex;
  struct Variant {
    gpu::LaunchClass key;
    Function function;
  };
  std::vector<Variant> variants;  // the last one used first
  // As part of a kernel: by kernel, options, launch class, and the other part.
  std::unordered_map<std::string, Function> joined;
  const uint64_t serial = next_serial();  // never another program's
  bool fills;                             // stores numbers and computes nothing
  std::vector<pf_node> nodes;
  std::vector<uint8_t> outputs;

  explicit Program(const pf_program& p)
      : text(p),
        fills(std::all_of(p.nodes, p.nodes + p.nnodes,
                          [](const pf_node& n) {
                            return n.op == table::op::cast && n.in[0].kind == PF_REF_SCALAR &&
                                   n.store >= 0;
                          })),
        nodes(p.nodes, p.nodes + p.nnodes),
        outputs(p.output_dtypes, p.output_dtypes + p.noutputs) {}

  // Zeros need no kernel: true where that was all.
  bool zeros(const Device& device, Stream& stream, const pf_launch& l) const {
    if (!fills) return false;
    for (const pf_node& n : nodes) {
      const pf_scalar& s = l.scalars[n.in[0].index];
      if (s.i != 0 || s.f != 0 || std::signbit(s.f) || !l.outputs[n.store].contiguous) return false;
    }
    for (const pf_node& n : nodes) {
      const auto store = static_cast<size_t>(n.store);
      const size_t bytes =
          static_cast<size_t>(l.numel) * itemsize(static_cast<DType>(outputs[store]));
      void* to = l.outputs[store].data;
      stream.queue.in_order("pointwise group", [&device, s = stream.handle, to, bytes] {
        device.activate();
        check(runtime().MemsetD8Async(to, 0, bytes, s),
              PF_RT("hipMemsetD8Async", "cuMemsetD8Async"));
      });
    }
    return true;
  }

  Function find(Device& device, const gpu::LaunchClass& key) {
    std::lock_guard lock(mutex);
    for (size_t i = 0; i < variants.size(); ++i)
      if (variants[i].key == key) {
        if (variants[i].function->module->failed()) [[unlikely]] {
          variants.erase(variants.begin() + static_cast<std::ptrdiff_t>(i));  // once more, then
          break;
        }
        if (i) std::swap(variants[i], variants[0]);
        return variants[0].function;
      }
    const Function f = device.group(unique_names(text.text(key)));
    variants.insert(variants.begin(), {key, f});
    return f;
  }
};

}  // namespace

int64_t row_bytes(const Around& around, const JoinedRows& rows) {
  const Around::Part& part = around.before;
  gpu::DeviceLaunch l;
  if (!part.program || static_cast<const FullAround&>(around).tensors() != 1u << rows.input)
    return 0;
  const gpu::DeviceProgram& text = static_cast<Program*>(part.program)->text;
  return text.plan_part(*part.launch, 1u << part.operand, rows.rows, rows.cols,
                        static_cast<int>(rows.vec), false, l)
             ? text.row_bytes(l.key, rows.cols)
             : 0;
}

Joined join_programs(Device& device, Around& around, const char* file, const Defines& defines,
                     const char* entry, const JoinedRows& rows) {
  return join_programs(device, static_cast<FullAround&>(around), file, defines, entry, rows,
                       rows.input < 0 ? 0 : 1u << rows.input);
}

Joined join_programs(Device& device, FullAround& around, const char* file, const Defines& defines,
                     const char* entry, const JoinedRows& rows, uint32_t tensors) {
  thread_local gpu::DeviceLaunch launches[2];
  thread_local std::string key;
  Around::Part* const parts[2] = {&around.before, &around.after};
  key.clear();
  Joined joined;
  Program* owner = nullptr;
  struct Passing {
    int operands[1 + std::size(FullAround().others)];
    size_t n;
    uint32_t keep;
  } passing[2];
  for (int k = 0; k < 2; ++k) {
    Around::Part& part = *parts[k];
    if (!part.program || (k == 1 && !rows.behind)) continue;
    Program& p = *static_cast<Program*>(part.program);
    if (p.text.inputs() + p.text.outputs() > 24) continue;  // plan_part() takes no more
    if (k == 0 ? around.tensors() != tensors : part.tensor != 0) continue;
    // Operands that pass, in the order of the kernel's tensors.
    Passing& passes = passing[k];
    passes.n = static_cast<size_t>(k == 0 ? 1 + around.more : 1);
    uint32_t with = 0, keep = 0;
    const auto pass = [&](int operand, int tensor, bool stored) {
      passes.operands[k == 0 ? std::popcount(tensors & ((1u << tensor) - 1)) : 0] = operand;
      with |= 1u << operand;
      if (stored) keep |= 1u << operand;
    };
    pass(part.operand, part.tensor, part.keep);
    for (int i = 0; k == 0 && i < around.more; ++i)
      pass(around.others[i].operand, around.others[i].tensor, around.others[i].keep);
    passes.keep = keep;
    // What is stored may lie where the program reads: no second run would find that.
    if (k == 0 && rows.again && (keep || p.text.outputs() > 1)) continue;
    gpu::DeviceLaunch& l = launches[k];
    if (!p.text.plan_part(*part.launch, with, rows.rows, rows.cols, static_cast<int>(rows.vec),
                          rows.past && !(k == 0 && rows.again), l)) {
      if (part.must) throw Failure(PF_INVALID, "a program that was to join a kernel cannot");
      continue;
    }
    part.joined = true;
    joined.words[k] = l.words;
    joined.bytes[k] = 8 * l.nwords;
    owner = &p;
    key.append(reinterpret_cast<const char*>(&p.serial), sizeof p.serial);
    key.append(reinterpret_cast<const char*>(passes.operands), passes.n * sizeof(int));
    key.append(reinterpret_cast<const char*>(&keep), sizeof keep).append(1, static_cast<char>(k));
    key.append(reinterpret_cast<const char*>(&l.key), sizeof l.key);
  }
  if (around.asked) return joined;
  if (!owner) return {device.find(file, defines, entry)};
  key.append(file).append(1, '\0').append(entry).append(1, '\0').append(defines.bytes());
  std::lock_guard lock(owner->mutex);
  Function& f = owner->joined[key];
  if (!f || f->module->failed()) {
    std::string text;
    if (const Around::Part& part = around.before; part.joined) {
      const Passing& to = passing[0];
      text = static_cast<Program*>(part.program)
                 ->text.prologue_text(launches[0].key, {to.operands, to.n}, to.keep);
      text += "#define PF_PROLOGUE\n";
    }
    if (const Around::Part& part = around.after; part.joined) {
      text +=
          static_cast<Program*>(part.program)->text.epilogue_text(launches[1].key, part.operand);
      text += "#define PF_EPILOGUE " + std::to_string(launches[1].key.vec) + "\n";
      if (!part.keep) text += "#define PF_RESULT_UNREAD\n";
    }
    text.append("#include \"").append(file).append("\"\n");
    f = device.program(std::string(file) + " " + entry + " with what is around it",
                       {text, true, entry}, defines.str());
  }
  joined.function = f;
  return joined;
}

void program_writes(const void* kernel, const pf_launch& l, GraphRecorder& to) {
  const std::vector<uint8_t>& outputs = static_cast<const Program*>(kernel)->outputs;
  for (size_t o = 0; o < outputs.size(); ++o) {
    const pf_operand& out = l.outputs[o];
    to.writes(out.contiguous ? reach_of(out.data, outputs[o], 1, &l.numel, kNeighbours)
                             : reach_of(out.data, outputs[o], l.ndim, l.shape, out.strides));
  }
}

int program_inputs(const void* kernel) {
  return static_cast<const Program*>(kernel)->text.inputs();
}

pf_status program_create(pf_device device, const pf_program* program, void** kernel) {
  if (pf_status s = faults().check(backend::Faults::kProgramCreate)) return s;
  return guarded([&] {
    Device::get(device);  // the architecture is checked before anything is built
    *kernel = new Program(*program);
  });
}

void program_destroy(pf_device, void* kernel) {
  delete static_cast<Program*>(kernel);
}

pf_status program_launch(pf_device device, pf_stream stream, void* kernel,
                         const pf_launch* launch) {
  if (pf_status s = faults().check(backend::Faults::kProgramLaunch)) return s;
  return guarded([&] {
    Device& d = Device::get(device);
    Program& p = *static_cast<Program*>(kernel);
    if (GraphRecorder* r = d.stream(stream).queue.recorder()) [[unlikely]]
      program_writes(kernel, *launch, *r);
    if (launch->numel == 0 || p.zeros(d, d.stream(stream), *launch)) return;
    gpu::DeviceLaunch l;
    p.text.plan(*launch, l);
    if (l.grid == 0) return;
    void* args[] = {l.words, nullptr};
    const uint32_t sizes[] = {8 * l.nwords};
    d.launch(p.find(d, l.key), d.stream(stream), Grid(l.grid), Grid(l.block), 0, args, sizes, 1,
             "pointwise group", launch->numel <= kSmallWork);
  });
}

}  // namespace pyflame::gpu
