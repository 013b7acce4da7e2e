#include "surroundings.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace pyflame::python {

namespace {

constexpr Py_ssize_t kSample = 64;  // elements that are looked at of a large array

// What an array shows of its memory; nothing where it cannot.
class Shown {
 public:
  explicit Shown(PyObject* array) : there_(PyObject_GetBuffer(array, &b_, PyBUF_FULL_RO) == 0) {
    if (!there_) PyErr_Clear();
    dense_ = there_ && PyBuffer_IsContiguous(&b_, 'A') == 1;
  }
  ~Shown() {
    if (there_) PyBuffer_Release(&b_);
  }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;
  explicit operator bool() const { return there_; }
  const Py_buffer* operator->() const { return &b_; }

  const char* format() const { return b_.format ? b_.format : "B"; }
  Py_ssize_t count() const { return b_.itemsize ? b_.len / b_.itemsize : 0; }
  bool dense() const { return dense_; }
  // Element n of those in memory, or else in the order of their indices.
  const char* at(Py_ssize_t n) const {
    if (dense_) return static_cast<const char*>(b_.buf) + n * b_.itemsize;
    Py_ssize_t index[PyBUF_MAX_NDIM];
    for (int d = b_.ndim - 1; d >= 0; --d) {
      index[d] = n % b_.shape[d];
      n /= b_.shape[d];
    }
    return static_cast<const char*>(PyBuffer_GetPointer(&b_, index));
  }

  std::string bytes(Py_ssize_t most) const {
    std::string out;
    const auto len = static_cast<size_t>(b_.len);
    if (most < 0 || len == 0) return out;
    if (b_.len <= most) {
      out.resize(len);
      if (dense_)
        std::memcpy(out.data(), b_.buf, len);
      else if (PyBuffer_ToContiguous(out.data(), &b_, b_.len, 'C') != 0)
        throw PythonError();
      return out;
    }
    const Py_ssize_t last = count() - 1, gaps = std::min(last, kSample - 1);
    for (Py_ssize_t i = 0; i <= gaps; ++i)
      out.append(at(gaps ? last * i / gaps : 0),
                 static_cast<size_t>(std::min<Py_ssize_t>(b_.itemsize, 64)));
    return out;
  }

 private:
  Py_buffer b_;
  bool there_, dense_;
};

// NumPy's dates and types that other packages add to it show no memory.
std::string told(PyObject* array, Py_ssize_t most) {
  const auto size = [&](const char* name) {
    const Obj n(check(PyObject_GetAttrString(array, name)));
    const Py_ssize_t r = PyLong_AsSsize_t(n.get());
    if (r == -1 && PyErr_Occurred()) throw PythonError();
    return r;
  };
  try {
    Obj some = Obj::share(array);
    if (size("nbytes") > most) {
      const Obj flat(check(PyObject_GetAttrString(array, "flat")));
      const Obj step(check(PyLong_FromSsize_t(1 + size("size") / kSample)));
      const Obj every(check(PySlice_New(nullptr, nullptr, step.get())));
      some = Obj(check(PyObject_GetItem(flat.get(), every.get())));
    }
    const Obj bytes(check(PyObject_CallMethod(some.get(), "tobytes", nullptr)));
    char* data = nullptr;
    Py_ssize_t n = 0;
    if (PyBytes_AsStringAndSize(bytes.get(), &data, &n) != 0) throw PythonError();
    return {data, static_cast<size_t>(n)};
  } catch (const PythonError&) {
    PyErr_Clear();
    return {};
  }
}

// A number of NumPy's. What is written in place is told apart by itself.
bool scalar_of_numpy(PyObject* o) {
  const char* name = Py_TYPE(o)->tp_name;
  return std::strncmp(name, "numpy.", 6) == 0 && std::strcmp(name, "numpy.ndarray") != 0 &&
         std::strcmp(name, "numpy.void") != 0 && PyObject_CheckBuffer(o);
}

bool same_numbers(PyObject* now, PyObject* then) {
  const Shown a(now), b(then);
  return a && b && a->ndim == 0 && b->ndim == 0 && std::strcmp(a.format(), b.format()) == 0 &&
         a->len == b->len && std::memcmp(a->buf, b->buf, static_cast<size_t>(a->len)) == 0;
}

PyObject* dict_of(PyTypeObject* of) {
#if PY_VERSION_HEX >= 0x030c0000
  const Obj d(PyType_GetDict(of));  // the class has it, too
  return d.get();
#else
  return of->tp_dict;
#endif
}

Py_ssize_t size_of(PyObject* o) {
  const Py_ssize_t n = PyDict_CheckExact(o) ? PyDict_GET_SIZE(o) : PyObject_Size(o);
  if (n < 0) throw PythonError();
  return n;
}

}  // namespace

