#include "io/safetensors.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "core/tensor_impl.h"
#include "engine/engine.h"
#include "io/file.h"
#include "io/json.h"
#include "pyflame/ops.h"

namespace pyflame::io {

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");

using Entry = SafetensorsFile::Entry;

namespace {

constexpr uint64_t kMaxBytes = uint64_t{1} << 62;

// Bits that a tensor takes, or false on overflow. Zero sizes do not hide an overflow of the
// others, because strides are computed from them.
bool checked_bits(const Dims& shape, DType dtype, uint64_t* bits) {
  uint64_t n = 1, all = 1;
  for (int64_t s : shape) {
    if (__builtin_mul_overflow(all, static_cast<uint64_t>(std::max<int64_t>(s, 1)), &all))
      return false;
    n *= static_cast<uint64_t>(s);
  }
  if (all > kMaxBytes / 16) return false;
  *bits = n * static_cast<uint64_t>(info(dtype).bits);
  return true;
}

// Reads one `{"dtype": ..., "shape": [...], "data_offsets": [a, b]}`.
Entry read_entry(JsonReader& json, std::string name) {
  Entry e{std::move(name), DType::Float32, {}, 0, 0};
  bool dtype = false, shape = false, offsets = false;
  json.expect('{');
  do {
    std::string key = json.string();
    json.expect(':');
    auto once = [&](bool& seen) {
      if (seen) json.fail("the key '" + key + "' twice");
      seen = true;
    };
    if (key == "dtype") {
      once(dtype);
      std::string text = json.string();
      auto known = std::find_if(std::begin(kDTypes), std::end(kDTypes),
                                [&](const DTypeInfo& d) { return d.safetensors == text; });
      if (known == std::end(kDTypes))
        json.fail("the unknown dtype '" + text.substr(0, 20) + "' of '" + e.name + "'");
      e.dtype = known->id;
    } else if (key == "shape") {
      once(shape);
      json.expect('[');
      if (!json.take(']')) {
        do {
          uint64_t size = json.natural();
          if (size > kMaxBytes) json.fail("a size past 2^62");
          if (e.shape.size() == kMaxDims)
            json.fail("more than " + std::to_string(kMaxDims) + " dimensions in '" + e.name + "'");
          e.shape.push_back(static_cast<int64_t>(size));
        } while (json.take(','));
        json.expect(']');
      }
    } else if (key == "data_offsets") {
      once(offsets);
      json.expect('[');
      e.begin = json.natural();
      json.expect(',');
      e.end = json.natural();
      json.expect(']');
    } else {
      json.fail("an unknown key '" + key.substr(0, 60) + "' in '" + e.name + "'");
    }
  } while (json.take(','));
  json.expect('}');
  if (!dtype || !shape || !offsets)
    json.fail("no dtype, shape or data_offsets in '" + e.name + "'");
  return e;
}

void read_header(const std::string& text, uint64_t data_bytes, const std::string& what,
                 std::vector<Entry>* entries, Metadata* metadata) {
  JsonReader json(text, what + ": header");
  if (text.empty() || text[0] != '{') json.fail("no '{' at the start of the header");
  bool has_metadata = false;
  json.expect('{');
  if (!json.take('}')) {
    do {
      std::string name = json.string();
      json.expect(':');
      if (name != "__metadata__") {
        entries->push_back(read_entry(json, std::move(name)));
        continue;
      }
      if (has_metadata) json.fail("__metadata__ twice");
      has_metadata = true;
      json.expect('{');
      if (json.take('}')) continue;
      do {
        std::string key = json.string();
        json.expect(':');
        std::string value = json.string();
        if (!metadata->emplace(std::move(key), std::move(value)).second)
          json.fail("a key of __metadata__ twice");
      } while (json.take(','));
      json.expect('}');
    } while (json.take(','));
    json.expect('}');
  }
  json.end();

  std::unordered_set<std::string_view> names;
  for (const Entry& e : *entries) {
    if (!names.insert(e.name).second) json.fail("the tensor '" + e.name + "' twice");
    uint64_t bits = 0;
    bool fits = checked_bits(e.shape, e.dtype, &bits);
    if (!fits || bits % 8 != 0 || e.begin > e.end || e.end - e.begin != bits / 8)
      PF_FAIL(FileError, "load", what, ": tensor '", e.name, "' of shape ", e.shape, " and dtype ",
              name(e.dtype), " has data_offsets [", e.begin, ", ", e.end,
              "]; expected as many bytes as shape and dtype need; restore the file from a copy");
  }
  std::sort(entries->begin(), entries->end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  for (const Entry& e : *entries) {
    if (e.begin != at)
      PF_FAIL(FileError, "load", what, ": tensor '", e.name, "' begins at byte ", e.begin,
              " of the data where ", at, " bytes are taken",
              "; expected tensors without holes or overlaps; restore the file from a copy");
    at = e.end;
  }
  if (at != data_bytes)
    PF_FAIL(FileError, "load", what, ": the header describes ", at, " bytes of data, the file has ",
            data_bytes, "; expected the two to be equal (is the file cut off?); ",
            "restore it from a copy");
}

// The whole file in memory, private: writes go to copies of pages.
struct Mapping {
  Mapping(const ReadFile& file) : size(file.size()) {
    base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.fd(), 0);
    if (base == MAP_FAILED)
      PF_FAIL(FileError, "load", "cannot map '", file.path(), "': ", std::strerror(errno),
              "; expected a file that can be mapped; load it without mmap=True");
  }
  ~Mapping() { munmap(base, size); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  void* base;
  size_t size;
};

// A bool is 0 or 1 for every kernel; a file may hold anything.
void normalise_bools(void* data, size_t n) {
  auto* p = static_cast<unsigned char*>(data);
  for (size_t i = 0; i < n; ++i)
    if (p[i] > 1) p[i] = 1;
}

}  // namespace

struct SafetensorsFile::Impl {
  explicit Impl(const std::string& path) : file(path, "load") {}
  std::shared_ptr<Mapping> map() {
    std::lock_guard lock(mutex);
    if (!mapping) mapping = std::make_shared<Mapping>(file);
    return mapping;
  }
  ReadFile file;
  std::vector<Entry> entries;
  Metadata metadata;
  std::unordered_map<std::string_view, size_t> index;
  uint64_t data_start = 0;
  std::mutex mutex;
  std::shared_ptr<Mapping> mapping;
};

void check_safetensors_header(const std::string& text, uint64_t data_bytes,
                              std::vector<Entry>* entries, Metadata* metadata) {
  read_header(text, data_bytes, "pf.load", entries, metadata);
}

SafetensorsFile::SafetensorsFile(const std::string& path) : impl_(std::make_shared<Impl>(path)) {
  const ReadFile& file = impl_->file;
  uint64_t length = 0;
  PF_CHECK(file.size() >= 8, FileError, "load", "'", path, "' has ", file.size(),
           " bytes; expected a safetensors file, which has at least 8; check the path or restore "
           "the file from a copy");
  file.read(0, &length, 8);
  PF_CHECK(length <= kMaxHeader && length <= file.size() - 8, FileError, "load", "'", path,
           "' states a header of ", length, " bytes and has ", file.size(),
           "; expected a safetensors header of at most 100 MB that fits into the file; the file is "
           "cut off or of another format");
  std::string text(length, '\0');
  file.read(8, text.data(), length);
  impl_->data_start = 8 + length;
  read_header(text, file.size() - impl_->data_start, "pf.load: '" + path + "'", &impl_->entries,
              &impl_->metadata);
  for (size_t i = 0; i < impl_->entries.size(); ++i) impl_->index[impl_->entries[i].name] = i;
}

const std::string& SafetensorsFile::path() const {
  return impl_->file.path();
}
const std::vector<Entry>& SafetensorsFile::entries() const {
  return impl_->entries;
}
const Metadata& SafetensorsFile::metadata() const {
  return impl_->metadata;
}
const Entry* SafetensorsFile::find(const std::string& name) const {
  auto it = impl_->index.find(name);
  return it == impl_->index.end() ? nullptr : &impl_->entries[it->second];
}

Tensor SafetensorsFile::tensor(const Entry& e, Load how, Device device) const {
  uint64_t at = impl_->data_start + e.begin;
  size_t size = static_cast<size_t>(e.end - e.begin);
  if (how == Load::Map && device.is_cpu() && size > 0 && at % itemsize(e.dtype) == 0) {
    std::shared_ptr<Mapping> mapping = impl_->map();
    void* data = static_cast<char*>(mapping->base) + at;
    if (e.dtype == DType::Bool) normalise_bools(data, size);
    return wrap_foreign(data, e.shape, contiguous_strides(e.shape), e.dtype, device, false,
                        [mapping] {});
  }
  Tensor t = make_tensor(e.shape, e.dtype, Device{});
  if (size > 0) {
    void* data = engine::host_data(t, "load", true);
    impl_->file.read(at, data, size);
    if (e.dtype == DType::Bool) normalise_bools(data, size);
    t->storage->exposed = false;
  }
  if (!device.is_cpu()) {
    Tensor moved = make_tensor(e.shape, e.dtype, device.placed());
    if (size > 0) engine::copy_bytes(moved, t);
    t = std::move(moved);
  }
  return device.floating ? afloat(std::move(t)) : t;
}

std::string safetensors_header(const std::vector<Entry>& entries, const Metadata& metadata) {
  std::string out = "{";
  if (!metadata.empty()) {
    out += "\"__metadata__\":{";
    bool first = true;
    for (const auto& [key, value] : metadata) {
      PF_CHECK(is_utf8(key) && is_utf8(value), ValueError, "save",
               "got metadata that is not UTF-8; expected text; encode it, for example in base64");
      if (!first) out += ',';
      first = false;
      append_json_string(out, key);
      out += ':';
      append_json_string(out, value);
    }
    out += '}';
  }
  for (const Entry& e : entries) {
    if (out.size() > 1) out += ',';
    append_json_string(out, e.name);
    out += ":{\"dtype\":\"";
    out += info(e.dtype).safetensors;
    out += "\",\"shape\":[";
    for (int i = 0; i < e.shape.size(); ++i) {
      if (i) out += ',';
      out += std::to_string(e.shape[i]);
    }
    out += "],\"data_offsets\":[" + std::to_string(e.begin) + "," + std::to_string(e.end) + "]}";
  }
  out += '}';
  out.append((kDataAlignment - (out.size() + 8) % kDataAlignment) % kDataAlignment, ' ');
  PF_CHECK(out.size() <= kMaxHeader, ValueError, "save", "got names and metadata of ", out.size(),
           " bytes; expected at most 100 MB; save in several files");
  return out;
}

void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const Metadata& metadata) {
  // Wide items first, so that every tensor is aligned to its items without padding between.
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& t : tensors) {
    PF_CHECK(t.tensor.defined(), ValueError, "save", "got no tensor for '", t.name,
             "'; expected one; leave the name out");
    PF_CHECK(is_utf8(t.name) && t.name != "__metadata__", ValueError, "save", "got the name '",
             t.name, "'; expected UTF-8 text other than __metadata__; choose another name");
    order.push_back(&t);
  }
  std::sort(order.begin(), order.end(), [](const NamedTensor* a, const NamedTensor* b) {
    int wa = info(a->tensor->dtype).bits, wb = info(b->tensor->dtype).bits;
    return wa != wb ? wa > wb : a->name < b->name;
  });
  std::vector<Entry> entries;
  std::unordered_set<std::string_view> names;
  uint64_t at = 0;
  for (const NamedTensor* t : order) {
    PF_CHECK(names.insert(t->name).second, ValueError, "save", "got the name '", t->name,
             "' twice; expected names to differ; rename one");
    const Tensor& x = t->tensor;
    PF_CHECK(static_cast<uint64_t>(x->numel) * static_cast<uint64_t>(info(x->dtype).bits) % 8 == 0,
             ShapeError, "save", "got '", t->name, "' of ", x->numel, " elements of ",
             name(x->dtype), "; expected a whole number of bytes; pad the tensor");
    uint64_t size = nbytes(x->dtype, x->numel);
    entries.push_back({t->name, x->dtype, x->shape, at, at + size});
    at += size;
  }
  std::string header = safetensors_header(entries, metadata);
  uint64_t length = header.size();
  AtomicFile file(path, "save");
  file.write(&length, 8);
  file.write(header.data(), header.size());
  std::vector<char> staging;
  for (const NamedTensor* t : order) {
    if (t->tensor->numel == 0) continue;
    const Tensor& x = t->tensor;
    // Without history: saving must not extend a graph.
    Tensor plain = make_view(x, x->shape, x->strides, x->offset);
    if (!plain->contiguous) plain = contiguous(plain);
    size_t size = nbytes(plain->dtype, plain->numel);
    if (plain->storage->device.is_cpu()) {
      file.write(engine::host_data(plain, "save"), size);
    } else {
      staging.resize(size);
      engine::copy_to_host(staging.data(), plain);
      file.write(staging.data(), size);
    }
  }
  file.commit();
}

std::vector<NamedTensor> load_safetensors(const std::string& path, Device device, Load how,
                                          Metadata* metadata) {
  SafetensorsFile file(path);
  if (metadata) *metadata = file.metadata();
  std::vector<NamedTensor> tensors;
  for (const Entry& e : file.entries()) tensors.push_back({e.name, file.tensor(e, how, device)});
  return tensors;
}

}  // namespace pyflame::io
