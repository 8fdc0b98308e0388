// Copies between a GPU and pinned host memory that overlap with operations.
//
// A ticket stands for a point in the GPU's queue; the host may enqueue more work and wait for the
// ticket later. A ticket is valid until clear_tickets().
#pragma once

#include <cstddef>
#include <memory>

namespace reigen {

class GpuTransfer {
 public:
  virtual ~GpuTransfer() = default;

  // Pins host memory, so that copies from and to it are asynchronous, until the result is freed.
  virtual std::shared_ptr<void> pin(void* data, size_t bytes) = 0;

  virtual size_t mark() = 0;  // reached when all work so far is done
  // Copies to pinned memory after all work so far; later operations do not wait for the copy.
  virtual size_t fetch(void* to, const void* from, size_t bytes) = 0;
  virtual void wait_for(size_t ticket) = 0;
  virtual void clear_tickets() = 0;

  // Copies from pinned memory, in order with operations; the host does not wait.
  virtual void send(void* to, const void* from, size_t bytes) = 0;
};

}  // namespace reigen
