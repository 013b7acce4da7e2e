#include "engine/gil.h"

#include <string>
#include <utility>

#include "core/lock.h"
#include "core/room.h"
#include "engine/engine.h"
#include "engine/trace.h"

namespace pyflame::engine {
namespace {

Hooks g_hooks;
thread_local int t_gil_depth = 0;
thread_local void* t_gil_state = nullptr;
thread_local bool t_hears = false;

thread_local std::string t_site;  // from before the GIL was given away
[[maybe_unused]] const AtThreadStart kMade([] { AtThreadStart::touch(&t_site); });

}  // namespace

void set_hooks(Hooks h) {
  g_hooks = h;
}

GilScope::GilScope() {
  ++t_gil_depth;
}
GilScope::~GilScope() {
  if (--t_gil_depth || !t_gil_state) return;
  AtWork::leave();
  g_hooks.acquire_gil(std::exchange(t_gil_state, nullptr));
}

std::string call_site() {
  if (t_gil_state) return t_site;
  return g_hooks.call_site ? g_hooks.call_site() : std::string();
}

void long_work(int64_t elements) {
  if (elements < kLongWork || !g_hooks.release_gil || t_gil_depth == 0 || t_gil_state) return;
  if (tracing()) t_site = call_site();
  AtWork::enter();  // before somebody else has the GIL, and may fork
  t_hears = g_hooks.hears();
  t_gil_state = g_hooks.release_gil();
  if (!t_gil_state) AtWork::leave();
}

bool hears_interrupts() {
  return t_gil_state && t_hears;
}

}  // namespace pyflame::engine
