// Graphs and plans as text, for people.
#pragma once

#include <string>

#include "engine/planner.h"

namespace pyflame::engine {

// A line for each value that is read from outside, and for each step with what it makes:
// "%2 = add(%0, %1) float32 [4, 8]". With or without the last phase.
std::string print_graph(const Window&, bool last = true);
// A line for each launch, with the memory of its results. Values have the graph's numbers.
std::string print_plan(const Window&, const Plan&, bool together);

}  // namespace pyflame::engine
