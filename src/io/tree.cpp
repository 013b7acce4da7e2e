// Trees of Python-like values in one safetensors file: the values as JSON in __metadata__, the
// tensors as tensors. Plain values are plain JSON; the rest is an object with the key "$".
#include <cmath>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/tensor_impl.h"
#include "io/json.h"
#include "pyflame/io.h"

namespace pyflame::io {

namespace {

constexpr const char* kTreeKey = "pyflame.tree";

// ---- writing --------------------------------------------------------------------------------

// The elements [begin, end) of a storage that a tensor can reach.
void reach(const Tensor& t, int64_t* begin, int64_t* end) {
  int64_t low = t->offset, high = t->offset;
  for (int i = 0; i < t->shape.size(); ++i) {
    int64_t span = (t->shape[i] - 1) * t->strides[i];
    (span < 0 ? low : high) += span;
  }
  *begin = low;
  *end = high + 1;
}

bool same_geometry(const Tensor& a, const Tensor& b) {
  return a->offset == b->offset && a->shape == b->shape && a->strides == b->strides;
}

// All tensors of the tree that show one storage as one dtype.
struct Shared {
  std::vector<Tensor> views;
  std::string name;  // of the first one
  bool one = true;   // all are the same view
  int64_t begin = 0, end = 0;
  Tensor saved;
};

class Writer {
 public:
  template <class Target>
  void write(const Target& to, const Tree& tree) {
    collect(tree, "", 0);
    for (auto& [key, group] : groups_) prepare(group);
    std::string json;
    emit(tree, json);
    std::vector<NamedTensor> tensors;
    for (auto& [key, group] : groups_) tensors.push_back({group.name, group.saved});
    for (auto& [impl, name] : empties_)
      tensors.push_back({name, Tensor::share(const_cast<TensorImpl*>(impl))});
    save_safetensors(to, tensors, {{kTreeKey, json}});
  }

 private:
  using Key = std::pair<const Storage*, DType>;

  static std::string join(const std::string& prefix, const std::string& step) {
    return prefix.empty() ? step : prefix + "." + step;
  }

  static std::string step_name(const Tree& key) {
    if (auto* s = std::get_if<std::string>(&key.value)) return *s;
    if (auto* i = std::get_if<int64_t>(&key.value)) return std::to_string(*i);
    return "key";
  }

  std::string unique_name(const std::string& path) {
    std::string base = path.empty() ? "tensor" : path;
    if (base == "__metadata__") base = "metadata";
    std::string name = base;
    int64_t& last = last_[base];  // many tensors may lie at the same path
    while (!names_.insert(name).second) name = base + "~" + std::to_string(++last);
    return name;
  }

  void collect(const Tree& tree, const std::string& path, int depth) {
    PF_CHECK(depth <= kMaxTreeDepth, ValueError, "save", "got values nested deeper than ",
             kMaxTreeDepth,
             "; expected a flatter tree without cycles; check for a list or dict "
             "that contains itself");
    PF_CHECK(++nodes_ <= kMaxTreeNodes, ValueError, "save", "got more than ", kMaxTreeNodes,
             " values; expected fewer; keep numbers in tensors");
    if (auto* t = std::get_if<Tensor>(&tree.value)) {
      add(*t, path);
    } else if (auto* l = std::get_if<Tree::List>(&tree.value)) {
      for (size_t i = 0; i < l->size(); ++i)
        collect((*l)[i], join(path, std::to_string(i)), depth + 1);
    } else if (auto* tuple = std::get_if<Tree::Tuple>(&tree.value)) {
      for (size_t i = 0; i < tuple->items.size(); ++i)
        collect(tuple->items[i], join(path, std::to_string(i)), depth + 1);
    } else if (auto* d = std::get_if<Tree::Dict>(&tree.value)) {
      for (const auto& [key, value] : d->items) {
        check_key(key, depth + 1);
        collect(value, join(path, step_name(key)), depth + 1);
      }
    } else if (auto* typed = std::get_if<Tree::Typed>(&tree.value)) {
      const bool plain =
          typed->of.size() == 1 && !std::holds_alternative<Tree::Typed>(typed->of[0].value);
      PF_CHECK(plain, ValueError, "save", "got a value of type '", typed->type,
               "' that is made of another such; expected a plain value; put it into a list");
      collect(typed->of[0], path, depth);
    }
  }

