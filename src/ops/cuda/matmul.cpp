// cuBLASLt is column-major: C = op(A) op(B) by rows is C' = op(B)' op(A)' by columns, so the
// operands are swapped and no data is moved.
#include "ops/cuda/matmul.h"

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>
#include <vector>

#include "base/error.h"
#include "ops/cuda/backend.h"

namespace reigen::cuda {
namespace {

constexpr size_t kCandidates = 32;  // algorithms of the library that are timed for a new shape

void check_blas(cublasStatus_t status, const std::string& what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError("cuBLASLt could not " + what + ": " + cublasLtGetStatusName(status));
}

cudaDataType_t data_type(DType dtype) {
  if (dtype == DType::kBF16) return CUDA_R_16BF;
  if (dtype == DType::kF16) return CUDA_R_16F;
  return CUDA_R_32F;
}

// The largest power of two that divides an address, up to 256, which cuBLASLt may rely on.
uint32_t alignment_of(const void* pointer) {
  const auto bits = reinterpret_cast<uintptr_t>(pointer) | 256;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

std::string shape_text(const Product& p) {
  auto shape = [](const Tensor& t) {
    return "[" + std::to_string(t.rows) + ", " + std::to_string(t.cols) + "]";
  };
  return shape(p.a) + (p.ta == Transpose::kYes ? "' x " : " x ") + shape(p.b) +
         (p.tb == Transpose::kYes ? "'" : "") + " -> " + shape(p.c) + " " + name_of(p.a.dtype) +
         (p.batch > 1 ? " times " + std::to_string(p.batch) : "");
}

}  // namespace

// Everything a choice depends on, in the order of a record: sizes, transposes, strides, types,
// addend (0: none, 1: C itself, 2: a different matrix), batch (0 for a single product), alignments,
// TF32.
struct Matmul::Key {
  std::array<int64_t, 17> values = {};
  bool operator<(const Key& other) const { return values < other.values; }

  // The same with the three sizes truncated to four bits.
  Key kind() const {
    Key kind = *this;
    for (size_t i = 0; i < 3; ++i) {
      int shift = 0;
      while (values[i] >> shift >= 16) ++shift;
      kind.values[i] = values[i] >> shift << shift;
    }
    return kind;
  }
};

struct Matmul::Plan {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr;
  cublasLtMatrixLayout_t b = nullptr;
  cublasLtMatrixLayout_t c = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};

  Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  ~Plan() {
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
    for (auto layout : {a, b, c}) {
      if (layout != nullptr) cublasLtMatrixLayoutDestroy(layout);
    }
  }
  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) const {
    check_blas(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof(value)),
               "describe a product");
  }
};

struct Matmul::State {
  cublasLtHandle_t handle = nullptr;
  std::map<Key, Plan> plans[2];  // by exact shape; untimed, timed
  std::map<Key, cublasLtMatmulAlgo_t>
      choices;  // by kind, or by shape where the kind's does not work
};

Matmul::Matmul()
    : state_(std::make_unique<State>()), workspace_(kWorkspaceBytes, "matrix products") {
  check_blas(cublasLtCreate(&state_->handle), "start");
}

Matmul::~Matmul() {
  for (auto& plans : state_->plans) plans.clear();
  cublasLtDestroy(state_->handle);
}

