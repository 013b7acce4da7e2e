#include "engine/user_kernel.h"

#include "core/backends.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/placement.h"

namespace pyflame::engine {

UserKernel::UserKernel(std::string source, std::string entry, std::string options)
    : source_(std::move(source)),
      entry_(std::move(entry)),
      options_(std::move(options)),
      op_("kernel " + entry_) {}

void* UserKernel::function(Device device) {
  const pf_backend* b = usable_backend_of(device);
  PF_CHECK(PF_HAS(b, function_create) && PF_HAS(b, function_launch), NotSupportedError, op_.c_str(),
           "got tensors on ", device.str(),
           "; expected a GPU, since kernels are compiled for one; move the tensors with "
           ".to('gpu'), and write the operation in PyFlame's own where there is no GPU");
  const int key = static_cast<int>(device.type) << 8 | device.index;
  GilScope gil;
  std::lock_guard lock(mutex_);
  void*& f = functions_[key];
  if (f) return f;
  long_work(int64_t{1} << 40);
  pf_status status =
      b->function_create(device.index, source_.c_str(), options_.c_str(), entry_.c_str(), &f);
  if (status != PF_OK) raise_status(b, status, op_.c_str());
  return f;
}

void UserKernel::compile(Device device) {
  function(device);
}

Device UserKernel::target(std::span<const Tensor> written, std::span<const Tensor> read) const {
  if (!written.empty()) {
    const TensorImpl& home = *written[0].impl();
    for (const Tensor& t : written)
      if (!(t->storage->device == home.storage->device))
        Target::refuse(op_.c_str(), home, *t.impl());
    for (const Tensor& t : read) check_source(home, *t.impl(), op_.c_str());
    return home.device();
  }
  Target all(op_.c_str());
  for (const Tensor& t : read) all.add(*t.impl());
  Device d = all.device(get_device());
  d.floating = all.floats(get_device());
  return d;
}

void UserKernel::launch(Device device, const uint32_t grid[3], const uint32_t block[3],
                        uint32_t shared_bytes, std::vector<UserArgument> args) {
  std::vector<Tensor> outs, ins;
  for (const UserArgument& a : args) {
    if (!a.tensor.defined()) continue;
    (a.written ? outs : ins).push_back(a.tensor);
  }
  void* f = function(device);
  const std::function<void(Device, std::span<const pf_tensor>)> run =
      [&](Device d, std::span<const pf_tensor> tensors) {
        std::vector<void*> addresses(args.size()), list(args.size() + 1);
        size_t out = 0, in = outs.size();
        for (size_t i = 0; i < args.size(); ++i) {
          if (args[i].tensor.defined()) {
            addresses[i] = tensors[args[i].written ? out++ : in++].data;
            list[i] = &addresses[i];
          } else {
            list[i] = args[i].bytes;
          }
        }
        PF_CHECK(d == device, DeviceError, op_.c_str(), "the tensors are on ", d.str(),
                 ", and the kernel was to run on ", device.str(), "; move them with .to()");
        const pf_backend* b = backend_of(d);
        pf_status status =
            b->function_launch(d.index, handle_of(current_group().stream(d)), f, grid, block,
                               shared_bytes, list.data(), static_cast<int32_t>(args.size()));
        if (status != PF_OK) raise_status(b, status, op_.c_str());
      };
  static const Kernel any({"user kernel", Anchor::General, 0});
  CallOptions options;
  options.op = op_.c_str();
  options.inplace = CallOptions::kAllInplace;
  options.run = &run;
  options.takes = Takes::All;  // its declaration says which
  if (!outs.empty() || !ins.empty())
    call(any, outs, ins, {}, options);
  else
    run(device, {});
}

}  // namespace pyflame::engine
