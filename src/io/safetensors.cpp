#include "io/safetensors.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "core/mapped.h"
#include "core/tensor_impl.h"
#include "engine/engine.h"
#include "files/file.h"
#include "io/formats.h"
#include "io/json.h"
#include "io/stored.h"
#include "ops/functions.h"

namespace pyflame::io {

static_assert(std::endian::native == std::endian::little, "safetensors data are little-endian");

using Entry = SafetensorsFile::Entry;
using files::AtomicFile;

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
      if (known != std::end(kDTypes))
        e.dtype = known->id;
      else
        e.unknown = text.empty() ? "?" : text.substr(0, 20);
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

// `where` names the file in errors ("'x.safetensors': "), or is empty.
void read_header(std::string_view text, const std::string& where, std::vector<Entry>* entries,
                 Metadata* metadata) {
  JsonReader json(text, "pf.load: " + where + "header");
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
  names.reserve(entries->size());
  for (const Entry& e : *entries) {
    if (!names.insert(e.name).second) json.fail("the tensor '" + e.name + "' twice");
    uint64_t bits = 0;
    bool fits = checked_bits(e.shape, e.dtype, &bits);
    // How many bits its elements take only its writer knows.
    if (!e.unknown.empty() && fits && e.begin <= e.end) bits = (e.end - e.begin) * 8;
    if (!fits || bits % 8 != 0 || e.begin > e.end || e.end - e.begin != bits / 8)
      PF_FAIL(FileError, "load", where, "tensor '", e.name, "' of shape ", e.shape, " and dtype ",
              e.unknown.empty() ? std::string(name(e.dtype)) : e.unknown, " has data_offsets [",
              e.begin, ", ", e.end,
              "]; expected as many bytes as shape and dtype need; restore the file from a copy");
  }
  std::sort(entries->begin(), entries->end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  uint64_t at = 0;
  for (const Entry& e : *entries) {
    if (e.begin != at)
      PF_FAIL(FileError, "load", where, "tensor '", e.name, "' begins at byte ", e.begin,
              " of the data where ", at, " bytes are taken",
              "; expected tensors without holes or overlaps; restore the file from a copy");
    at = e.end;
  }
}

void check_size(const std::vector<Entry>& entries, uint64_t data_bytes, const std::string& where) {
  const uint64_t at = entries.empty() ? 0 : entries.back().end;
  if (at != data_bytes)
    PF_FAIL(FileError, "load", where, "the header describes ", at, " bytes of data, the file has ",
            data_bytes, "; expected the two to be equal (is the file cut off?); ",
            "restore it from a copy");
}

}  // namespace

struct SafetensorsFile::Impl {
  template <class From>
  explicit Impl(const From& from) : source(from) {
    open();
  }
  void open();
  Stored source;
  std::vector<Entry> entries;
  Metadata metadata;
  std::unordered_map<std::string_view, size_t> index;
  uint64_t data_start = 0;
};

uint64_t safetensors_data_bytes(std::string_view header, const std::string& name) {
  std::vector<Entry> entries;
  Metadata metadata;
  read_header(header, "'" + name + "': ", &entries, &metadata);
  return entries.empty() ? 0 : entries.back().end;
}

void SafetensorsFile::Impl::open() {
  const std::string& path = source.path();
  const uint64_t size = source.size();
  // What else it may be, for errors.
  auto refuse_format = [&] {
    std::string head(static_cast<size_t>(std::min<uint64_t>(size, kFormatHead)), '\0');
    source.read(0, head.data(), head.size());
    Format format = foreign_format(head);
    if (!format.name.empty())
      PF_FAIL(FileError, "load", "'", path, "' is ", format.name,
              "; expected a safetensors file, or one written by pf.save; ", format.way_out);
  };
  uint64_t length = 0;
  if (size < 8) {
    refuse_format();
    PF_FAIL(FileError, "load", "'", path, "' has ", size,
            " bytes; expected a safetensors file, which has at least 8; check the path or restore "
            "the file from a copy");
  }
  source.read(0, &length, 8);
  char first = 0;
  if (size > 8) source.read(8, &first, 1);
  if (length > kMaxHeader || length > size - 8) {
    if (length > kMaxHeader || first != '{') refuse_format();
    PF_FAIL(FileError, "load", "'", path, "' is no safetensors file, or is cut off: the header ",
            "would have ", length, " bytes, and the file has ", size,
            "; expected a header of at most 100 MB that fits into the file; check the path or "
            "restore the file from a copy");
  }
  std::string text(length, '\0');
  source.read(8, text.data(), length);
  if (text.empty() || text[0] != '{') refuse_format();
  data_start = 8 + length;
  const std::string where = "'" + path + "': ";
  read_header(text, where, &entries, &metadata);
  check_size(entries, size - data_start, where);
  index.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) index[entries[i].name] = i;
}