Matmul::Plan& Matmul::plan_for(const Context& context, const Product& p) {
  const int64_t inner = p.ta == Transpose::kYes ? p.a.rows : p.a.cols;
  Key key{{p.c.rows, p.c.cols, inner, p.ta == Transpose::kYes, p.tb == Transpose::kYes, p.a.stride,
           p.b.stride, p.c.stride, static_cast<int64_t>(p.a.dtype), static_cast<int64_t>(p.b.dtype),
           static_cast<int64_t>(p.c.dtype),
           p.beta == 0        ? 0
           : p.add == nullptr ? 1
                              : 2,
           p.batch > 1 ? p.batch : 0, alignment_of(p.a.data), alignment_of(p.b.data),
           alignment_of(p.c.data), tf32_}};
  Plan& plan = state_->plans[p.timed ? 1 : 0][key];
  if (plan.operation != nullptr) return plan;
  const bool tf32 = tf32_ && p.a.dtype == DType::kF32;
  check_blas(
      cublasLtMatmulDescCreate(
          &plan.operation, tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
      "describe a product");
  auto flag = [](Transpose t) { return t == Transpose::kYes ? CUBLAS_OP_T : CUBLAS_OP_N; };
  plan.set(CUBLASLT_MATMUL_DESC_TRANSA, flag(p.tb));
  plan.set(CUBLASLT_MATMUL_DESC_TRANSB, flag(p.ta));
  plan.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
  auto layout = [&p](const Tensor& t, cublasLtMatrixLayout_t* out) {
    check_blas(cublasLtMatrixLayoutCreate(out, data_type(t.dtype), static_cast<uint64_t>(t.cols),
                                          static_cast<uint64_t>(t.rows), t.stride),
               "describe a matrix");
    if (p.batch == 1) return;
    auto set = [out](cublasLtMatrixLayoutAttribute_t attribute, auto value) {
      check_blas(cublasLtMatrixLayoutSetAttribute(*out, attribute, &value, sizeof(value)),
                 "describe a batch of matrices");
    };
    set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(p.batch));
    set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, int64_t{t.rows * t.stride});
  };
  layout(p.b, &plan.a);
  layout(p.a, &plan.b);
  layout(p.c, &plan.c);
  take_choice(context, p, key, plan);
  return plan;
}

void Matmul::take_choice(const Context& context, const Product& p, const Key& key, Plan& plan) {
  // Neither recorded nor replayed: a record of one worker is not known to the others.
  if (!p.timed) return choose(context, p, plan);
  auto& choices = state_->choices;
  auto usable = [&](const Key& at) {
    const auto found = choices.find(at);
    if (found == choices.end()) return false;
    cublasLtMatmulHeuristicResult_t result = {};
    if (cublasLtMatmulAlgoCheck(state_->handle, plan.operation, plan.a, plan.b, plan.c, plan.c,
                                &found->second, &result) != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > kWorkspaceBytes) {
      return false;
    }
    plan.algorithm = found->second;
    return true;
  };
  const Key kind = key.kind();
  if (usable(key) || usable(kind)) return;
  choose(context, p, plan);
  choices[choices.contains(kind) ? key : kind] = plan.algorithm;
}

void Matmul::choose(const Context& context, const Product& p, Plan& plan) {
  cublasLtMatmulPreference_t preference = nullptr;
  check_blas(cublasLtMatmulPreferenceCreate(&preference), "describe a preference");
  auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check_blas(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
               "describe a preference");
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(p.b.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(p.a.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(p.c.data));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(p.c.data));
  const size_t wanted = p.timed ? kCandidates : 1;
  std::vector<cublasLtMatmulHeuristicResult_t> found(wanted);
  int count = 0;
  cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(state_->handle, plan.operation, plan.a, plan.b, plan.c, plan.c,
                                     preference, static_cast<int>(wanted), found.data(), &count);
  cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) {
    throw DeviceError("cuBLASLt knows no algorithm for " + shape_text(p) + ": " +
                      cublasLtGetStatusName(status));
  }
  int best = 0;
  if (count > 1 && p.timed) {
    // C may hold a sum that must not be touched, so candidates write elsewhere.
    const auto bytes = static_cast<size_t>(p.batch * p.c.rows * p.c.stride) * size_of(p.c.dtype);
    DeviceMemory out(bytes, "timing matrix products");
    fill_zero(out.get(), bytes, context.stream());
    const void* add = p.add == nullptr ? out.get() : p.add;
    Event start(Event::Timing::kOn);
    Event stop(Event::Timing::kOn);
    // In rounds, the best time of each: clocks and other load change meanwhile.
    constexpr int kRounds = 3;
    constexpr int kRepeats = 3;
    float least = 0;
    for (int i = 0; i < kRounds * count; ++i) {
      auto once = [&] {
        return cublasLtMatmul(state_->handle, plan.operation, &p.alpha, p.b.data, plan.a, p.a.data,
                              plan.b, &p.beta, add, plan.c, out.get(), plan.c,
                              &found[static_cast<size_t>(i % count)].algo, workspace_.get(),
                              workspace_.size(), context.stream());
      };
      if (once() != CUBLAS_STATUS_SUCCESS) continue;
      start.record(context.stream());
      for (int r = 0; r < kRepeats; ++r) once();
      stop.record(context.stream());
      stop.wait();
      const float ms = stop.milliseconds_since(start);
      if (least == 0 || ms < least) {
        least = ms;
        best = i % count;
      }
    }
  }
  plan.algorithm = found[static_cast<size_t>(best)].algo;
}