  // Reading counts keys that are no text as values, too.
  void check_key(const Tree& key, int depth) {
    ++nodes_;
    bool bad = std::holds_alternative<Tensor>(key.value) ||
               std::holds_alternative<Tree::List>(key.value) ||
               std::holds_alternative<Tree::Dict>(key.value) || depth > kMaxTreeDepth;
    PF_CHECK(!bad, ValueError, "save",
             "got a dict key that is a tensor, list or dict; expected "
             "text, numbers, None or tuples of them; choose other keys");
    if (auto* tuple = std::get_if<Tree::Tuple>(&key.value))
      for (const Tree& item : tuple->items) check_key(item, depth + 1);
    if (std::holds_alternative<Tree::Typed>(key.value)) collect(key, "key", depth);
  }

  void add(const Tensor& t, const std::string& path) {
    PF_CHECK(t.defined(), ValueError, "save", "got an undefined tensor at '", path,
             "'; expected a tensor or None; save None");
    if (t->numel == 0) {
      if (!empties_.contains(t.impl())) empties_[t.impl()] = unique_name(path);
      return;
    }
    Key key{t->storage.get(), t->dtype};
    auto [it, fresh] = index_.try_emplace(key, groups_.size());
    if (fresh) groups_.emplace_back(key, Shared{});
    Shared& group = groups_[it->second].second;
    int64_t begin, end;
    reach(t, &begin, &end);
    if (fresh) {
      group.name = unique_name(path);
      group.begin = begin;
      group.end = end;
    } else {
      group.one = group.one && same_geometry(group.views[0], t);
      group.begin = std::min(group.begin, begin);
      group.end = std::max(group.end, end);
    }
    group.views.push_back(t);
  }

  // Chooses what is written for a group: the view itself, a view that covers all others, or the
  // covering range as one dimension.
  static void prepare(Shared& group) {
    if (group.one) {
      group.saved = group.views[0];
      return;
    }
    for (const Tensor& t : group.views)
      if (t->contiguous && t->offset == group.begin && t->numel == group.end - group.begin) {
        group.saved = t;
        return;
      }
    group.saved = make_view(group.views[0], Dims{group.end - group.begin}, Dims{1}, group.begin);
  }

  static void marked(std::string& out, const char* kind) {
    out += "{\"$\":\"";
    out += kind;
    out += "\",\"v\":";
  }

  static void ints(std::string& out, const Dims& dims) {
    out += '[';
    for (int i = 0; i < dims.size(); ++i) {
      if (i) out += ',';
      out += std::to_string(dims[i]);
    }
    out += ']';
  }

  void tensor(const Tensor& t, std::string& out) {
    marked(out, "tensor");
    if (t->numel == 0) {
      append_json_string(out, empties_.at(t.impl()));
    } else {
      const Shared& group = groups_[index_.at({t->storage.get(), t->dtype})].second;
      append_json_string(out, group.name);
      if (!group.one && !same_geometry(group.saved, t)) {
        out += ",\"shape\":";
        ints(out, t->shape);
        out += ",\"strides\":";
        ints(out, t->strides);
        out += ",\"offset\":" + std::to_string(t->offset - group.begin);
      }
    }
    if (t.requires_grad()) out += ",\"grad\":true";
    out += '}';
  }

  void items(const Tree::List& list, std::string& out) {
    out += '[';
    bool first = true;
    for (const Tree& item : list) {
      if (!first) out += ',';
      first = false;
      emit(item, out);
    }
    out += ']';
  }

  void dict(const Tree::Dict& d, std::string& out) {
    bool plain = true;
    for (const auto& [key, value] : d.items) {
      auto* text = std::get_if<std::string>(&key.value);
      plain = plain && text && *text != "$";
    }
    if (!plain) marked(out, "dict");
    out += plain ? '{' : '[';
    bool first = true;
    for (const auto& [key, value] : d.items) {
      if (!first) out += ',';
      first = false;
      if (!plain) out += '[';
      emit(key, out);
      out += plain ? ':' : ',';
      emit(value, out);
      if (!plain) out += ']';
    }
    out += plain ? "}" : "]}";
  }

