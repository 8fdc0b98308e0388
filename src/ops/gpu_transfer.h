// Bringing what a GPU computes to the host piece by piece, while it computes on.
//
// A ticket stands for a moment in the GPU's queue: the host may put more work in line and wait for
// the ticket later. Tickets are good until forget().
#pragma once

#include <cstddef>
#include <memory>

namespace reigen {

class GpuTransfer {
 public:
  virtual ~GpuTransfer() = default;

  // Keeps host memory in place, so that copies need not stop for it, until the result is let go.
  virtual std::shared_ptr<void> pin(void* data, size_t bytes) = 0;

  virtual size_t mark() = 0;  // everything called so far is done
  // Everything called so far, then this copy to pinned memory; later operations do not wait for it.
  virtual size_t fetch(void* to, const void* from, size_t bytes) = 0;
  virtual void wait_for(size_t ticket) = 0;
  virtual void forget() = 0;

  // From pinned memory, in the order of operations; the host does not wait.
  virtual void send(void* to, const void* from, size_t bytes) = 0;
};

}  // namespace reigen
