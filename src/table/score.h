// Functions of one score of attention that kernels compute themselves: a score_mod as expressions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "table/expr.h"
#include "table/parse.h"

namespace pyflame::table {

// Inputs of the expressions: the score, which batch, head, query and key it is of, then what
// tables have for it.
inline constexpr int kScoreInputs = 5, kScoreTables = 4;

struct ScoreFunction {
  Expr value, slope;     // slope: its derivative by the score
  std::vector<Expr> at;  // of each table, which element, over inputs 1 to 4
  friend bool operator==(const ScoreFunction&, const ScoreFunction&) = default;
};

// The number, from 1 on, of the function with this text over s, b, h, i, j and t0 to t3 (tables
// that `at` says the elements of); equal ones have the same. 0 where there are too many already:
// each is a program of its own. ValueError for text that is none.
int64_t define_score(const std::string& value, const std::vector<std::string>& at,
                     const Lookup& lookup, const char* op);
// Valid as long as the process.
const ScoreFunction& score_function(int64_t number);

}  // namespace pyflame::table
