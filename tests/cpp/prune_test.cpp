// Kernel text cut to what a program needs: what may be needed stays, what cannot be goes.
#include "gpu/prune.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/includes.h"

namespace pyflame::gpu {
namespace {

constexpr const char* kHead = R"(
#define PF_DEVICE inline
#define PF_KERNEL(NAME, THREADS) extern "C" void NAME
)";

std::string cut(const std::string& text, const std::string& entry = "rows",
                const std::string& roots = "") {
  return prune_kernel_text(kHead + text, entry, roots);
}
bool has(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

TEST(Prune, KeepsWhatIsReachedAndLineNumbers) {
  const std::string text = R"(
struct used { int i; };
struct unused { int i; };
PF_DEVICE int helper(used u) { return u.i; }
PF_DEVICE int idle(unused u) { return u.i; }
PF_KERNEL(rows, 64)(int* p) { *p = helper({1}); }
PF_KERNEL(others, 64)(int* p) { *p = idle({1}); }
)";
  const std::string out = cut(text);
  EXPECT_TRUE(has(out, "struct used") && has(out, "int helper"));
  EXPECT_FALSE(has(out, "unused") || has(out, "idle") || has(out, "others"));
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'),
            std::count(text.begin(), text.end(), '\n') + 3);
}

TEST(Prune, KeepsWhatIsAssertedOfTheSizesOfWhatStays) {
  const std::string text = R"(
struct used { int i; };
static_assert(sizeof(used) == 4, "as hosts fill it");
template <class T> struct unused { T t; };
static_assert(sizeof(unused<int>) == 4 && sizeof(unused<char>) == 1, "as hosts fill it");
static_assert(WIDTH % 4 == 0, "whole vectors");
PF_KERNEL(rows, 64)(used u) {}
)";
  const std::string out = cut(text);
  EXPECT_TRUE(has(out, "sizeof(used)") && has(out, "WIDTH % 4")) << out;
  EXPECT_FALSE(has(out, "unused")) << out;
}

// A declaration that a macro makes is known by the names that come out of it.
TEST(Prune, KeepsWhatMacrosMake) {
  const std::string macros = R"(
#define PF_CONSTANT(NAME, VALUE) constexpr int NAME = VALUE;
#define PF_GETTER(NAME) PF_DEVICE int NAME##_get() { return NAME; }
#define PF_BOTH(NAME, VALUE) PF_CONSTANT(NAME, VALUE) PF_GETTER(NAME)
#define PF_TAIL(NAME, VALUE) constexpr int NAME = VALUE
#define PF_LIST(NAME, ...) constexpr int NAME[] = {__VA_ARGS__};
#define PF_THREE PF_CONSTANT(three, 3)
)";
  const auto kernel = [](const std::string& value) {
    return "\nPF_KERNEL(rows, 64)(int* p) { *p = " + value + "; }\n";
  };
  // Without braces in the macro, and through another macro.
  std::string out =
      cut(macros + "PF_CONSTANT(one, 1)\nPF_BOTH(two, 2)" + kernel("two_get() + one"));
  EXPECT_TRUE(has(out, "PF_CONSTANT(one, 1)") && has(out, "PF_BOTH(two, 2)")) << out;
  // What comes behind is a declaration of its own.
  out = cut(macros + "PF_BOTH(two, 2)\nPF_DEVICE int next() { return 7; }" + kernel("next()"));
  EXPECT_TRUE(has(out, "return 7")) << out;
  EXPECT_FALSE(has(out, "PF_BOTH(two, 2)")) << out;
  // Where the macro is only the beginning of a declaration.
  out = cut(macros + "PF_TAIL(four, 4);" + kernel("four"));
  EXPECT_TRUE(has(out, "PF_TAIL(four, 4);")) << out;
  // Names that stand among the variable arguments.
  out = cut(macros + "constexpr int five = 5;\nPF_LIST(list, 1, five)" + kernel("list[1]"));
  EXPECT_TRUE(has(out, "PF_LIST(list, 1, five)") && has(out, "int five")) << out;
  // A macro without arguments.
  out = cut(macros + "PF_THREE" + kernel("three"));
  EXPECT_TRUE(has(out, "\nPF_THREE\n")) << out;
  out = cut(macros + "PF_THREE" + kernel("3"));
  EXPECT_FALSE(has(out, "\nPF_THREE\n")) << out;
}

