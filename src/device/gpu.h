// One GPU as the host uses it: properties, memory and copies. Operations are in ops/backend.h.
//
// Calls append work to the GPU's queue, which runs in order with its operations; the host waits
// only in calls whose comment mentions it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "device/gpu_transfer.h"

namespace reigen {

struct GpuFacts {
  int index = 0;
  std::string name;
  uint64_t memory = 0;  // bytes
  int capability = 0;   // 90 for sm_90
  std::string uuid;     // unique to this GPU
  std::string driver;   // its version, and the CUDA version it supports
  std::string runtime;  // the CUDA version this program was built with
  bool has_bf16() const { return capability >= 80; }
};

class Gpu {
 public:
  virtual ~Gpu() = default;

  virtual const GpuFacts& facts() const = 0;
  virtual uint64_t free_memory() const = 0;

  // For a thread other than the one that opened the GPU, before its first call.
  virtual void make_current() const = 0;

  virtual void upload(void* to, const void* from, size_t bytes) = 0;    // waits for the copy
  virtual void download(void* to, const void* from, size_t bytes) = 0;  // waits for all work so far
  virtual void copy(void* to, const void* from, size_t bytes) = 0;      // on the GPU
  virtual void clear(void* data, size_t bytes) = 0;
  virtual void wait() = 0;  // until all work so far is done

  // Copies to the host on a second queue, from any thread, while operations continue: `from` is
  // read as it was at the last mark_snapshot(). Waits for the copy.
  virtual void mark_snapshot() = 0;
  virtual void download_snapshot(void* to, const void* from, size_t bytes) = 0;

  // Copies of a gradient that overlap with computing.
  virtual std::unique_ptr<GpuTransfer> transfer() = 0;

  virtual void* native_queue() const = 0;  // the CUDA stream, for tools that measure
};

}  // namespace reigen
