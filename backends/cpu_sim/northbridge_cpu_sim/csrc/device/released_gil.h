// Lets other threads run Python while this thread waits for them.
#pragma once

#include <Python.h>

namespace chip {

class ReleasedGil {
 public:
  ReleasedGil()
      : state_(Py_IsInitialized() && PyGILState_Check() ? PyEval_SaveThread() : nullptr) {}
  ~ReleasedGil() {
    if (state_ != nullptr) {
      PyEval_RestoreThread(state_);
    }
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* const state_; // null in a thread that did not hold the GIL
};

} // namespace chip