  void emit(const Tree& tree, std::string& out) {
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, std::monostate>) {
            out += "null";
          } else if constexpr (std::is_same_v<T, bool>) {
            out += v ? "true" : "false";
          } else if constexpr (std::is_same_v<T, int64_t>) {
            out += std::to_string(v);
          } else if constexpr (std::is_same_v<T, double>) {
            if (std::isfinite(v)) {
              append_json_double(out, v);
            } else {
              marked(out, "float");
              out += std::isnan(v) ? "\"nan\"}" : v > 0 ? "\"inf\"}" : "\"-inf\"}";
            }
          } else if constexpr (std::is_same_v<T, std::string>) {
            PF_CHECK(is_utf8(v), ValueError, "save",
                     "got text that is not UTF-8; expected UTF-8; save it as bytes");
            append_json_string(out, v);
          } else if constexpr (std::is_same_v<T, Tensor>) {
            tensor(v, out);
          } else if constexpr (std::is_same_v<T, Tree::List>) {
            items(v, out);
          } else if constexpr (std::is_same_v<T, Tree::Tuple>) {
            marked(out, "tuple");
            items(v.items, out);
            out += '}';
          } else if constexpr (std::is_same_v<T, Tree::Dict>) {
            dict(v, out);
          } else if constexpr (std::is_same_v<T, Tree::BigInt>) {
            marked(out, v.digits.find('x') == std::string::npos ? "int" : "hex");
            append_json_string(out, v.digits);
            out += '}';
          } else if constexpr (std::is_same_v<T, Tree::Typed>) {
            marked(out, "typed");
            append_json_string(out, v.type);
            out += ",\"of\":";
            emit(v.of[0], out);
            out += '}';
          } else {
            static const char kHex[] = "0123456789abcdef";
            marked(out, "bytes");
            out += '"';
            for (char ch : v.data) {
              auto c = static_cast<unsigned char>(ch);
              out += kHex[c >> 4];
              out += kHex[c & 15];
            }
            out += "\"}";
          }
        },
        tree.value);
  }

  uint64_t nodes_ = 0;
  std::map<Key, size_t> index_;
  std::vector<std::pair<Key, Shared>> groups_;  // in the order of the tree
  std::map<const TensorImpl*, std::string> empties_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, int64_t> last_;  // number given to a name
};

// ---- reading --------------------------------------------------------------------------------

class Reader {
 public:
  Reader(const SafetensorsFile& file, std::string_view text, const Placing& placing)
      : file_(file),
        json_(text, "pf.load: '" + file.path() + "': " + kTreeKey),
        placing_(placing) {}

  Tree read() {
    Tree tree = value(0);
    json_.end();
    return tree;
  }

  Tensor placed(const SafetensorsFile::Entry& entry) {
    if (!placing_.place) return file_.tensor(entry, placing_.how, placing_.device);
    Tensor t = placing_.place(file_.tensor(entry, placing_.how, Device{}.afloat()));
    PF_CHECK(t.defined() && t->shape == entry.shape && t->dtype == entry.dtype && t->contiguous,
             ValueError, "load", "map_location changed the tensor '", entry.name, "' of shape ",
             entry.shape, " and dtype ", name(entry.dtype),
             "; expected the same values on another device; return storage.to(device)");
    return t;
  }

 private:
  Tree value(int depth, bool typed_too = true) {
    if (depth > kMaxTreeDepth) json_.fail("values nested too deep");
    if (++nodes_ > kMaxTreeNodes) json_.fail("too many values");
    switch (json_.peek()) {
      case 'n':
        json_.word("null");
        return {};
      case 't':
        json_.word("true");
        return {true};
      case 'f':
        json_.word("false");
        return {false};
      case '"':
        return {json_.string()};
      case '[':
        return {list(depth)};
      case '{':
        return object(depth, typed_too);
      default: {
        auto n = json_.number();
        if (auto* i = std::get_if<int64_t>(&n)) return {*i};
        return {std::get<double>(n)};
      }
    }
  }

