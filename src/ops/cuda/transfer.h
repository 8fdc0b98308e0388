// device/gpu_transfer.h on CUDA: a second stream, and an event for each ticket.
#pragma once

#include <deque>

#include "device/gpu_transfer.h"
#include "ops/cuda/context.h"

namespace reigen::cuda {

class Transfer : public GpuTransfer {
 public:
  explicit Transfer(const Context& context) : context_(context) {}

  std::shared_ptr<void> pin(void* data, size_t bytes) override;
  size_t mark() override;
  size_t fetch(void* to, const void* from, size_t bytes) override;
  void wait_for(size_t ticket) override;
  void clear_tickets() override { used_ = 0; }
  void send(void* to, const void* from, size_t bytes) override;

 private:
  Event& next_event();

  const Context& context_;
  Stream copies_;
  Event computed_;
  std::deque<Event> events_;  // the first `used_` are tickets
  size_t used_ = 0;
};

}  // namespace reigen::cuda