TEST(Prune, KeepsHeadsThatMacrosMake) {
  const std::string out = cut(R"(
#define PF_STEP(T) PF_DEVICE int step(T x)
#define PF_NAME step_of_name
#define PF_WIDE(N) __attribute__((aligned(N)))
PF_STEP(int) { return x; }
PF_DEVICE int PF_NAME(int x) { return x; }
struct PF_WIDE(16) wide { int x; };
PF_KERNEL(rows, 64)(int* p) { *p = step(1) + step_of_name(2) + wide{3}.x; }
)");
  EXPECT_TRUE(has(out, "PF_STEP(int) { return x; }")) << out;
  EXPECT_TRUE(has(out, "int PF_NAME(int x)")) << out;
  EXPECT_TRUE(has(out, "wide { int x; }")) << out;
}

TEST(Prune, KeepsKernelsThatMacrosMake) {
  const std::string text = R"(
#define PF_ROWS(NAME, T) \
  PF_KERNEL(NAME##_rows, 64)(T* p) { *p = help(T{}); }
PF_DEVICE int help(int x) { return x; }
PF_ROWS(int, int)
PF_ROWS(float, float)
)";
  const std::string out = cut(text, "int_rows");
  EXPECT_TRUE(has(out, "PF_ROWS(int, int)") && has(out, "int help")) << out;
  EXPECT_FALSE(has(out, "PF_ROWS(float, float)")) << out;
  EXPECT_TRUE(has(cut(text, ""), "PF_ROWS(float, float)"));
}

TEST(Prune, KeepsNamesThatMacrosGlueTogether) {
  const std::string out = cut(R"(
#define PF_CALL(NAME, X) pf_##NAME(X)
#define PF_TWICE(NAME, X) PF_CALL(NAME, PF_CALL(NAME, X))
PF_DEVICE int pf_next(int x) { return x + 1; }
PF_DEVICE int pf_last(int x) { return x - 1; }
PF_KERNEL(rows, 64)(int* p) { *p = PF_TWICE(next, 1); }
)");
  EXPECT_TRUE(has(out, "int pf_next")) << out;
  EXPECT_FALSE(has(out, "int pf_last")) << out;
}

TEST(Prune, KeepsEachDefinitionOfAConditionalMacro) {
  const std::string out = cut(R"(
#if PF_WARP == 64
#define PF_UNIT(T) PF_DEVICE int wide_step(T x) { return x; }
#else
#define PF_UNIT(T) PF_DEVICE int narrow_step(T x) { return x; }
#endif
PF_UNIT(int)
PF_KERNEL(rows, 64)(int* p) { *p = narrow_step(1); }
)");
  EXPECT_TRUE(has(out, "PF_UNIT(int)")) << out;
}

TEST(Prune, TakesOptionsForMacros) {
  const std::string text = R"(
PF_DEVICE int PF_NAME(int x) { return x; }
template <class T> struct traits;
template <> struct traits<PF_T> { enum { size = 4 }; };
PF_KERNEL(rows, 64)(int* p) { *p = scaled(1) + traits<float>::size; }
)";
  const std::string out = cut(text, "rows", "-DPF_NAME=scaled -DPF_T=float");
  EXPECT_TRUE(has(out, "int PF_NAME(int x)") && has(out, "struct traits<PF_T>")) << out;
}

TEST(Includes, PutsEachFileInOnceAndKeepsLineNumbers) {
  const std::string out = expand_includes(
      "program", "#include \"a.h\"\n#include \"a.h\"\n#include \"other.h\"\nint x;\n",
      [](const std::string& f) { return f == "a.h" ? "int a;\n" : nullptr; });
  EXPECT_EQ(
      out,
      "#line 1 \"program\"\n#line 1 \"a.h\"\nint a;\n#line 2 \"program\"\n#line 3 \"program\"\n"
      "#include \"other.h\"\nint x;\n");
}

TEST(Includes, BeginKernels) {
  const std::string text = R"(
#define PF_KERNEL(NAME, THREADS) extern "C" void NAME
// PF_KERNEL(NAME, THREADS) (arguments) { ... }
PF_KERNEL(plain, 64)(int* p) { *p = f({1}); }
PF_KERNEL(long_one, (A + B) * C)
(const args q, int (*f)(int) PF_MORE) {
  if (q.n) { return; }
}
PF_KERNEL(itself, 64)(int* p) {
  pf_next_may_start();
  pf_wait_for_earlier();
}
PF_KERNEL(declared, 64)(int* p);
PF_KERNEL(empty, 64)() {}
)";
  std::string expected = text;
  for (const char* head : {"(int* p) { *p", "PF_MORE) {", "(empty, 64)() {"}) {
    const size_t at = expected.find('{', expected.find(head) + 3);
    ASSERT_NE(at, std::string::npos);
    expected.insert(at + 1, " pf_begin();");
  }
  EXPECT_EQ(begin_kernels(text), expected);
  EXPECT_EQ(begin_kernels(""), "");
  EXPECT_EQ(begin_kernels("\nPF_KERNEL(cut"), "\nPF_KERNEL(cut");
}

}  // namespace
}  // namespace pyflame::gpu
