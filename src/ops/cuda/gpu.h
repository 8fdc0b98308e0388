// device/gpu.h on CUDA. It owns the context whose stream all operations of the GPU share.
#pragma once

#include "device/gpu.h"
#include "ops/cuda/context.h"

namespace reigen::cuda {

class CudaGpu : public Gpu {
 public:
  explicit CudaGpu(int index);

  const GpuFacts& facts() const override { return facts_; }
  uint64_t free_memory() const override;
  void make_current() const override;

  void upload(void* to, const void* from, size_t bytes) override;
  void download(void* to, const void* from, size_t bytes) override;
  void copy(void* to, const void* from, size_t bytes) override;
  void clear(void* data, size_t bytes) override;
  void wait() override { context_.queue().wait(); }
  void mark_snapshot() override { snapshot_.record(context_.stream()); }
  void download_snapshot(void* to, const void* from, size_t bytes) override;
  std::unique_ptr<GpuTransfer> transfer() override;
  void* native_queue() const override { return context_.stream(); }

  const Context& context() const { return context_; }

 private:
  GpuFacts facts_;
  Context context_;
  Stream snapshots_;  // copies to the host while operations continue
  Event snapshot_;
};

}  // namespace reigen::cuda