  Tree::List list(int depth) {
    Tree::List items;
    json_.expect('[');
    if (json_.take(']')) return items;
    do items.push_back(value(depth + 1));
    while (json_.take(','));
    json_.expect(']');
    return items;
  }

  Tree object(int depth, bool typed_too) {
    Tree::Dict dict;
    json_.expect('{');
    if (json_.take('}')) return {std::move(dict)};
    std::unordered_set<std::string> seen;
    do {
      std::string key = json_.string();
      json_.expect(':');
      if (dict.items.empty() && key == "$") {
        Tree special = marked(depth, typed_too);
        json_.expect('}');
        return special;
      }
      if (!seen.insert(key).second) json_.fail("a key twice");
      dict.items.push_back({Tree{std::move(key)}, value(depth + 1)});
    } while (json_.take(','));
    json_.expect('}');
    return {std::move(dict)};
  }

  Tree marked(int depth, bool typed_too) {
    std::string kind = json_.string();
    json_.expect(',');
    if (json_.string() != "v") json_.fail("no \"v\" behind \"$\"");
    json_.expect(':');
    if (kind == "tuple") return {Tree::Tuple{list(depth)}};
    if (kind == "dict") return pairs(depth);
    std::string text = json_.string();
    if (kind == "tensor") return {tensor(text)};
    if (kind == "float") {
      if (text == "nan") return {std::nan("")};
      if (text == "inf") return {HUGE_VAL};
      if (text == "-inf") return {-HUGE_VAL};
    }
    if ((kind == "int" || kind == "hex") && whole_number(text, kind == "hex"))
      return {Tree::BigInt{std::move(text)}};
    if (kind == "bytes") return bytes(text);
    if (kind == "typed" && typed_too) {
      json_.expect(',');
      if (json_.string() != "of") json_.fail("a type without its value");
      json_.expect(':');
      Tree::Typed typed{std::move(text), {}};
      typed.of.push_back(value(depth, false));
      return {std::move(typed)};
    }
    json_.fail("an unknown value of kind '" + kind.substr(0, 20) +
               "' (is the file of a newer PyFlame?)");
  }

  // What Python turns into a number in a time that grows with the number of digits alone.
  static bool whole_number(std::string_view text, bool hex) {
    if (text.starts_with('-')) text.remove_prefix(1);
    if (!hex)
      return !text.empty() && text.size() <= 4300 &&
             text.find_first_not_of("0123456789") == std::string_view::npos;
    if (!text.starts_with("0x")) return false;
    text.remove_prefix(2);
    return !text.empty() && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  }

  Tree bytes(const std::string& text) {
    auto digit = [&](char c) -> int {
      if (c >= '0' && c <= '9') return c - '0';
      if (c >= 'a' && c <= 'f') return c - 'a' + 10;
      json_.fail("a bad hexadecimal digit");
    };
    if (text.size() % 2) json_.fail("half a byte");
    Tree::Bytes out;
    out.data.reserve(text.size() / 2);
    for (size_t i = 0; i < text.size(); i += 2)
      out.data += static_cast<char>(digit(text[i]) * 16 + digit(text[i + 1]));
    return {std::move(out)};
  }

  static bool hashable(const Tree& key) {
    if (auto* tuple = std::get_if<Tree::Tuple>(&key.value)) {
      for (const Tree& item : tuple->items)
        if (!hashable(item)) return false;
      return true;
    }
    return !std::holds_alternative<Tensor>(key.value) &&
           !std::holds_alternative<Tree::List>(key.value) &&
           !std::holds_alternative<Tree::Dict>(key.value);
  }

  Tree pairs(int depth) {
    Tree::Dict dict;
    json_.expect('[');
    if (!json_.take(']')) {
      do {
        json_.expect('[');
        Tree key = value(depth + 1);
        if (!hashable(key)) json_.fail("a dict key that is a tensor, list or dict");
        json_.expect(',');
        Tree item = value(depth + 1);
        json_.expect(']');
        dict.items.push_back({std::move(key), std::move(item)});
      } while (json_.take(','));
      json_.expect(']');
    }
    return {std::move(dict)};
  }

