// One memfd for the life of the process, rewritten for each input.
#include "fuzz/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/input/byte_source.h"
#include "data/input/pair_reader.h"

namespace reigen {
namespace {

constexpr size_t kMostText = 1 << 18;

// Whether the file begins like a compressed one and has more than kMostText when it is unpacked.
bool unpacks_to_much(const std::string& path) {
  constexpr std::string_view kFirstBytes =
      "\x1F\x28\xFD\x50\x51\x52\x53\x54\x55\x56\x57\x58\x59\x5A";
  char first = 0;
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const bool any = pread(fd, &first, 1, 0) == 1;
  close(fd);
  if (!any || kFirstBytes.find(first) == std::string_view::npos) return false;
  ByteSource source(path);
  static std::vector<char> block(1 << 16);
  size_t text = 0;
  while (text <= kMostText) {
    const size_t got = source.read(block.data(), block.size());
    if (got == 0) return false;
    text += got;
  }
  return true;
}

}  // namespace

std::string memory_file(const uint8_t* data, size_t size) {
  static const int fd = memfd_create("input", MFD_CLOEXEC);
  bool written =
      fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == static_cast<ssize_t>(size);
  if (!written) std::abort();
  return "/proc/self/fd/" + std::to_string(fd);
}

void read_all_pairs(const std::string& path,
                    const std::function<std::unique_ptr<PairReader>()>& open) {
  try {
    if (unpacks_to_much(path)) return;
    auto reader = open();
    for (RawPair pair; reader->next(pair);) {
    }
    if (reader->inputs().empty()) std::abort();  // every reader must describe its inputs
  } catch (const Error&) {
  }
}

}  // namespace reigen
