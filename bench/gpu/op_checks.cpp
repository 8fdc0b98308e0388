#include "op_checks.h"

#include <cstdio>

#include "checker.h"
#include "ops/cuda/matmul.h"

namespace reigen::bench {

double rounding(DType dtype) {
  if (dtype == DType::kBF16) return 3e-3;
  if (dtype == DType::kF16) return 5e-4;
  return 3e-6;
}

void Checker::add(const std::string& op, const std::string& which, double error, double tolerance) {
  CheckResult& r = results[op];
  ++r.checks;
  const double ratio = error / tolerance;
  if (!(ratio <= 1)) {
    ++r.failed;
    std::printf("FAILED %s, %s: error %.3g, allowed %.3g\n", op.c_str(), which.c_str(), error,
                tolerance);
  }
  if (r.checks == 1 || !(ratio <= r.ratio)) {
    r.error = error;
    r.tolerance = tolerance;
    r.ratio = ratio;
    r.worst = which;
  }
}

CheckResults check_operations(const cuda::Context& context, uint64_t seed, bool quick) {
  Checker checker(context, seed, quick);
  if (quick) context.matmul().set_candidates(1);
  auto guarded = [&](const char* name, void (Checker::*part)()) {
    try {
      (checker.*part)();
    } catch (const std::exception& e) {
      std::printf("FAILED %s: %s\n", name, e.what());
      CheckResult& r = checker.results[name];
      ++r.checks;
      ++r.failed;
      r.worst = e.what();
    }
  };
  guarded("product", &Checker::products);
  guarded("norm", &Checker::norms);
  guarded("activation", &Checker::activations);
  guarded("attention", &Checker::attentions);
  guarded("embed", &Checker::embeddings);
  guarded("loss", &Checker::losses);
  guarded("optimizer", &Checker::optimizer);
  guarded("step control", &Checker::step_control);
  guarded("loss scaling", &Checker::loss_scaling);
  guarded("decoding", &Checker::decoding);
  return checker.results;
}

}  // namespace reigen::bench
