#include "core/memory_words.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace pyflame::blocks {

std::string megabytes(int64_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / static_cast<double>(kMiB));
  return text;
}

namespace {

std::string contents(const Block& b) {
  std::string s = b.op ? b.op : "?";
  s += " [";
  for (int i = 0; i < b.shape.size(); ++i) s += (i ? ", " : "") + std::to_string(b.shape[i]);
  return s + "] " + std::string(name(b.dtype));
}

}  // namespace

std::string largest(const Segments& segments) {
  std::vector<const Block*> live;
  for (const auto& [base, s] : segments)
    for (const Block* b = s->first; b; b = b->next)
      if (b->state == Block::Used && b->size >= kLabelled) live.push_back(b);
  std::sort(live.begin(), live.end(), [](auto* a, auto* b) { return BySize()(b, a); });
  std::string r;
  for (size_t i = 0; i < std::min<size_t>(live.size(), 5); ++i)
    r += (i ? ", " : "") + megabytes(static_cast<int64_t>(live[i]->size)) + " from " +
         contents(*live[i]);
  return r.empty() ? "none" : r;
}

std::string snapshot(Device device, const Segments& segments) {
  static constexpr const char* kStates[] = {"active_allocated", "active_awaiting_free", "inactive",
                                            "inactive"};
  std::string r = "[";
  for (const auto& [base, s] : segments) {
    size_t allocated = 0, active = 0, requested = 0;
    std::string blocks;
    for (const Block* b = s->first; b; b = b->next) {
      const bool used = b->state == Block::Used;
      if (used) allocated += b->size, requested += b->requested;
      if (used || b->state == Block::Waiting) active += b->size;
      blocks += std::string(blocks.empty() ? "" : ", ") +
                "{\"address\": " + std::to_string(reinterpret_cast<uintptr_t>(b->data)) +
                ", \"size\": " + std::to_string(b->size) +
                ", \"requested_size\": " + std::to_string(used ? b->requested : 0) +
                ", \"state\": \"" + kStates[b->state] + "\"";
      if (used && b->op) {
        blocks += std::string(", \"operation\": \"") + b->op + "\"";
        if (b->size >= kLabelled) {
          blocks += ", \"dtype\": \"" + std::string(name(b->dtype)) + "\", \"shape\": [";
          for (int i = 0; i < b->shape.size(); ++i)
            blocks += (i ? ", " : "") + std::to_string(b->shape[i]);
          blocks += "]";
        }
      }
      blocks += "}";
    }
    r += std::string(r.size() > 1 ? ",\n " : "") + "{\"device\": \"" + device.str() +
         "\", \"address\": " + std::to_string(reinterpret_cast<uintptr_t>(base)) +
         ", \"total_size\": " + std::to_string(s->size) +
         ", \"allocated_size\": " + std::to_string(allocated) +
         ", \"active_size\": " + std::to_string(active) +
         ", \"requested_size\": " + std::to_string(requested) +
         ", \"stream\": " + std::to_string(s->stream ? s->stream->id : 0) +
         ", \"segment_pool_id\": [0, " + std::to_string(s->pool) + "], \"segment_type\": \"" +
         (s->small ? "small" : "large") + "\", \"blocks\": [" + blocks + "]}";
  }
  return r + "]";
}

}  // namespace pyflame::blocks