SafetensorsFile::SafetensorsFile(const std::string& path) : impl_(std::make_shared<Impl>(path)) {}

SafetensorsFile::SafetensorsFile(const Memory& memory) : impl_(std::make_shared<Impl>(memory)) {}

const std::string& SafetensorsFile::path() const {
  return impl_->source.path();
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
  PF_CHECK(e.unknown.empty(), FileError, "load", "'", path(), "': tensor '", e.name,
           "' has the dtype ", e.unknown,
           ", which PyFlame does not have; the other tensors of the file can be read; convert this "
           "one with the program that wrote it");
  return impl_->source.tensor(impl_->data_start + e.begin, e.shape, e.dtype, how, device);
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
  AtomicFile file(path, "save");
  save_safetensors([&](const void* data, size_t size) { file.write(data, size); }, tensors,
                   metadata);
  file.commit();
}

void save_safetensors(const Sink& sink, const std::vector<NamedTensor>& tensors,
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
  std::vector<Tensor> views;
  std::unordered_set<std::string_view> names;
  uint64_t at = 0;
  for (const NamedTensor* t : order) {
    PF_CHECK(names.insert(t->name).second, ValueError, "save", "got the name '", t->name,
             "' twice; expected names to differ; rename one");
    // As it is now, and without history: a sink may run Python, and saving must not extend a graph.
    const Tensor& given = t->tensor;
    const Tensor x = make_view(given, given->shape, given->strides, given->offset);
    PF_CHECK(static_cast<uint64_t>(x->numel) * static_cast<uint64_t>(info(x->dtype).bits) % 8 == 0,
             ShapeError, "save", "got '", t->name, "' of ", x->numel, " elements of ",
             name(x->dtype), "; expected a whole number of bytes; pad the tensor");
    uint64_t size = nbytes(x->dtype, x->numel);
    entries.push_back({t->name, x->dtype, x->shape, at, at + size});
    views.push_back(x);
    at += size;
  }
  std::string header = safetensors_header(entries, metadata);
  uint64_t length = header.size();
  sink(&length, 8);
  sink(header.data(), header.size());
  std::vector<char> staging;
  for (const Tensor& x : views) {
    if (x->numel == 0) continue;
    const Tensor plain = x->contiguous ? x : contiguous(x);
    size_t size = nbytes(plain->dtype, plain->numel);
    if (plain->storage->device.is_cpu()) {
      sink(engine::host_data(plain, "save"), size);
      check_mapped(plain->storage->data, "save");
    } else {
      staging.resize(size);
      engine::copy_to_host(staging.data(), plain);
      sink(staging.data(), size);
    }
  }
}

std::vector<NamedTensor> load_safetensors(const std::string& path, Device device, Load how,
                                          Metadata* metadata) {
  SafetensorsFile file(path);
  if (metadata) *metadata = file.metadata();
  std::vector<NamedTensor> tensors;
  for (const Entry& e : file.entries()) tensors.push_back({e.name, file.tensor(e, how, device)});
  return tensors;
}

void write_file_atomically(const std::string& path, const void* data, size_t size) {
  AtomicFile f(path, "save");
  f.write(data, size);
  f.commit();
}

}  // namespace pyflame::io