  Dims dims(bool negative) {
    Dims d;
    json_.expect('[');
    if (json_.take(']')) return d;
    do {
      auto n = json_.number();
      auto* i = std::get_if<int64_t>(&n);
      if (!i || d.size() == kMaxDims || (*i < 0 && !negative)) json_.fail("a bad shape or stride");
      d.push_back(*i);
    } while (json_.take(','));
    json_.expect(']');
    return d;
  }

  Tensor tensor(const std::string& name) {
    const auto* entry = file_.find(name);
    if (!entry) json_.fail("the tensor '" + name + "', which the file does not hold");
    bool grad = false, shape = false, strides = false, offset = false;
    Dims view_shape, view_strides;
    int64_t view_offset = 0;
    while (json_.take(',')) {
      std::string key = json_.string();
      json_.expect(':');
      if (key == "grad" && !grad) {
        json_.word("true");
        grad = true;
      } else if (key == "shape" && !shape) {
        view_shape = dims(false);
        shape = true;
      } else if (key == "strides" && !strides) {
        view_strides = dims(true);
        strides = true;
      } else if (key == "offset" && !offset) {
        uint64_t n = json_.natural();
        if (n > (uint64_t{1} << 62)) json_.fail("an offset outside the tensor");
        view_offset = static_cast<int64_t>(n);
        offset = true;
      } else {
        json_.fail("an unknown key of a tensor");
      }
    }
    if (shape != strides || shape != offset) json_.fail("a view without shape, strides or offset");
    if (grad && !is_float(entry->dtype)) json_.fail("a gradient for a tensor of whole numbers");
    auto [it, fresh] = loaded_.try_emplace({name, false});
    if (fresh) it->second = placed(*entry);
    Tensor base = it->second;
    if (shape) {
      check_view(base, view_shape, view_strides, view_offset);
      Tensor view = make_view(base, view_shape, view_strides, base->offset + view_offset);
      if (grad) view.requires_grad_(true);
      return view;
    }
    if (!grad) return base;
    auto [with, first] = loaded_.try_emplace({name, true});
    if (first) {
      with->second = make_view(base, base->shape, base->strides, base->offset);
      with->second.requires_grad_(true);
    }
    return with->second;
  }

  void check_view(const Tensor& base, const Dims& shape, const Dims& strides, int64_t offset) {
    __int128 low = offset, high = offset, count = 1;
    bool ok = shape.size() == strides.size();
    for (int i = 0; ok && i < shape.size(); ++i) {
      ok = shape[i] >= 1 && (count *= shape[i]) <= (__int128{1} << 58);
      __int128 span = static_cast<__int128>(shape[i] - 1) * strides[i];
      (span < 0 ? low : high) += span;
    }
    if (!ok || low < 0 || high >= base->numel) json_.fail("a view that leaves its tensor");
  }

  const SafetensorsFile& file_;
  JsonReader json_;
  const Placing& placing_;
  uint64_t nodes_ = 0;
  std::map<std::pair<std::string, bool>, Tensor> loaded_;
};

}  // namespace

void save_tree(const std::string& path, const Tree& tree) {
  Writer().write(path, tree);
}

void save_tree(const Sink& sink, const Tree& tree) {
  Writer().write(sink, tree);
}

namespace {
Tree read_tree(const SafetensorsFile& file, const Placing& placing) {
  auto it = file.metadata().find(kTreeKey);
  if (it != file.metadata().end()) return Reader(file, it->second, placing).read();
  Tree::Dict dict;
  Reader plain(file, "", placing);
  for (const auto& e : file.entries()) dict.items.push_back({Tree{e.name}, Tree{plain.placed(e)}});
  return {std::move(dict)};
}
}  // namespace

Tree load_tree(const std::string& path, const Placing& placing) {
  return read_tree(SafetensorsFile(path), placing);
}

Tree load_tree(const std::string& path, Device device, Load how) {
  return load_tree(path, Placing{device, how});
}

Tree load_tree(const Memory& memory, const Placing& placing) {
  return read_tree(SafetensorsFile(memory), placing);
}

}  // namespace pyflame::io