Elements::Elements(PyObject* array, Py_ssize_t most) : most_(most) {
  const Shown a(array);
  shown_ = static_cast<bool>(a);
  if (!shown_) {
    bytes_ = told(array, most);
    return;
  }
  itemsize_ = a->itemsize;
  format_ = a.format();
  shape_.assign(a->shape, a->shape + a->ndim);
  if (a->strides) strides_.assign(a->strides, a->strides + a->ndim);
  bytes_ = a.bytes(most);
}

bool Elements::are_those_of(PyObject* array) const {
  const Shown a(array);
  if (static_cast<bool>(a) != shown_) return false;
  if (!a) return told(array, most_) == bytes_;
  if (a->itemsize != itemsize_ || format_ != a.format() ||
      !std::equal(shape_.begin(), shape_.end(), a->shape, a->shape + a->ndim) ||
      !std::equal(strides_.begin(), strides_.end(), a->strides,
                  a->strides + (a->strides ? a->ndim : 0)))
    return false;
  if (most_ < 0) return true;
  if (a->len <= most_ && a.dense())
    return a->len == 0 || std::memcmp(a->buf, bytes_.data(), bytes_.size()) == 0;
  return a.bytes(most_) == bytes_;
}

bool Surroundings::same(PyObject* now, PyObject* then) const {
  if (now == then) return true;
  if (!now || !then || Py_TYPE(now) != Py_TYPE(then)) return false;
  if (std::none_of(plain_.begin(), plain_.end(),
                   [now](nb::handle kind) { return kind.is(now->ob_type); }))
    return scalar_of_numpy(now) && same_numbers(now, then);
  if (PyFloat_CheckExact(now)) {  // 0.0 is not -0.0, and a NaN is one
    const double a = PyFloat_AS_DOUBLE(now), b = PyFloat_AS_DOUBLE(then);
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
  const int equal = PyObject_RichCompareBool(now, then, Py_EQ);
  check(equal);
  return equal == 1;
}

// f(key, value now, number) until it says false; of what is no longer there the value is null.
template <class F>
void Surroundings::each(const Place& p, F&& f) const {
  switch (p.how) {
    case Size:
    case Bytes:
      return;
    case Objects: {
      const Shown a(p.owner);
      if (!a || std::strcmp(a.format(), "O") != 0) return;
      for (Py_ssize_t i = 0; i < std::min(a.count(), most_); ++i) {
        PyObject* now = nullptr;
        std::memcpy(&now, a.at(i), sizeof(void*));
        if (!f(nullptr, now, i)) return;
      }
      return;
    }
    case Function: {
      PyObject* const parts[] = {PyFunction_GET_CODE(p.owner), PyFunction_GET_DEFAULTS(p.owner),
                                 PyFunction_GET_KW_DEFAULTS(p.owner)};
      for (Py_ssize_t i = 0; i < 3; ++i)
        if (!f(nullptr, parts[i], i)) return;
      return;
    }
    case Items:
      for (Py_ssize_t i = 0; i < std::min(size_of(p.owner), most_); ++i)
        if (!f(nullptr, PySequence_Fast_GET_ITEM(p.owner, i), i)) return;
      return;
    case Sequence:
      for (Py_ssize_t i = 0; i < std::min(size_of(p.owner), most_); ++i) {
        const Obj now(check(PySequence_GetItem(p.owner, i)));
        if (!f(nullptr, now.get(), i)) return;
      }
      return;
    case Entries: {
      PyObject *key = nullptr, *value = nullptr;
      if (PyODict_Check(p.owner)) {  // has an order of its own
        const Obj keys(check(PyObject_GetIter(p.owner)));
        for (Py_ssize_t i = 0; i < most_; ++i) {
          const Obj of(PyIter_Next(keys.get()));  // the dict has it, too
          if (PyErr_Occurred()) throw PythonError();
          if (!of.get() || !f(of.get(), PyDict_GetItemWithError(p.owner, of.get()), i)) return;
        }
        return;
      }
      for (Py_ssize_t at = 0, i = 0; i < most_ && PyDict_Next(p.owner, &at, &key, &value); ++i)
        if (!f(key, value, i)) return;
      return;
    }
    case Names:
    case Attributes:
    case Slots:
    case Cells: {
      PyObject* d = p.owner;
      if (PyType_Check(d)) d = dict_of(reinterpret_cast<PyTypeObject*>(d));
      const bool dict = p.how != Slots && PyDict_Check(d);
      for (size_t i = 0; i < p.values.size(); ++i) {
        PyObject* key = p.values[i].key;
        const auto n = static_cast<Py_ssize_t>(i);
        PyObject* now = p.how == Cells   ? PyCell_GET(PyTuple_GET_ITEM(p.owner, n))
                        : dict           ? PyDict_GetItemWithError(d, key)
                        : p.how == Slots ? PyObject_GetAttr(p.owner, key)
                                         : PyObject_GetItem(p.owner, key);
        if (!now && dict && PyErr_Occurred()) throw PythonError();
        if (p.how != Cells && !dict) {  // the owner has it, too
          PyErr_Clear();
          Py_XDECREF(now);
        }
        if (!f(key, now, n)) return;
      }
    }
  }
}

Surroundings::Surroundings(nb::list of, nb::tuple plain, Py_ssize_t most)
    : plain_(std::move(plain)), most_(most) {
  add(std::move(of));
}

void Surroundings::add(nb::list of) {
  places_.reserve(places_.size() + of.size());
  for (nb::handle entry : of) {
    const nb::tuple t = nb::borrow<nb::tuple>(entry);
    const std::string how = nb::cast<std::string>(t[0]);
    places_.push_back({how == "items"        ? Items
                       : how == "entries"    ? Entries
                       : how == "names"      ? Names
                       : how == "attributes" ? Attributes
                       : how == "cells"      ? Cells
                       : how == "elements"   ? Bytes
                       : how == "objects"    ? Objects
                       : how == "slots"      ? Slots
                       : how == "sequence"   ? Sequence
                       : how == "function"   ? Function
                                             : Size,
                       nb::object(t[1]).release().ptr(),
                       0,
                       {},
                       {}});
    Place& p = places_.back();
    const nb::object keys = nb::borrow(t[2]);
    if (p.how == Names || p.how == Attributes || p.how == Slots || p.how == Cells)
      for (nb::handle key : keys) p.values.push_back({key.inc_ref().ptr(), nullptr, false});
    if (p.how == Bytes || p.how == Objects) {
      p.elements = std::make_unique<Elements>(
          p.owner, p.how == Bytes ? nb::cast<Py_ssize_t>(keys) : Py_ssize_t{-1});
      if (p.how == Bytes && p.elements->holds_objects())  // so that none comes to another's place
        p.values.push_back({nullptr, check(PyObject_CallMethod(p.owner, "copy", nullptr)), true});
    } else if (p.sized()) {
      p.size = size_of(p.owner);
    }
    if (p.how == Size && PyFrozenSet_CheckExact(keys.ptr()))
      p.values.push_back({nullptr, keys.inc_ref().ptr(), true});
    each(p, [&](PyObject* key, PyObject* now, Py_ssize_t i) {
      if (p.how == Items || p.how == Sequence || p.how == Entries || p.how == Objects ||
          p.how == Function)
        p.values.push_back({Py_XNewRef(key), nullptr, false});
      Value& v = p.values[static_cast<size_t>(i)];
      v.then = now;
      v.owned = now && !is_tensor(now);
      if (v.owned) Py_INCREF(now);
      return true;
    });
  }
}

Surroundings::Change Surroundings::changed() const {
  for (size_t n = 0; n < places_.size(); ++n) {
    const Place& p = places_[n];
    Change found;
    const auto place = static_cast<Py_ssize_t>(n);
    if (p.elements) {
      if (!p.elements->are_those_of(p.owner)) return {place, nullptr};
    } else if (p.sized() && size_of(p.owner) != p.size) {
      return {place, nullptr};
    }
    if (p.how == Size && !p.values.empty()) {
      const int equal = PyObject_RichCompareBool(p.owner, p.values[0].then, Py_EQ);
      check(equal);
      if (equal == 0) return {place, nullptr};
    }
    each(p, [&](PyObject* key, PyObject* now, Py_ssize_t i) {
      const Value& v = p.values[static_cast<size_t>(i)];
      if (same(now, v.then) && same(key, v.key)) return true;
      found = {place, key};
      return false;
    });
    if (found.place >= 0) return found;
  }
  return {};
}

int Surroundings::traverse(visitproc visit, void* arg) const {
  for (const Place& p : places_) {
    Py_VISIT(p.owner);
    for (const Value& v : p.values) {
      Py_VISIT(v.key);
      if (v.owned) Py_VISIT(v.then);
    }
  }
  return 0;
}

void Surroundings::clear() {
  const std::vector<Place> places = std::move(places_);
  places_.clear();
  for (const Place& p : places) {
    for (const Value& v : p.values) {
      Py_XDECREF(v.key);
      if (v.owned) Py_XDECREF(v.then);
    }
    Py_DECREF(p.owner);
  }
}

void init_surroundings(nb::module_& m) {
  static PyType_Slot slots[] = {
      {Py_tp_traverse, slot(+[](PyObject* self, visitproc visit, void* arg) {
         Py_VISIT(Py_TYPE(self));
         return nb::inst_ready(self) ? nb::inst_ptr<Surroundings>(self)->traverse(visit, arg) : 0;
       })},
      {Py_tp_clear, slot(+[](PyObject* self) {
         nb::inst_ptr<Surroundings>(self)->clear();
         return 0;
       })},
      {0, nullptr}};
  nb::class_<Surroundings>(m, "_Surroundings", nb::type_slots(slots))
      .def(nb::init<nb::list, nb::tuple, Py_ssize_t>())
      .def("add", &Surroundings::add)
      .def("changed", [](const Surroundings& s) -> nb::object {
        const Surroundings::Change c = s.changed();
        if (c.place < 0) return nb::none();
        return nb::make_tuple(c.place, c.key ? nb::borrow(c.key) : nb::none());
      });
}

}  // namespace pyflame::python
