// libreigen_cuda.so: the CUDA backend as a part of its own, loaded when it is first asked for.
//
// It is searched beside the program and in ../lib/reigen, where packages install it. A build with
// the preset `cuda` has the backend in the program instead, and none of these files.
#pragma once

#include <string>

namespace reigen {

class CudaLibrary {
 public:
  static const CudaLibrary& get();

  // Why the library is not loaded, and what to do; empty if it is.
  const std::string& missing() const { return missing_; }

  // The function of that name, of the type that device/cuda_entry.h and its siblings declare; null
  // if the library is not loaded or has no such function.
  template <class F>
  F* find(const char* name) const {
    return reinterpret_cast<F*>(symbol(name));
  }

 private:
  CudaLibrary();
  void load(const std::string& path);
  void* symbol(const char* name) const;

  void* handle_ = nullptr;  // loaded until the process ends: the driver's threads may be in it
  std::string missing_;
};

}  // namespace reigen