void Matmul::run(const Context& context, const Product& product) {
  if (product.c.rows == 0 || product.c.cols == 0) return;
  Product p = product;
  p.timed = p.timed && timing_;
  Plan& plan = plan_for(context, p);
  cublasStatus_t status =
      cublasLtMatmul(state_->handle, plan.operation, &p.alpha, p.b.data, plan.a, p.a.data, plan.b,
                     &p.beta, p.add == nullptr ? p.c.data : p.add, plan.c, p.c.data, plan.c,
                     &plan.algorithm, p.stream == nullptr ? workspace_.get() : p.workspace,
                     workspace_.size(), p.stream == nullptr ? context.stream() : p.stream);
  if (status != CUBLAS_STATUS_SUCCESS) check_blas(status, "multiply " + shape_text(p));
}

std::string Matmul::record() const {
  std::string text = "cublasLt " + std::to_string(cublasLtGetVersion()) + "\n";
  for (const auto& [key, algorithm] : state_->choices) {
    for (int64_t value : key.values) text += std::to_string(value) + " ";
    for (uint64_t word : algorithm.data) {
      char hex[20];
      std::snprintf(hex, sizeof(hex), " %016llx", static_cast<unsigned long long>(word));
      text += hex;
    }
    text += "\n";
  }
  return text;
}

bool Matmul::replay(const std::string& record) {
  std::istringstream in(record);
  std::string name;
  size_t version = 0;
  in >> name >> version;
  if (name != "cublasLt" || version != cublasLtGetVersion()) return false;
  for (;;) {
    Key key;
    cublasLtMatmulAlgo_t algorithm = {};
    for (int64_t& value : key.values) in >> std::dec >> value;
    for (uint64_t& word : algorithm.data) in >> std::hex >> word;
    if (!in) return true;
    state_->choices[key] = algorithm;
  }
}

void matmul(const Context& context, Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c,
            float alpha, float beta) {
  context.matmul().run(context, {a, ta, b, tb, c, alpha, beta});
}

void linear_forward(const Context& context, Tensor x, Tensor weight, Tensor y) {
  matmul(context, x, Transpose::kNo, weight, Transpose::kYes, y);
}

void linear_backward_input(const Context& context, Tensor dy, Tensor weight, Tensor dx,
                           bool accumulate) {
  matmul(context, dy, Transpose::kNo, weight, Transpose::kNo, dx, 1, accumulate ? 1 : 0);
}

void linear_backward_weight(const Context& context, Tensor dy, Tensor x, Tensor dweight) {
  matmul(context, dy, Transpose::kYes, x, Transpose::kNo, dweight, 1, 1);
}

void CudaBackend::matmul(const Device&, Tensor a, Transpose ta, Tensor b, Transpose tb, Tensor c,
                         float alpha, float beta) {
  cuda::matmul(context_, a, ta, b, tb, c, alpha, beta);
}

// cuBLASLt reads weights as they are.
std::unique_ptr<PackedWeight> CudaBackend::pack_weight(const Device&, Tensor) { return nullptr; }

std::unique_ptr<PackedWeight> CudaBackend::pack_int8(const Device&, const Int8Matrix&) {
  throw DeviceError("products in int8 are for the CPU; a GPU takes the expanded weights");
}

void CudaBackend::packed_product(const Device&, Tensor, const PackedWeight&, Tensor) {
  throw DeviceError("a GPU has no packed weights");
}

}  // namespace reigen::cuda
