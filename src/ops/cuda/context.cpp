#include "ops/cuda/context.h"

#include <string>

#include "base/error.h"
#include "ops/cuda/column_sums.h"
#include "ops/cuda/matmul.h"

namespace reigen::cuda {

Context::Context(Stream::Priority priority)
    : stream_(priority),
      multiprocessors_(cuda::multiprocessors()),
      scratch_(kScratchBytes, "operations' scratch"),
      step_(sizeof(StepMemory), "step settings"),
      matmul_(std::make_unique<Matmul>()),
      sums_(std::make_unique<ColumnSums>()) {
  set_step({});
  set_control({});
}

Context::~Context() = default;

void Context::settle() const { sums_->settle(stream()); }

void Context::set_step(const StepSettings& settings) const {
  store(stream(), settings, &step_.as<StepMemory>()->settings);
}

void Context::set_control(const StepControl& control) const {
  store(stream(), control, this->control());
}

StepControl Context::read_control() const {
  StepControl out;
  copy_to_host(&out, control(), sizeof(out), stream());
  stream_.wait();
  return out;
}

void* Context::scratch(size_t bytes) const {
  if (bytes > scratch_.size()) {
    queue().wait();
    scratch_ = DeviceMemory();
    scratch_ = DeviceMemory(bytes + bytes / 4, "operations' scratch");
  }
  return scratch_.get();
}

}  // namespace reigen::cuda
