#include "gpu/cudnn_graph.h"

#include <algorithm>

namespace pyflame::gpu {
namespace {

constexpr int kMostEngines = 24;  // looked at

bool plan_of(CudnnPlan& r, void* handle, const Descriptor& graph, int mode, const PlanWish& wish,
             int& before, std::string& why) {
  Descriptor heuristic(kDnnHeuristic);
  heuristic.set(kDnnHeuristicGraph, graph);
  heuristic.number(kDnnHeuristicMode, kDnnTypeHeuristicMode, mode);
  heuristic.finish();
  std::vector<Descriptor> configs;
  void* handles[kMostEngines];
  for (void*& h : handles) h = configs.emplace_back(kDnnEngineConfig).get();
  const int64_t count =
      heuristic.read(kDnnHeuristicResults, kDnnTypeDescriptor, handles, kMostEngines);
  for (size_t i = 0; i < configs.size() && static_cast<int64_t>(i) < count; ++i) {
    try {
      Descriptor engine(kDnnEngine);
      void* at = engine.get();
      configs[i].read(kDnnConfigEngine, kDnnTypeDescriptor, &at);
      std::vector<int> notes(32);
      const int64_t said = engine.read(kDnnEngineNotes, kDnnTypeNumericalNote, notes.data(),
                                       static_cast<int64_t>(notes.size()));
      notes.resize(std::min(notes.size(), static_cast<size_t>(said)));
      if (!wish.numbers(notes)) continue;
      auto plan = std::make_unique<Descriptor>(kDnnPlan);
      plan->set(kDnnPlanHandle, kDnnTypeHandle, &handle);
      plan->set(kDnnPlanConfig, configs[i]);
      plan->finish();
      int64_t workspace = 0;
      plan->read(kDnnPlanWorkspace, kDnnTypeInt64, &workspace);
      if (workspace > static_cast<int64_t>(wish.workspace) || before-- > 0) continue;
      r.workspace = static_cast<size_t>(workspace);
      r.parts.push_back(std::move(configs[i]));
      r.plan = std::move(plan);
      return true;
    } catch (const Refused& e) {
      why = e.what();  // the next one, perhaps
    }
  }
  return false;
}

}  // namespace

const VendorLibrary<CudnnCalls>& cudnn() {
  static const VendorLibrary<CudnnCalls> l("cuDNN", "PYFLAME_CUDNN_LIBRARY", "libcudnn", {".so.9"});
  return l;
}
std::string cudnn_version() {
  if (!cudnn().usable) return "none";
  return cudnn().GetVersion ? "cuDNN " + std::to_string(cudnn().GetVersion()) : "cuDNN";
}
void cudnn_must(int status, const char* call) {
  if (status != 0)
    throw Refused(std::string("cudnn") + call + " gave status " + std::to_string(status) + " (" +
                  cudnn().GetErrorString(status) + ")");
}

void find_plan(CudnnPlan& r, void* handle, const Descriptor& graph, const PlanWish& wish) {
  std::string why = "cuDNN has no engine for it";
  int before = wish.proposal;
  for (const int mode : {kDnnHeuristicA, kDnnHeuristicFallback}) {
    try {
      if (plan_of(r, handle, graph, mode, wish, before, why)) return;
    } catch (const Refused& e) {
      why = e.what();
    }
  }
  throw Refused(why);
}

const Descriptor& make_graph(CudnnPlan& r, void* handle, const std::vector<void*>& operations) {
  Descriptor& graph = r.parts.emplace_back(kDnnGraph);
  graph.set(kDnnGraphHandle, kDnnTypeHandle, &handle);
  graph.set(kDnnGraphOperations, kDnnTypeDescriptor, operations.data(),
            static_cast<int64_t>(operations.size()));
  graph.finish();
  return graph;
}

void run_plan(const CudnnPlan& r, void* handle, const std::vector<int64_t>& ids,
              const std::vector<void*>& pointers, void* workspace, hipStream stream) {
  Descriptor pack(kDnnVariantPack);
  pack.set(kDnnPackIds, kDnnTypeInt64, ids.data(), static_cast<int64_t>(ids.size()));
  pack.set(kDnnPackPointers, kDnnTypePointer, pointers.data(),
           static_cast<int64_t>(pointers.size()));
  pack.set(kDnnPackWorkspace, kDnnTypePointer, &workspace);
  pack.finish();
  cudnn_must(cudnn().SetStream(handle, stream), "SetStream");
  cudnn_must(cudnn().BackendExecute(handle, r.plan->get(), pack.get()), "BackendExecute");
}

}  // namespace pyflame::gpu
