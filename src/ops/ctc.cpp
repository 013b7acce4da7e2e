// Connectionist temporal classification (Graves and others, 2006). The kernels give the loss of
// each sequence and its gradient; with create_graph, and where a device has no kernels, the same is
// made of operations, a step of time after the other.
#include <algorithm>
#include <cmath>

#include "core/backends.h"
#include "engine/autograd.h"
#include "engine/engine.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "ops/rows.h"
#include "table/kernels/ctc.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

constexpr const char* kOp = "ctc_loss";

Tensor from_list(const IntList& list, Device device) {
  return from_host(list.data(), {static_cast<int64_t>(list.size())}, DType::Int64, device);
}

// Labels of each sequence in a row of the longest, blanks behind.
Tensor padded(const Tensor& targets, const IntList& lengths, int64_t blank, Device device) {
  int64_t longest = 0, total = 0;
  const auto batch = static_cast<int64_t>(lengths.size());
  const bool joined = targets->shape.size() == 1;
  PF_CHECK(joined || targets->shape.size() == 2, ShapeError, kOp, "got targets of shape ",
           targets->shape, "; expected [N, S], or all labels in one dimension; reshape them");
  for (const int64_t n : lengths) {
    PF_CHECK(n <= targets->shape.back(), ValueError, kOp, "got a target length of ", n,
             " for targets of shape ", targets->shape, "; expected at most ", targets->shape.back(),
             "; correct target_lengths");
    longest = std::max(longest, n), total += n;
  }
  PF_CHECK(joined ? targets->shape[0] >= total : targets->shape[0] == batch, ShapeError, kOp,
           "got targets of shape ", targets->shape, " for ", batch, " sequences of ", total,
           " labels together; expected a row, or all the labels, of each; check target_lengths");
  const Tensor labels = to(ops::as_index(targets, kOp), device);
  if (batch == 0 || longest == 0) return ops::raw_full({batch, 0}, DType::Int64, device, 0);
  // Before as many numbers are written: whether there is memory for them.
  ops::raw_full({batch, longest}, DType::Int64, device, 0);
  IntList places, there;
  int64_t first = 0;
  for (int64_t n = 0; n < batch; ++n) {
    const int64_t length = lengths[static_cast<size_t>(n)];
    for (int64_t s = 0; s < longest; ++s) {
      places.push_back(s < length ? (joined ? first : n * targets->shape[1]) + s : 0);
      there.push_back(s < length);
    }
    first += length;
  }
  const Tensor all =
      reshape(index_select(reshape(labels, {-1}), 0, from_list(places, device)), {batch, longest});
  return where(reshape(ne(from_list(there, device), Scalar(0)), {batch, longest}), all,
               Scalar(blank));
}

struct Lengths {
  Tensor inputs, targets;
};

// The losses in recorded operations, of log_probs [T, N, C]. What cannot be is -1e30, whose
// derivatives are numbers.
Tensor by_operations(const Tensor& log_probs, const Tensor& targets, const Lengths& lengths,
                     int64_t blank) {
  const Device device = log_probs->storage->device;
  const int64_t steps = log_probs->shape[0], batch = log_probs->shape[1];
  const int64_t labels = targets->shape[1], width = 2 * labels + 1;
  const Scalar never(-1e30);
  const DType type = log_probs->dtype;
  const Tensor blanks = ops::raw_full({batch, labels, 1}, DType::Int64, device, blank);
  const Tensor pairs = reshape(cat({blanks, unsqueeze(targets, 2)}, 2), {batch, 2 * labels});
  const Tensor label =
      cat({pairs, ops::raw_full({batch, 1}, DType::Int64, device, blank)}, 1);  // [N, width]
  const Tensor position = arange(0, width, 1, DType::Int64, device);
  Tensor may_skip = ops::raw_full({batch, width}, DType::Bool, device, 0);
  if (labels > 1) {
    const Tensor differs = ne(slice(targets, 1, 1, labels), slice(targets, 1, 0, labels - 1));
    const Tensor odd = ops::raw_full({batch, labels - 1, 1}, DType::Bool, device, 0);
    const Tensor rest = reshape(cat({unsqueeze(differs, 2), odd}, 2), {batch, 2 * (labels - 1)});
    may_skip = cat({ops::raw_full({batch, 3}, DType::Bool, device, 0), rest}, 1);
    may_skip = logical_and(slice(may_skip, 1, 0, width), ne(label, Scalar(blank)));
  }
  const Tensor emit =
      clamp(gather(log_probs, 2, expand(unsqueeze(label, 0), {steps, batch, width})), never, {});
  const Tensor here = le(position, unsqueeze(mul(lengths.targets, Scalar(2)), 1));
  const auto row = [&](int64_t t) { return select(emit, 0, t); };
  const Tensor start = logical_and(le(position, Scalar(1)), here);
  Tensor alpha;
  for (int64_t t = 0; t < steps; ++t) {
    Tensor next;
    if (t == 0) {
      next = where(start, row(0), never);
    } else {
      const Tensor edge = ops::raw_full({batch, 1}, type, device, never);
      const Tensor by_one = cat({edge, slice(alpha, 1, 0, width - 1)}, 1);
      Tensor sum = width > 1 ? logaddexp(alpha, by_one) : alpha;
      if (width > 2) {
        const Tensor by_two = cat({edge, edge, slice(alpha, 1, 0, width - 2)}, 1);
        sum = logaddexp(sum, where(may_skip, by_two, never));
      }
      next = where(here, clamp(add(sum, row(t)), never, {}), never);
    }
    alpha = t == 0 ? next : where(unsqueeze(gt(lengths.inputs, Scalar(t)), 1), next, alpha);
  }
  const Tensor nothing = where(eq(lengths.targets, Scalar(0)),
                               ops::raw_full({batch}, type, device, 0), Scalar(INFINITY));
  if (steps == 0) return nothing;
  const Tensor end = unsqueeze(mul(lengths.targets, Scalar(2)), 1);
  const Tensor last = squeeze(gather(alpha, 1, end), 1);
  const Tensor before = squeeze(gather(alpha, 1, clamp(sub(end, Scalar(1)), Scalar(0), {})), 1);
  const Tensor total = where(gt(lengths.targets, Scalar(0)), logaddexp(last, before), last);
  const Tensor loss = where(eq(lengths.inputs, Scalar(0)), nothing,
                            where(lt(total, Scalar(-1e29)), Scalar(INFINITY), neg(total)));
  // A gradient of exp(log_probs) more, and no value: see table/kernels/ctc.h.
  const Tensor time = arange(0, steps, 1, DType::Int64, device);
  const Tensor in_time = lt(unsqueeze(time, 1), unsqueeze(lengths.inputs, 0));
  const Tensor all = sum(where(unsqueeze(in_time, 2), exp(log_probs), Scalar(0.0)), IntList{0, 2});
  return add(loss, sub(all, all.detach()));
}

