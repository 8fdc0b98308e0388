#include "base/error.h"

#include <new>
#include <system_error>

namespace reigen {

Failure failure_of(const std::exception& error) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return {known->code(), known->what()};
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    return {ExitCode::kInternal,
            "out of memory; use a smaller --memory for train, fewer --threads or a smaller "
            "--shard-tokens for prepare"};
  }
  return {ExitCode::kInternal,
          std::string("internal error: ") + error.what() + "; please report it"};
}

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

}  // namespace reigen
