#include "surroundings.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace pyflame::python {

namespace {

Py_ssize_t size_of(PyObject* o) {
  const Py_ssize_t n = PyDict_CheckExact(o) ? PyDict_GET_SIZE(o) : PyObject_Size(o);
  if (n < 0) throw PythonError();
  return n;
}

}  // namespace

bool Surroundings::same(PyObject* now, PyObject* then) const {
  if (now == then) return true;
  if (!now || !then || Py_TYPE(now) != Py_TYPE(then)) return false;
  if (std::none_of(plain_.begin(), plain_.end(),
                   [now](nb::handle kind) { return kind.is(now->ob_type); }))
    return false;
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
      return;
    case Items:
      for (Py_ssize_t i = 0; i < std::min(size_of(p.owner), most_); ++i)
        if (!f(nullptr, PySequence_Fast_GET_ITEM(p.owner, i), i)) return;
      return;
    case Entries: {
      PyObject *key = nullptr, *value = nullptr;
      for (Py_ssize_t at = 0, i = 0; i < most_ && PyDict_Next(p.owner, &at, &key, &value); ++i)
        if (!f(key, value, i)) return;
      return;
    }
    case Names:
    case Attributes:
    case Cells:
      for (size_t i = 0; i < p.values.size(); ++i) {
        PyObject* key = p.values[i].key;
        const auto n = static_cast<Py_ssize_t>(i);
        PyObject* now = p.how == Cells          ? PyCell_GET(PyTuple_GET_ITEM(p.owner, n))
                        : PyDict_Check(p.owner) ? PyDict_GetItemWithError(p.owner, key)
                                                : PyObject_GetItem(p.owner, key);
        if (!now && PyErr_Occurred() && PyDict_Check(p.owner)) throw PythonError();
        if (p.how != Cells && !PyDict_Check(p.owner)) {  // the mapping has it, too
          PyErr_Clear();
          Py_XDECREF(now);
        }
        if (!f(key, now, n)) return;
      }
  }
}

Surroundings::Surroundings(nb::list of, nb::tuple plain, Py_ssize_t most)
    : plain_(std::move(plain)), most_(most) {
  places_.reserve(of.size());
  for (nb::handle entry : of) {
    const nb::tuple t = nb::borrow<nb::tuple>(entry);
    const std::string how = nb::cast<std::string>(t[0]);
    places_.push_back({how == "items"        ? Items
                       : how == "entries"    ? Entries
                       : how == "names"      ? Names
                       : how == "attributes" ? Attributes
                       : how == "cells"      ? Cells
                                             : Size,
                       nb::object(t[1]).release().ptr(),
                       0,
                       {}});
    Place& p = places_.back();
    const nb::object keys = nb::borrow(t[2]);
    if (p.how == Names || p.how == Attributes || p.how == Cells)
      for (nb::handle key : keys) p.values.push_back({key.inc_ref().ptr(), nullptr, false});
    if (p.how != Names && p.how != Cells) p.size = size_of(p.owner);
    each(p, [&](PyObject* key, PyObject* now, Py_ssize_t i) {
      if (p.how == Items || p.how == Entries) p.values.push_back({Py_XNewRef(key), nullptr, false});
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
    if (p.how != Names && p.how != Cells && size_of(p.owner) != p.size) return {place, nullptr};
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
      .def("changed", [](const Surroundings& s) -> nb::object {
        const Surroundings::Change c = s.changed();
        if (c.place < 0) return nb::none();
        return nb::make_tuple(c.place, c.key ? nb::borrow(c.key) : nb::none());
      });
}

}  // namespace pyflame::python
