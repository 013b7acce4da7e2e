// What the host reads of a tensor: elements, vectors, addresses, text.
#include <cstring>
#include <ostream>

#include "core/backends.h"
#include "core/dispatch.h"
#include "core/mapped.h"
#include "core/tensor_impl.h"
#include "core/values.h"
#include "engine/engine.h"
#include "ops/functions.h"
#include "pyflame/autograd.h"

namespace pyflame {
namespace {

[[noreturn]] void refuse_item(DType dtype) {
  PF_FAIL(DTypeError, "item", "got a ", name(dtype),
          " tensor; convert it first, for example with .to(pf.float32)");
}

// Reads element `i` of memory that holds `dtype`.
Scalar read_element(const void* data, DType dtype, int64_t i) {
  Scalar r;
  if (dtype == DType::Int4) {
    const uint8_t byte = static_cast<const uint8_t*>(data)[i >> 1];
    return int64_t{static_cast<int8_t>(static_cast<uint8_t>(i & 1 ? byte : byte << 4)) >> 4};
  }
  const bool known = dispatch_stored(dtype, [&]<class S>() {
    if constexpr (std::is_same_v<S, bool8>)
      r = static_cast<bool>(static_cast<const S*>(data)[i]);
    else if constexpr (kIsHalf<S> || kIsFloat8<S>)
      r = to_float(static_cast<const S*>(data)[i]);
    else if constexpr (std::is_same_v<S, uint64_t>)
      r = Scalar::of_unsigned(static_cast<const S*>(data)[i]);
    else if constexpr (std::is_floating_point_v<S>)
      r = static_cast<const S*>(data)[i];
    else if constexpr (std::is_integral_v<S>)
      r = static_cast<int64_t>(static_cast<const S*>(data)[i]);
    else
      refuse_item(dtype);
  });
  if (!known) refuse_item(dtype);
  return r;
}

template <class T>
T convert(Scalar s) {
  if (s.is_unsigned() && std::is_floating_point_v<T>) return static_cast<T>(s.to_double());
  return s.is_float() ? static_cast<T>(s.f) : static_cast<T>(s.i);
}

template <class T>
constexpr bool matches(DType t) {
  if constexpr (std::is_same_v<T, float>) return t == DType::Float32;
  if constexpr (std::is_same_v<T, double>) return t == DType::Float64;
  if constexpr (std::is_same_v<T, float16>) return t == DType::Float16;
  if constexpr (std::is_same_v<T, bfloat16>) return t == DType::BFloat16;
  if constexpr (std::is_same_v<T, int64_t>) return t == DType::Int64;
  if constexpr (std::is_same_v<T, int32_t>) return t == DType::Int32;
  if constexpr (std::is_same_v<T, int16_t>) return t == DType::Int16;
  if constexpr (std::is_same_v<T, int8_t>) return t == DType::Int8;
  if constexpr (std::is_same_v<T, uint8_t>) return t == DType::UInt8 || t == DType::Bool;
  if constexpr (std::is_same_v<T, bool>) return t == DType::Bool;
  return false;
}

}  // namespace

Scalar Tensor::item() const {
  PF_CHECK(p_->numel == 1, ShapeError, "item", "got a tensor of shape ", p_->shape, " with ",
           p_->numel, " elements; expected exactly one; index or reduce it first");
  const pf_backend* b = backend_of(device());
  if (b->host_readable) {
    const Scalar value = read_element(engine::host_data(*this, "item"), p_->dtype, 0);
    check_mapped(p_->storage->data, "item");
    return value;
  }
  alignas(16) char value[16];
  Tensor one = p_->contiguous
                   ? *this
                   : make_view(*this, p_->shape, contiguous_strides(p_->shape), p_->offset);
  engine::copy_to_host(value, one);
  return read_element(value, p_->dtype, 0);
}

template <class T>
T Tensor::item() const {
  return convert<T>(item());
}

template <class T>
T* Tensor::data() const {
  PF_CHECK(matches<T>(p_->dtype), DTypeError, "data", "the tensor holds ", name(p_->dtype),
           "; ask for that type or convert it with to()");
  return static_cast<T*>(engine::host_data(*this, "data", true));
}

namespace {
std::vector<char> bytes_of(const Tensor& t) {
  NoGrad no_grad;
  const DeviceScope home(t.device());
  Tensor c = contiguous(t);
  std::vector<char> bytes(nbytes(t->dtype, t->numel));
  engine::copy_to_host(bytes.data(), c);
  return bytes;
}
}  // namespace

template <class T>
std::vector<T> Tensor::to_vector() const {
  const std::vector<char> bytes = bytes_of(*this);
  std::vector<T> r(static_cast<size_t>(p_->numel));
  for (size_t i = 0; i < r.size(); ++i)
    r[i] = convert<T>(read_element(bytes.data(), p_->dtype, static_cast<int64_t>(i)));
  return r;
}

std::vector<Scalar> read_values(const Tensor& t) {
  const std::vector<char> bytes = bytes_of(t);
  std::vector<Scalar> r(static_cast<size_t>(t->numel));
  for (size_t i = 0; i < r.size(); ++i)
    r[i] = read_element(bytes.data(), t->dtype, static_cast<int64_t>(i));
  return r;
}

std::vector<std::complex<double>> read_complex(const Tensor& t) {
  PF_CHECK(info(t->dtype).kind == Kind::Complex, DTypeError, "tolist", "got dtype ", t->dtype,
           "; expected a complex one; read it with tolist()");
  const std::vector<char> bytes = bytes_of(t);
  std::vector<std::complex<double>> r(static_cast<size_t>(t->numel));
  for (size_t i = 0; i < r.size(); ++i) {
    if (t->dtype == DType::Complex128) {
      std::memcpy(&r[i], bytes.data() + 16 * i, 16);
    } else {
      std::complex<float> narrow;
      std::memcpy(&narrow, bytes.data() + 8 * i, 8);
      r[i] = narrow;
    }
  }
  return r;
}

#define PF_INSTANTIATE(T)             \
  template T Tensor::item<T>() const; \
  template std::vector<T> Tensor::to_vector<T>() const;
PF_INSTANTIATE(float)
PF_INSTANTIATE(double)
PF_INSTANTIATE(int64_t)
PF_INSTANTIATE(int32_t)
PF_INSTANTIATE(int16_t)
PF_INSTANTIATE(int8_t)
PF_INSTANTIATE(uint8_t)
#undef PF_INSTANTIATE
template bool Tensor::item<bool>() const;
template float* Tensor::data<float>() const;
template double* Tensor::data<double>() const;
template float16* Tensor::data<float16>() const;
template bfloat16* Tensor::data<bfloat16>() const;
template int64_t* Tensor::data<int64_t>() const;
template int32_t* Tensor::data<int32_t>() const;
template int16_t* Tensor::data<int16_t>() const;
template int8_t* Tensor::data<int8_t>() const;
template uint8_t* Tensor::data<uint8_t>() const;
template bool* Tensor::data<bool>() const;

// ---- printing ----------------------------------------------------------------------------------

std::ostream& operator<<(std::ostream& s, const Tensor& t) {
  if (!t.defined()) return s << "tensor(undefined)";
  constexpr int64_t kShown = 1000;
  s << "tensor(shape=" << t->shape << ", dtype=" << name(t->dtype);
  if (!t->storage->device.is_cpu()) s << ", device=" << t->storage->device.str();
  if (t->numel <= kShown && info(t->dtype).kind != Kind::Complex) {
    s << ", values=[";
    std::vector<double> v = t.to_vector<double>();
    for (size_t i = 0; i < v.size(); ++i) s << (i ? ", " : "") << v[i];
    s << ']';
  }
  return s << ')';
}

}  // namespace pyflame
