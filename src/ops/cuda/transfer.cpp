#include "ops/cuda/transfer.h"

namespace reigen::cuda {

std::shared_ptr<void> Transfer::pin(void* data, size_t bytes) {
  check(cudaHostRegister(data, bytes, cudaHostRegisterDefault), "pin host memory");
  return {data, [](void* pinned) { cudaHostUnregister(pinned); }};
}

Event& Transfer::next_event() {
  if (used_ == events_.size()) events_.emplace_back();
  return events_[used_++];
}

size_t Transfer::mark() {
  next_event().record(context_.stream());
  return used_ - 1;
}

size_t Transfer::fetch(void* to, const void* from, size_t bytes) {
  computed_.record(context_.stream());
  computed_.wait_on(copies_.get());
  copy_to_host(to, from, bytes, copies_.get());
  next_event().record(copies_.get());
  return used_ - 1;
}

void Transfer::wait_for(size_t ticket) { events_[ticket].wait(); }

void Transfer::send(void* to, const void* from, size_t bytes) {
  copy_to_device(to, from, bytes, context_.stream());
}

}  // namespace reigen::cuda
