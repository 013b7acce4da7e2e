// Memory for the small objects that every operation makes and frees: storages, tensors, nodes.
#pragma once

#include <new>

#include "core/room.h"

namespace pyflame {

// Freed objects of one size, kept by the thread that freed them.
template <class T>
class Pool {
 public:
  static void* take() {
    Pool& p = instance();
    if (p.head_) {
      void* r = p.head_;
      p.head_ = *static_cast<void**>(r);
      --p.count_;
      return r;
    }
    return ::operator new(sizeof(T));
  }
  static void give(void* block) noexcept {
    if (t_gone || instance().count_ >= kKeep) {
      ::operator delete(block);
      return;
    }
    Pool& p = instance();
    *static_cast<void**>(block) = p.head_;
    p.head_ = block;
    ++p.count_;
  }

 private:
  static constexpr int kKeep = 4096;
  static const AtThreadStart kMade;
  ~Pool() {
    t_gone = true;
    while (head_) {
      void* next = *static_cast<void**>(head_);
      ::operator delete(head_);
      head_ = next;
    }
  }
  static Pool& instance() {
    static thread_local Pool pool;
    (void)&kMade;
    return pool;
  }
  static thread_local bool t_gone;  // this thread's pool was destroyed; tensors may outlive it
  void* head_ = nullptr;
  int count_ = 0;
};
template <class T>
thread_local bool Pool<T>::t_gone = false;
template <class T>
const AtThreadStart Pool<T>::kMade{[] { AtThreadStart::touch(&Pool<T>::instance()); }};

}  // namespace pyflame
