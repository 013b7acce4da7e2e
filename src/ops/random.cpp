// Random tensors. Seed and offset are taken when the operation is recorded.
#include "pyflame/random.h"

#include "core/dispatch.h"
#include "engine/capture.h"
#include "engine/hidden.h"
#include "ops/building_blocks.h"
#include "ops/complex.h"
#include "ops/hidden.h"
#include "ops/registry.h"
#include "ops/unsigned.h"
#include "table/kernels/random.h"

namespace pyflame {

using autograd::Context;
using autograd::Grads;
using std::optional;

namespace {

struct Draw {
  Scalar seed, offset;
  Draw(int64_t count, int words) {
    RandomState s = take_random(count, words);
    seed = Scalar(static_cast<int64_t>(s.seed));
    offset = Scalar(static_cast<int64_t>(s.offset));
  }
};

int words_of(DType t) {
  return t == DType::Float64 ? 2 : 1;
}

void check_float(DType t, const char* op) {
  PF_CHECK(is_float(t) && !info(t).storage_only, DTypeError, op, "got dtype ", t,
           "; expected a floating-point dtype; use randint for integers");
}

using engine::Levels;

Levels own_levels(const Tensor& t) {
  Levels r;
  r.add(t);
  return r;
}
// Room for numbers that differ over these levels of vmap.
void grow_over(const Tensor& t, const Levels& levels, const char* op) {
  if (const Levels more = levels.without(own_levels(t)); !more.empty()) engine::grow(t, more, op);
}
// Whether a random operation on these has to look at the samples of a vmap.
bool over_samples(std::initializer_list<Tensor> tensors, const char* op) {
  return hiding() && (ops::hides(tensors) || !engine::random_levels(op).empty());
}

// Fills a tensor that nobody else has seen, or that the caller has checked.
template <class K>
void fill_random(const Tensor& t, int words, typename K::template Numbers<Scalar> numbers,
                 const char* op) {
  if (t->numel == 0) return;
  if (hiding()) [[unlikely]] {
    const engine::Levels levels = engine::random_levels(op);
    if (Levels others = own_levels(t).without(levels); !others.empty()) {
      const Tensor same = make_tensor(t->shape, t->dtype, t->device());
      fill_random<K>(same, words, numbers, op);
      return ops::raw_copy(t, same);
    }
    grow_over(t, levels, op);
  }
  Draw draw(t->numel * engine::samples_of(t), words);
  numbers.seed = draw.seed, numbers.offset = draw.offset;
  engine::call<K>({t}, numbers, {.inplace = 1, .op = op});
}

// What was in the tensor has no influence on what is in it now.
void overwrite(Tensor& t, const char* op, const std::function<void()>& write) {
  ops::check_defined(t, op);
  ops::write_inplace(
      t, op, {t}, {}, [](const Context& c) -> Grads { return {zeros_like(c.grad())}; }, write);
}

Tensor fresh(const IntList& size, DType dtype, optional<Device> device, const char* op) {
  Dims shape(size);
  checked_numel(shape, op);
  return make_tensor(shape, dtype, device ? *device : get_device());
}

Tensor randn_in(Tensor t, double mean, double std, const char* op = "randn") {
  if (is_complex(t)) {  // both parts of half of the variance
    NoGrad off;
    randn_in(view_as_real(t), 0, std * M_SQRT1_2, op);
    if (mean != 0) add_(t, Scalar(mean));
    return t;
  }
  check_float(t->dtype, op);
  fill_random<kernels::Normal>(t, words_of(t->dtype), {.mean = mean, .std = std}, op);
  return t;
}
Tensor rand_in(Tensor t, double from = 0, double to = 1, const char* op = "rand") {
  if (is_complex(t)) {
    NoGrad off;
    rand_in(view_as_real(t), from, to, op);
    return t;
  }
  check_float(t->dtype, op);
  fill_random<kernels::Uniform>(t, words_of(t->dtype), {.from = from, .to = to}, op);
  return t;
}
void check_range(int64_t low, int64_t high, DType t, const char* op) {
  PF_CHECK(low < high, ValueError, op, "got low ", low, " and high ", high,
           "; expected low < high; values are below high");
  PF_CHECK(!ops::has_no_arithmetic(t), DTypeError, op, "got dtype ", t,
           "; expected a dtype with arithmetic; choose another");
  if (is_integral(t, true) && info(t).bits < 64) {
    const bool is_signed = info(t).kind == Kind::Int;
    const int bits = t == DType::Bool ? 1 : info(t).bits - (is_signed ? 1 : 0);
    const int64_t most = (int64_t{1} << bits) - 1, least = is_signed ? -most - 1 : 0;
    PF_CHECK(low >= least && high - 1 <= most, ValueError, op, "got low ", low, " and high ", high,
             "; expected values that ", t, " holds, ", least, " to ", most,
             "; choose a wider dtype");
  }
}
Tensor randint_in(Tensor t, int64_t low, int64_t high) {
  check_range(low, high, t->dtype, "randint");
  if (ops::is_wide_unsigned(t))
    return copy_(t, randint_in(make_tensor(t->shape, DType::Int64, t->storage->device), low, high));
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  fill_random<kernels::Randint>(t, 2, {.low = low, .range = static_cast<int64_t>(range)},
                                "randint");
  return t;
}

}  // namespace

Tensor randn(const IntList& size, optional<DType> dtype, optional<Device> device) {
  return randn_in(fresh(size, dtype.value_or(default_dtype()), device, "randn"), 0, 1);
}
Tensor rand(const IntList& size, optional<DType> dtype, optional<Device> device) {
  return rand_in(fresh(size, dtype.value_or(default_dtype()), device, "rand"));
}
Tensor randint(int64_t low, int64_t high, const IntList& size, optional<DType> dtype,
               optional<Device> device) {
  return randint_in(fresh(size, dtype.value_or(DType::Int64), device, "randint"), low, high);
}

Tensor& uniform_(Tensor& t, double from, double to) {
  overwrite(t, "uniform_", [&] {
    PF_CHECK(from <= to, ValueError, "uniform_", "got from ", from, " and to ", to,
             "; expected from <= to; swap them");
    rand_in(t.detach(), from, to, "uniform_");
  });
  return t;
}

Tensor& normal_(Tensor& t, double mean, double std) {
  overwrite(t, "normal_", [&] {
    PF_CHECK(std >= 0, ValueError, "normal_", "got std ", std,
             "; expected at least 0; give a standard deviation");
    randn_in(t.detach(), mean, std, "normal_");
  });
  return t;
}

static Tensor exponential_(Tensor t, double rate) {
  overwrite(t, "exponential_", [&] {
    check_float(t->dtype, "exponential_");
    PF_CHECK(rate > 0, ValueError, "exponential_", "got lambd ", rate,
             "; expected more than 0; give a rate");
    fill_random<kernels::Exponential>(t, words_of(t->dtype), {.rate = rate}, "exponential_");
  });
  return t;
}

static Tensor gumbel_softmax(const Tensor& logits, double tau, bool hard, double, int64_t dim) {
  const char* op = "gumbel_softmax";
  check_float(logits->dtype, op);
  PF_CHECK(tau > 0, ValueError, op, "got tau ", tau, "; expected more than 0; pass tau=1.0");
  Tensor gumbel;
  {
    NoGrad off;
    gumbel = neg(log(exponential_(empty_like(logits), 1)));
  }
  const Tensor soft = softmax(div(add(logits, gumbel), Scalar(tau)), dim);
  if (!hard) return soft;
  // One-hot forward, the soft gradient backward.
  Tensor picked;
  {
    NoGrad off;
    const Tensor at = argmax(soft, dim, true);
    picked = scatter(zeros_like(soft), dim, at,
                     ones(at->shape.vec(), soft->dtype, soft->storage->device));
    picked = sub(picked, soft);
  }
  return add(picked, soft);
}

static Tensor random_range_(Tensor t, int64_t from, optional<int64_t> to) {
  overwrite(t, "random_", [&] {
    uint64_t range;
    if (to) {
      check_range(from, *to, t->dtype, "random_");
      range = static_cast<uint64_t>(*to) - static_cast<uint64_t>(from);
    } else {  // all that the dtype holds exactly, from `from` on
      const DTypeInfo& d = info(t->dtype);
      int bits = d.bits - (d.kind == Kind::Int ? 1 : 0);
      if (t->dtype == DType::Bool) bits = 1;
      if (is_float(t->dtype)) bits = float_format(t->dtype).digits;
      range = (bits >= 63 ? uint64_t{1} << 63 : (uint64_t{1} << bits)) -
              static_cast<uint64_t>(from) + (d.kind == Kind::Float ? 1 : 0);
    }
    fill_random<kernels::Randint>(t, 2, {.low = from, .range = static_cast<int64_t>(range)},
                                  "random_");
  });
  return t;
}

// ---- bernoulli, dropout -------------------------------------------------------------------------

namespace {

void run_bernoulli(const Tensor& out, const Tensor& p, double scalar) {
  if (out->numel == 0) return;
  if (over_samples({out, p}, "bernoulli")) [[unlikely]] {
    NoGrad off;
    const Tensor u = rand_in(make_tensor(out->shape, DType::Float32, out->device()));
    return ops::raw_copy(out, to(p.defined() ? lt(u, p) : lt(u, Scalar(scalar)), out->dtype));
  }
  Draw draw(out->numel, 1);
  engine::call<kernels::Bernoulli>({out, p}, {draw.seed, draw.offset, scalar}, {.inplace = 1});
}

void check_probability(double p, const char* op) {
  PF_CHECK(p >= 0 && p <= 1, ValueError, op, "got probability ", p,
           "; expected 0 <= p <= 1; correct it");
}

// Where the device answers at once: to ask another would be to wait for it.
void check_probabilities(const Tensor& p, const char* op) {
  if (!p->numel || !p->storage->device.is_cpu() || engine::is_hidden(p) || engine::capturing())
    return;
  const NoGrad off;
  PF_CHECK(all(logical_and(ge(p, Scalar(0)), le(p, Scalar(1)))).item<bool>(), ValueError, op,
           "got probabilities outside of 0 to 1, or NaN; expected 0 <= p <= 1; check what computed "
           "them");
}

Tensor bernoulli(const Tensor& p) {
  ops::check_defined(p, "bernoulli");
  check_float(p->dtype, "bernoulli");
  check_probabilities(p, "bernoulli");
  Tensor out = make_tensor(p->shape, p->dtype, p->storage->device);
  run_bernoulli(out, p, 0);
  if (autograd::wanted({p}))  // as in PyTorch: defined, and zero
    autograd::attach("bernoulli", {out}, {p}, {},
                     [](const Context& c) -> Grads { return {zeros_like(c.grad())}; });
  return out;
}

Tensor bernoulli_p(const Tensor& like, double p) {
  ops::check_defined(like, "bernoulli");
  check_probability(p, "bernoulli");
  Tensor out = make_tensor(like->shape, like->dtype, like->storage->device);
  run_bernoulli(out, {}, p);
  return out;
}

Tensor bernoulli_(Tensor t, double p) {
  check_probability(p, "bernoulli_");
  overwrite(t, "bernoulli_", [&] { run_bernoulli(t, {}, p); });
  return t;
}

Tensor bernoulli_each_(Tensor t, const Tensor& p) {
  overwrite(t, "bernoulli_", [&] {
    check_float(p->dtype, "bernoulli_");
    check_probabilities(p, "bernoulli_");
    Tensor each = expand(p.detach(), t->shape.vec());
    run_bernoulli(t, each->storage == t->storage ? ops::raw_clone(each) : each, 0);
  });
  return t;
}

// What dropout multiplies with: the same for all samples of a vmap, or over some levels.
Tensor dropout_mask(const Tensor& x, double p, Scalar seed, Scalar offset, const Levels& levels) {
  const Tensor ones = ops::raw_full(x->shape, x->dtype, x->device(), 1);
  const Tensor mask = make_tensor(x->shape, x->dtype, x->device());
  if (!levels.empty()) engine::grow(ones, levels, "dropout");
  if (x->numel > 0) engine::call<kernels::Dropout>({mask, ones}, {seed, offset, p});
  return mask;
}

// The mask is a function of seed and offset: the gradient is the same operation on the gradient.
Tensor dropout_with(const Tensor& x, double p, Scalar seed, Scalar offset) {
  if (ops::hides({x})) [[unlikely]]
    return mul(x, dropout_mask(x, p, seed, offset, {}));
  Tensor out = make_tensor(x->shape, x->dtype, x->storage->device);
  lay_out_like(*out.impl(), *x.impl());
  if (x->numel > 0) engine::call<kernels::Dropout>({out, x}, {seed, offset, p});
  if (autograd::wanted({x}))
    autograd::attach("dropout", {out}, {x}, {}, [p, seed, offset](const Context& c) -> Grads {
      return {dropout_with(c.grad(), p, seed, offset)};
    });
  return out;
}

}  // namespace

Tensor dropout(const Tensor& x, double p, bool training) {
  ops::check_defined(x, "dropout");
  check_probability(p, "dropout");
  if (!training || p == 0) return x;
  check_float(x->dtype, "dropout");
  if (hiding()) [[unlikely]]
    if (const Levels levels = engine::random_levels("dropout"); !levels.empty()) {
      Draw draw(x->numel * levels.samples(), 1);
      return mul(x, dropout_mask(x, p, draw.seed, draw.offset, levels));
    }
  Draw draw(x->numel, 1);
  return dropout_with(x, p, draw.seed, draw.offset);
}

static Tensor py_dropout(Tensor x, double p, bool training, bool inplace) {
  Tensor r = dropout(x, p, training);
  if (!inplace || r.impl() == x.impl()) return r;
  return copy_(x, r);
}

// ---- permutations and samples -------------------------------------------------------------------

Tensor randperm(int64_t n, optional<DType> dtype, optional<Device> device) {
  PF_CHECK(n >= 0, ValueError, "randperm", "got n ", n,
           "; expected at least 0; give the number of elements");
  PF_CHECK(n < int64_t{1} << 32, ValueError, "randperm", "got n ", n,
           "; expected less than 2^32; permute blocks");
  const DType type = dtype.value_or(DType::Int64);
  const Kind kind = info(type).kind;
  const int bits = info(type).bits - (kind == Kind::Int ? 1 : 0);
  PF_CHECK(is_float(type) || (type != DType::Bool && (bits >= 32 || n <= int64_t{1} << bits)),
           ValueError, "randperm", "got n ", n, " and dtype ", type,
           "; expected a dtype that holds 0 to n - 1; take int64");
  Tensor out = fresh({n}, type, device, "randperm");
  if (n == 0) return out;
  if (over_samples({}, "randperm")) [[unlikely]]
    return to(argsort(rand({n}, DType::Float64, device), 0), type);
  Draw draw(n, 2);
  engine::call<kernels::Randperm>({out}, {draw.seed, draw.offset});
  return out;
}

Tensor multinomial(const Tensor& probs, int64_t num_samples, bool replacement) {
  ops::check_defined(probs, "multinomial");
  check_float(probs->dtype, "multinomial");
  const int n = probs->shape.size();
  PF_CHECK(n == 1 || n == 2, ShapeError, "multinomial", "got shape ", probs->shape,
           "; expected weights [n] or [rows, n]; reshape them");
  const int64_t categories = probs->shape[n - 1];
  PF_CHECK(num_samples > 0 && categories > 0, ValueError, "multinomial", "got ", num_samples,
           " samples of ", categories, " weights; expected at least one of each; correct them");
  PF_CHECK(replacement || num_samples <= categories, ValueError, "multinomial", "got ", num_samples,
           " samples of ", categories,
           " weights without replacement; expected no more than there are; pass "
           "replacement=True");
  Tensor rows = n == 2 ? probs.detach() : unsqueeze(probs.detach(), 0);
  if (over_samples({rows}, "multinomial")) [[unlikely]] {  // the largest of weights over races
    NoGrad off;
    Tensor race = make_tensor({rows->shape[0], replacement ? num_samples : 1, categories},
                              DType::Float64, rows->device());
    const Tensor chances = div(unsqueeze(to(rows, DType::Float64), 1), exponential_(race, 1));
    const Tensor drawn =
        replacement ? argmax(chances, -1) : squeeze(topk(chances, num_samples, -1).second, 1);
    return n == 2 ? drawn : squeeze(drawn, 0);
  }
  Tensor out = make_tensor({rows->shape[0], num_samples}, DType::Int64, rows->storage->device);
  if (out->numel > 0) {
    Tensor status = make_tensor({1}, DType::Int64, rows->storage->device);
    // One sample is the same either way, and cheaper from the distribution function.
    const bool again = replacement || num_samples == 1;
    Draw draw(rows->shape[0] * (again ? num_samples : categories), 2);
    engine::call<kernels::Multinomial>({out, status, rows}, {draw.seed, draw.offset, again});
    const int64_t found = status.item<int64_t>();
    PF_CHECK(found != 1, ValueError, "multinomial",
             "got weights with a negative number, infinity or NaN; expected finite numbers of at "
             "least 0; check what computed them");
    PF_CHECK(found != 2, ValueError, "multinomial",
             "got weights that add up to 0; expected at least one above 0; check what computed "
             "them");
    PF_CHECK(found == 0, ValueError, "multinomial", "got fewer than ", num_samples,
             " weights above 0; expected as many as samples; pass replacement=True");
  }
  return n == 2 ? out : squeeze(out, 0);
}

namespace {

Tensor with_grad(Tensor t, bool requires_grad) {
  if (requires_grad) t.requires_grad_();
  return t;
}

using Type = optional<DType>;
using Dev = optional<Device>;

Tensor made_like(const Tensor& x, Type t, Dev d) {
  ops::check_defined(x, "random");
  Tensor out = make_tensor(x->shape, t.value_or(x->dtype), d.value_or(x->storage->device));
  lay_out_like(*out.impl(), *x.impl());
  return out;
}

Tensor normal_tensors(const Tensor& mean, const Tensor& std) {
  Dims shape = broadcast_shapes(mean->shape, std->shape, "normal");
  return add(mul(randn_in(make_tensor(shape, mean->dtype, mean->storage->device), 0, 1), std),
             mean);
}
Tensor normal_mean(const Tensor& mean, double std) {
  PF_CHECK(std >= 0, ValueError, "normal", "got std ", std,
           "; expected at least 0; give a standard deviation");
  return add(randn_in(made_like(mean, {}, {}), 0, std), mean);
}
Tensor normal_std(double mean, const Tensor& std) {
  return add(mul(randn_in(made_like(std, {}, {}), 0, 1), std), Scalar(mean));
}
Tensor normal_size(double mean, double std, const IntList& size, Type t, Dev d, bool grad) {
  PF_CHECK(std >= 0, ValueError, "normal", "got std ", std,
           "; expected at least 0; give a standard deviation");
  return with_grad(randn_in(fresh(size, t.value_or(default_dtype()), d, "normal"), mean, std),
                   grad);
}

#define PF_NEW "*, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor"

}  // namespace

namespace ops {
namespace {

Tensor feature_dropout(const Tensor& t, double p, bool training) {
  ops::check_defined(t, "dropout2d");
  PF_CHECK(p >= 0 && p <= 1, ValueError, "dropout2d", "got probability ", p,
           "; expected 0 <= p <= 1; correct it");
  PF_CHECK(t->shape.size() >= 2, ShapeError, "dropout2d", "got shape ", t->shape,
           "; expected [batch, channels, ...]; unsqueeze it first");
  if (!training || p == 0) return t;
  Dims shape = Dims::filled(t->shape.size(), 1);
  shape[0] = t->shape[0];
  shape[1] = t->shape[1];
  return mul(t, dropout(ops::raw_full(shape, t->dtype, t->storage->device, 1), p, true));
}

Tensor feature_dropout_row(Tensor t, double p, bool training, bool inplace) {
  const Tensor r = feature_dropout(t, p, training);
  return inplace && r.impl() != t.impl() ? copy_(t, r) : r;
}

const Family kRandom("random", [](Family& f) {
  f.op(+[](const IntList& size, Type t, Dev d,
           bool grad) { return with_grad(randn(size, t, d), grad); },
       {"randn(int[] size, " PF_NEW,
        "Standard normal numbers (Philox and Box-Muller; the same on every device).",
        ops::kFunction, false});
  f.op(+[](const IntList& size, Type t, Dev d,
           bool grad) { return with_grad(rand(size, t, d), grad); },
       {"rand(int[] size, " PF_NEW, "Uniform numbers of [0, 1).", ops::kFunction, false});
  f.op(+[](int64_t low, int64_t high, const IntList& size, Type t, Dev d,
           bool grad) { return with_grad(randint(low, high, size, t, d), grad); },
       {"randint(int low, int high, int[] size, " PF_NEW,
        "Integers of [low, high), each as likely; int64 unless dtype says otherwise.",
        ops::kFunction, false});
  f.op(+[](int64_t high, const IntList& size, Type t, Dev d,
           bool grad) { return with_grad(randint(0, high, size, t, d), grad); },
       {"randint(int high, int[] size, " PF_NEW, "Integers of [0, high).", ops::kFunction, false});
  f.op(+[](const Tensor& x, Type t, Dev d,
           bool grad) { return with_grad(randn_in(made_like(x, t, d), 0, 1), grad); },
       {"randn_like(Tensor input, " PF_NEW, "Standard normal numbers in the input's shape.",
        ops::kFunction, false});
  f.op(+[](const Tensor& x, Type t, Dev d,
           bool grad) { return with_grad(rand_in(made_like(x, t, d)), grad); },
       {"rand_like(Tensor input, " PF_NEW, "Uniform numbers of [0, 1) in the input's shape.",
        ops::kFunction, false});
  f.op(+[](const Tensor& x, int64_t low, int64_t high, Type t, Dev d,
           bool grad) { return with_grad(randint_in(made_like(x, t, d), low, high), grad); },
       {"randint_like(Tensor input, int low, int high, " PF_NEW,
        "Integers of [low, high) in the input's shape and dtype.", ops::kFunction, false});
  f.op(+[](const Tensor& x, int64_t high, Type t, Dev d,
           bool grad) { return with_grad(randint_in(made_like(x, t, d), 0, high), grad); },
       {"randint_like(Tensor input, int high, " PF_NEW,
        "Integers of [0, high) in the input's shape and dtype.", ops::kFunction, false});
  f.op(&normal_tensors,
       {"normal(Tensor mean, Tensor std) -> Tensor",
        "Normal numbers, each with its own mean and standard deviation.", ops::kFunction});
  f.op(&normal_mean, {"normal(Tensor mean, float std=1.0) -> Tensor",
                      "Normal numbers, each with its own mean.", ops::kFunction});
  f.op(&normal_std, {"normal(float mean, Tensor std) -> Tensor",
                     "Normal numbers, each with its own standard deviation.", ops::kFunction});
  f.op(&normal_size, {"normal(float mean, float std, int[] size, " PF_NEW,
                      "Normal numbers of one mean and standard deviation.", ops::kFunction, false});
  f.op(+[](int64_t n, Type t, Dev d, bool grad) { return with_grad(randperm(n, t, d), grad); },
       {"randperm(int n, " PF_NEW, "The numbers 0 to n - 1 in random order, int64.", ops::kFunction,
        false});
  f.op(&bernoulli_p, {"bernoulli(Tensor input, float p) -> Tensor",
                      "1 with probability p, else 0, in the input's shape and dtype.",
                      kFunction | kMethod, false});
  f.op(&bernoulli, {"bernoulli(Tensor input) -> Tensor",
                    "1 with the probability that the input holds, else 0."});
  f.op(&multinomial,
       {"multinomial(Tensor input, int num_samples, bool replacement=False) -> Tensor",
        "Indices drawn with the weights of each row, which need not add up to 1. int64, "
        "[num_samples] or [rows, num_samples]. ValueError for negative or infinite weights, or too "
        "few above 0. Reads a status on the host.",
        kFunction | kMethod, false});
  f.op(
      &py_dropout,
      {"dropout(Tensor input, float p=0.5, bool training|train=True, bool inplace=False) -> Tensor",
       "Elements set to 0 with probability p, the others divided by 1 - p. The mask depends on "
       "the logical index alone.",
       kFunction | kFunctional});
  f.op(+[](Tensor t, double from, double to) { return uniform_(t, from, to); },
       {"uniform_(Tensor input, float from=0.0, float to=1.0) -> Tensor",
        "Overwrites with uniform numbers of [from, to).", kMethod, false});
  f.op(+[](Tensor t, double mean, double std) { return normal_(t, mean, std); },
       {"normal_(Tensor input, float mean=0.0, float std=1.0) -> Tensor",
        "Overwrites with normal numbers.", kMethod, false});
  f.op(&gumbel_softmax,
       {"gumbel_softmax(Tensor logits, float tau=1, bool hard=False, float eps=1e-10, int dim=-1) "
        "-> Tensor",
        "Samples of the Gumbel-softmax distribution along `dim`: softmax((logits + noise) / tau). "
        "`hard` gives one-hot samples with the gradient of the soft ones. eps is not used, as in "
        "PyTorch.",
        kFunctional});
  f.op(&exponential_,
       {"exponential_(Tensor input, float lambd=1.0) -> Tensor",
        "Overwrites with numbers of the exponential distribution of rate lambd.", kMethod, false});
  f.op(&bernoulli_each_, {"bernoulli_(Tensor input, Tensor p) -> Tensor",
                          "Overwrites with 1 where chance says so, else 0.", kMethod, false});
  f.op(&bernoulli_, {"bernoulli_(Tensor input, float p=0.5) -> Tensor",
                     "Overwrites with 1 with probability p, else 0.", kMethod, false});
  f.op(+[](Tensor t, int64_t to) { return random_range_(t, 0, to); },
       {"random_(Tensor input, int to) -> Tensor", "Overwrites with integers of [0, to).", kMethod,
        false});
  f.op(
      +[](Tensor t, int64_t from, std::optional<int64_t> to) { return random_range_(t, from, to); },
      {"random_(Tensor input, int from=0, int? to=None) -> Tensor",
       "Overwrites with integers of [from, to), or all that the dtype holds exactly.", kMethod,
       false});
  for (const char* schema :
       {"dropout1d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
        "dropout2d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor",
        "dropout3d(Tensor input, float p=0.5, bool training=True, bool inplace=False) -> Tensor"})
    f.op(&feature_dropout_row,
         {schema,
          "Whole channels of [batch, channels, ...] set to 0 with probability p, "
          "the others divided by 1 - p.",
          kFunctional});
});

}  // namespace
}  // namespace ops

}  // namespace pyflame