bool has_kernels(Device d) {
  return backend_of(d)->kernel_find(kernels::Ctc::kInfo.name) != nullptr;
}

}  // namespace

Tensor ctc_losses(const Tensor& given, const Tensor& targets, const IntList& input_lengths,
                  const IntList& target_lengths, int64_t blank, bool zero_infinity) {
  ops::check_floating(given, kOp, "log_probs");
  ops::check_defined(targets, kOp, "targets");
  PF_CHECK(given->shape.size() == 3, ShapeError, kOp, "got log_probs of shape ", given->shape,
           "; expected [T, N, C]; reshape them");
  const int64_t steps = given->shape[0], batch = given->shape[1], classes = given->shape[2];
  PF_CHECK(blank >= 0 && blank < classes, ValueError, kOp, "got blank ", blank, " for ", classes,
           " classes; expected one of them");
  for (const IntList* list : {&input_lengths, &target_lengths})
    PF_CHECK(static_cast<int64_t>(list->size()) == batch, ValueError, kOp, "got ", list->size(),
             " lengths for ", batch, " sequences; expected one for each");
  for (const int64_t n : input_lengths)
    PF_CHECK(n >= 0 && n <= steps, ValueError, kOp, "got an input length of ", n, " for ", steps,
             " steps; expected 0 to ", steps, "; correct input_lengths");
  for (const int64_t n : target_lengths)
    PF_CHECK(n >= 0, ValueError, kOp, "got a target length of ", n, "; expected 0 or more");
  const Tensor log_probs = ops::widened(given);
  const Device device = log_probs->storage->device;
  if (batch == 0) return to(sum(log_probs, IntList{0, 2}), given->dtype);  // however many steps
  const Tensor rows = padded(targets, target_lengths, blank, device);
  const Lengths lengths{from_list(input_lengths, device), from_list(target_lengths, device)};
  const bool by_kernel = has_kernels(device);
  Tensor loss;
  if (!by_kernel) {
    loss = by_operations(log_probs, rows, lengths, blank);
    if (zero_infinity) loss = where(isinf(loss), Scalar(0.0), loss);
    return to(loss, given->dtype);
  }
  loss = make_tensor({batch}, log_probs->dtype, device);
  const Tensor alpha =
      make_tensor({batch, steps, 2 * rows->shape[1] + 1}, log_probs->dtype, device);
  engine::call<kernels::Ctc>({.loss = loss,
                              .alpha = alpha,
                              .log_probs = log_probs,
                              .targets = rows,
                              .input_lengths = lengths.inputs,
                              .target_lengths = lengths.targets},
                             {.blank = blank}, {.op = kOp});
  if (autograd::wanted({log_probs}))
    autograd::attach(
        kOp, {loss}, {log_probs},
        {Saved(log_probs), Saved(loss, true), Saved(alpha), Saved(rows), Saved(lengths.inputs),
         Saved(lengths.targets)},
        [=](const Context& c) -> Grads {
          const Tensor probs = c.saved(0), loss = c.saved(1);
          if (grad_enabled()) {
            const Tensor again = transpose(probs, 0, 0);  // by a name of its own
            const Tensor losses = by_operations(again, c.saved(3), {c.saved(4), c.saved(5)}, blank);
            return grad(TensorList{losses}, TensorList{again}, TensorList{c.grad()}, true, true);
          }
          const Tensor own = make_tensor(probs->shape, probs->dtype, probs->storage->device);
          engine::call<kernels::CtcBackward>({.grad = own,
                                              .g = c.grad(),
                                              .loss = loss,
                                              .alpha = c.saved(2),
                                              .log_probs = probs,
                                              .targets = c.saved(3),
                                              .input_lengths = c.saved(4),
                                              .target_lengths = c.saved(5)},
                                             {.blank = blank, .zero_infinity = zero_infinity},
                                             {.op = kOp});
          return {own};
        });
  if (zero_infinity) loss = where(isinf(loss), Scalar(0.0), loss);
  return to(loss, given->dtype);
}

static const ops::Family kCtc("loss", [](ops::Family& f) {
  using namespace ops;
  f.op(&ctc_losses,
       {"ctc_losses(Tensor log_probs, Tensor targets, int[] input_lengths, int[] target_lengths, "
        "int blank=0, bool zero_infinity=False) -> Tensor",
        "Losses of connectionist temporal classification, one for each sequence.", kSpecial});
});

}  // namespace pyflame
