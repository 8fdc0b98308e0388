#include "base/error.h"

#include <system_error>

namespace reigen {

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

}  // namespace reigen
