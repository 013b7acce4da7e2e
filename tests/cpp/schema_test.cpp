// The parser of schemas: what it takes, and what it says of the rest.
#include "table/schema.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/registry.h"
#include "pyflame/error.h"

namespace pyflame::table {
namespace {

TEST(Schema, ParametersResultsAndDefaults) {
  const Schema s = parse_schema(
      "topk(Tensor input|tensor, int k, int[]? dim=None, float p=inf, Scalar a=-3, Scalar b=2.5, "
      "*, "
      "bool largest=True, str mode='a, (b', int[] dims=[0, -1], Tensor? out, dtype? dtype=None, "
      "device? device=None, Tensor[] more=[]) -> (Tensor values, Tensor indices)");
  EXPECT_EQ(s.name, "topk");
  ASSERT_EQ(s.params.size(), 13u);
  EXPECT_EQ(s.positional, 6);
  EXPECT_EQ(s.params[0].aliases, std::vector<std::string>{"tensor"});
  EXPECT_FALSE(s.params[1].has_default);
  EXPECT_TRUE(s.params[2].optional);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(s.params[2].default_value));
  EXPECT_TRUE(std::isinf(std::get<double>(s.params[3].default_value)));
  EXPECT_EQ(std::get<Scalar>(s.params[4].default_value).i, -3);
  EXPECT_EQ(std::get<Scalar>(s.params[5].default_value).f, 2.5);
  EXPECT_TRUE(s.params[6].keyword_only);
  EXPECT_TRUE(std::get<bool>(s.params[6].default_value));
  EXPECT_EQ(std::get<std::string>(s.params[7].default_value), "a, (b");
  EXPECT_EQ(std::get<IntList>(s.params[8].default_value), (IntList{0, -1}));
  EXPECT_TRUE(s.params[9].optional && !s.params[9].has_default);
  EXPECT_EQ(s.results, (std::vector{Type::Tensor, Type::Tensor}));
  EXPECT_EQ(s.result_names, (std::vector<std::string>{"values", "indices"}));
  EXPECT_TRUE(s.has("mode"));
  EXPECT_FALSE(s.has("tensor"));
}

TEST(Schema, Results) {
  EXPECT_TRUE(parse_schema("f() -> None").results.empty());
  const Schema plain = parse_schema("f() -> (Tensor, Tensor)");
  EXPECT_EQ(plain.results, (std::vector{Type::Tensor, Type::Tensor}));
  EXPECT_TRUE(plain.result_names.empty());
  EXPECT_EQ(parse_schema("f() -> Tensor[]").results, std::vector{Type::TensorList});
  EXPECT_TRUE(parse_schema("f() -> Tensor | Tensor[]").one_or_list);
  EXPECT_EQ(without_aliases("f(Tensor a|b|c, int d|e=1) -> Tensor | Tensor[]"),
            "f(Tensor a, int d=1) -> Tensor | Tensor[]");
}

TEST(Schema, MalformedOnesSayWhatIsWrong) {
  static constexpr const char* kMalformed[][2] = {
      {"", "no parameters"},
      {"f", "no parameters"},
      {"f() Tensor", "no result"},
      {"f() ->", "no result"},
      {"f(Tensor a -> Tensor", "no closing bracket"},
      {"f) -> Tensor (", "the name"},
      {"f(Tensor a) b -> Tensor", "no closing bracket"},
      {"2f(Tensor a) -> Tensor", "the name '2f'"},
      {"f(Tensor) -> Tensor", "the parameter 'Tensor'"},
      {"f(Matrix a) -> Tensor", "the type 'Matrix'"},
      {"f(Tensor a) -> Matrix", "the type 'Matrix'"},
      {"f(Tensor a-b) -> Tensor", "the name of the parameter"},
      {"f(Tensor a|) -> Tensor", "the name of the parameter"},
      {"f(Tensor a,) -> Tensor", "an empty place"},
      {"f(Tensor a,, int b) -> Tensor", "an empty place"},
      {"f(Tensor a, int a) -> Tensor", "two parameters of the name 'a'"},
      {"f(int a=1, int b) -> Tensor", "a parameter without a default"},
      {"f(int a, *, *, int b) -> Tensor", "a second '*'"},
      {"f(int a=) -> Tensor", "no default"},
      {"f(int a=x) -> Tensor", "the default 'x'"},
      {"f(int a=1.5) -> Tensor", "the default '1.5'"},
      {"f(int a=99999999999999999999) -> Tensor", "the default '99999999999999999999'"},
      {"f(float a=1.5e) -> Tensor", "the default '1.5e'"},
      {"f(Scalar a=one) -> Tensor", "the default 'one'"},
      {"f(bool a=1) -> Tensor", "the default '1'"},
      {"f(str a=b) -> Tensor", "the default 'b'"},
      {"f(str a='b) -> Tensor", "a quote"},
      {"f(int[] a=[1, 2) -> Tensor", "a bracket"},
      {"f(int[] a=[1, x]) -> Tensor", "the default 'x'"},
      {"f(Tensor a=0) -> Tensor", "the default '0'"},
      {"f(Tensor a) -> (Tensor b, Tensor)", "the result 'Tensor'"},
      {"f(Tensor a) -> (Tensor, Tensor b)", "the result 'Tensor b'"},
      {"f(Tensor a) -> (Tensor b", "the list"},
  };
  for (const auto& [text, what] : kMalformed) {
    try {
      parse_schema(text);
      ADD_FAILURE() << text << " was taken";
    } catch (const ValueError& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find("; expected "), std::string::npos) << e.what();
    }
  }
}

TEST(Schema, EveryRowParses) {
  for (const ops::Op& op : ops::table()) EXPECT_EQ(parse_schema(op.schema).name, op.name);
}

}  // namespace
}  // namespace pyflame::table
