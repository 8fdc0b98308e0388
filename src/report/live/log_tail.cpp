#include "report/live/log_tail.h"

#include <algorithm>
#include <fstream>

namespace reigen {
namespace {

constexpr std::streamoff kMostTail = 1 << 16;

}  // namespace

std::vector<std::string> log_tail(const std::string& path, size_t lines) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return {};
  in.seekg(0, std::ios::end);
  const std::streamoff from = std::max<std::streamoff>(0, in.tellg() - kMostTail);
  in.seekg(from);
  std::vector<std::string> found;
  std::string line;
  if (from > 0) std::getline(in, line);  // the rest of a line that began earlier
  while (std::getline(in, line)) found.push_back(std::move(line));
  if (found.size() > lines) found.erase(found.begin(), found.end() - static_cast<long>(lines));
  return found;
}

}  // namespace reigen
