#include "ops/cuda/context.h"

#include "ops/cuda/column_sums.h"
#include "ops/cuda/matmul.h"

namespace reigen::cuda {

Context::Context()
    : multiprocessors_(cuda::multiprocessors()),
      scratch_(kScratchBytes, "operations' scratch"),
      step_(sizeof(StepMemory), "step settings"),
      matmul_(std::make_unique<Matmul>()),
      sums_(std::make_unique<ColumnSums>()) {
  set_step({});
  set_control({});
}

Context::~Context() = default;

void Context::add_column_sums() const { sums_->add_up(stream()); }

void Context::set_step(const StepSettings& settings) const {
  store(stream(), settings, &step()->settings);
}

void Context::set_control(const StepControl& control) const {
  store(stream(), control, this->control());
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
