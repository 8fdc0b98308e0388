// One memfd for the life of the process, rewritten for each input.
#include "fuzz/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "base/error.h"
#include "data/input/pair_reader.h"

namespace reigen {
namespace {

constexpr size_t kMostText = 4 << 20;

}  // namespace

std::string memory_file(const uint8_t* data, size_t size) {
  static const int fd = memfd_create("input", MFD_CLOEXEC);
  bool written =
      fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == static_cast<ssize_t>(size);
  if (!written) std::abort();
  return "/proc/self/fd/" + std::to_string(fd);
}

void read_all_pairs(const std::function<std::unique_ptr<PairReader>()>& open) {
  try {
    auto reader = open();
    size_t text = 0;
    for (RawPair pair; text < kMostText && reader->next(pair);) {
      text += pair.source.size() + pair.target.size() + 1;
    }
    if (reader->inputs().empty()) std::abort();  // every reader must describe its inputs
  } catch (const Error&) {
  }
}

}  // namespace reigen
