// Saving less for the backward pass: what is cheap to make again of what is saved anyway is made
// again there, by the same operation, with the same bits.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "engine/autograd.h"

namespace pyflame::autograd {

// A node whose first result can be made again.
struct Redoable {
  // How: a function that stands by itself; empty where the node has not kept what it takes. `type`
  // is the result's.
  virtual std::function<Tensor()> again(DType type) const = 0;

 protected:
  ~Redoable() = default;
};

// From now on, in this thread, results of at least so many bytes are made again where they can be,
// while more than `above` bytes of their device's memory are in use.
struct Recompute {
  size_t at_least = 0, above = 0;
  // Nobody has asked for it: on the CPU alone, where memory costs more than this work, and of what
  // the gradients would hold anyway, so that no write to it is an error that was none. A region
  // around it counts in its place.
  bool unasked = false;
};
void push_recompute(Recompute);
void pop_recompute();
bool recomputes();
bool recomputes_unasked();
std::optional<Recompute> recompute_asked();  // by the program
// What is saved while it lives is kept.
class Keep {
 public:
  explicit Keep(bool on) : on_(on && recomputes()) {
    if (on_) push_recompute({SIZE_MAX, 0});
  }
  ~Keep() {
    if (on_) pop_recompute();
  }
  Keep(const Keep&) = delete;
  Keep& operator=(const Keep&) = delete;

 private:
  const bool on_;
};

// The same of a result that attach() has given its node. `fn` gets what Saved::get wants.
void redo_by(const Tensor& result, std::function<Tensor(const Node&)> fn);
// What makes `t` again, in its place among what is saved; null where it is kept.
Ref<Packed> recipe_of(const Tensor& t);
// A node that is nobody's, to own what is saved beside the tape.
Ref<Node> make_owner(const char* name);

}  // namespace pyflame::autograd
