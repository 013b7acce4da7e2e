// oneDNN's convolution called alone, for roof.cpp: operands in the layouts that it likes best, made
// before the timing, and nothing else. Needs headers of version 2 (its interface changed with 3).
#pragma once

#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#endif

#if defined(DNNL_VERSION_MAJOR) && DNNL_VERSION_MAJOR == 2
#define PF_ONEDNN_CONV 1
#include <dlfcn.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

// By its declaration in the header, from the library that was opened.
#define PF_DNNL(NAME) reinterpret_cast<decltype(&dnnl_##NAME)>(dlsym(library_, "dnnl_" #NAME))

class OneDnnConv {
 public:
  // Square pictures and kernels, `same` padding. Both: the two gradients, too.
  struct Sizes {
    int64_t batch, in, out, size, kernel, stride;
    int both;
    bool operator==(const Sizes&) const = default;
  };

  OneDnnConv(void* library, const Sizes& s) : sizes(s), library_(library) {
    if (!PF_DNNL(convolution_forward_desc_init) ||  // of another version
        PF_DNNL(engine_create)(&engine_, dnnl_cpu, 0) ||
        PF_DNNL(stream_create)(&stream_, engine_, dnnl_stream_default_flags))
      return;
    const int64_t y = (s.size + s.stride - 1) / s.stride, pad = s.kernel / 2;
    const dnnl_memory_desc_t x_md = any({s.batch, s.in, s.size, s.size}),
                             w_md = any({s.out, s.in, s.kernel, s.kernel}),
                             y_md = any({s.batch, s.out, y, y});
    const dnnl_dims_t step{s.stride, s.stride}, before{pad, pad};
    const int64_t rest = (y - 1) * s.stride + s.kernel - s.size - pad;
    const dnnl_dims_t behind{rest, rest};
    dnnl_convolution_desc_t d;
    PF_DNNL(convolution_forward_desc_init)
    (&d, s.both ? dnnl_forward_training : dnnl_forward_inference, dnnl_convolution_direct, &x_md,
     &w_md, nullptr, &y_md, step, before, behind);
    dnnl_primitive_desc_t hint = add(&d, nullptr, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST});
    if (!s.both) return;
    PF_DNNL(convolution_backward_data_desc_init)
    (&d, dnnl_convolution_direct, &x_md, &w_md, &y_md, step, before, behind);
    add(&d, hint, {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC});
    PF_DNNL(convolution_backward_weights_desc_init)
    (&d, dnnl_convolution_direct, &x_md, &w_md, nullptr, &y_md, step, before, behind);
    add(&d, hint, {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS});
  }
  bool works() const { return !passes_.empty() && !failed_; }
  double flops() const {
    const double y = static_cast<double>((sizes.size + sizes.stride - 1) / sizes.stride);
    return 2.0 * (sizes.both ? 3 : 1) * y * y *
           static_cast<double>(sizes.batch * sizes.in * sizes.out * sizes.kernel * sizes.kernel);
  }
  void run() const {
    for (const Pass& p : passes_) PF_DNNL(primitive_execute)
    (p.primitive, stream_, static_cast<int>(p.args.size()), p.args.data());
    PF_DNNL(stream_wait)(stream_);
  }

  const Sizes sizes;

 private:
  struct Pass {
    dnnl_primitive_t primitive;
    std::vector<dnnl_exec_arg_t> args;
  };
  dnnl_memory_desc_t any(std::initializer_list<int64_t> sizes) const {
    dnnl_dims_t dims;
    int n = 0;
    for (const int64_t size : sizes) dims[n++] = size;
    dnnl_memory_desc_t md;
    PF_DNNL(memory_desc_init_by_tag)(&md, n, dims, dnnl_f32, dnnl_format_tag_any);
    return md;
  }
  dnnl_primitive_desc_t add(const dnnl_convolution_desc_t* d, dnnl_primitive_desc_t hint,
                            std::initializer_list<int> args) {
    dnnl_primitive_desc_t made = nullptr;
    Pass pass{};
    if (PF_DNNL(primitive_desc_create)(&made, d, nullptr, engine_, hint) ||
        PF_DNNL(primitive_create)(&pass.primitive, made)) {
      failed_ = true;
      return made;
    }
    for (const int arg : args) {
      const dnnl_memory_desc_t* md =
          PF_DNNL(primitive_desc_query_md)(made, dnnl_query_exec_arg_md, arg);
      dnnl_memory_t memory = nullptr;
      void* data = nullptr;
      if (PF_DNNL(memory_create)(&memory, md, engine_, DNNL_MEMORY_ALLOCATE) ||
          PF_DNNL(memory_get_data_handle)(memory, &data)) {
        failed_ = true;
        return made;
      }
      auto* f = static_cast<float*>(data);
      uint32_t random = 1;
      for (size_t i = 0; i < PF_DNNL(memory_desc_get_size)(md) / sizeof(float); ++i)
        f[i] = static_cast<float>((random = random * 1664525u + 1013904223u) >> 8) / 16777216.0f -
               0.5f;
      pass.args.push_back({arg, memory});
    }
    passes_.push_back(pass);
    return made;
  }

  void* library_;
  dnnl_engine_t engine_ = nullptr;
  dnnl_stream_t stream_ = nullptr;
  std::vector<Pass> passes_;
  bool failed_ = false;
};
#undef PF_DNNL
#endif
