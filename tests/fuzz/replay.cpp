// Runs a fuzz target without libFuzzer: every seed, then seeds with random changes.
//
// `make test` uses this, built with the address-sanitizer preset and its libraries, because a
// second build of all readers with clang would take a minute. The changes do not follow coverage;
// the libFuzzer build of `make test-all` does. The same random seed each time, so that a failure
// repeats; the last input stays in CRASH_FILE when the target ends the process.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;
constexpr size_t kLongest = 4096;

std::vector<Bytes> read_seeds(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<Bytes>& seeds) : seeds_(seeds) {}

  Bytes next() {
    Bytes bytes = seeds_[below(seeds_.size())];
    const size_t changes = 1 + below(4);
    for (size_t i = 0; i < changes; ++i) change(bytes);
    if (bytes.size() > kLongest) bytes.resize(kLongest);
    return bytes;
  }

 private:
  size_t below(size_t n) { return n == 0 ? 0 : random_() % n; }

  // A position, and a short range that begins there.
  void change(Bytes& bytes) {
    static constexpr uint8_t kEdges[] = {0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF, '\n', '<', '"', '&'};
    const size_t at = below(bytes.size() + 1);
    const size_t count = std::min(bytes.size() - at, 1 + below(16));
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const auto end = begin + static_cast<std::ptrdiff_t>(count);
    switch (below(6)) {
      case 0:  // flip a bit
        if (count > 0) bytes[at] ^= static_cast<uint8_t>(1U << below(8));
        break;
      case 1:  // overwrite with edge values
        for (auto it = begin; it != end; ++it) *it = kEdges[below(std::size(kEdges))];
        break;
      case 2:  // remove a range
        bytes.erase(begin, end);
        break;
      case 3: {  // repeat a range
        const Bytes range(begin, end);
        bytes.insert(begin, range.begin(), range.end());
        break;
      }
      case 4:  // cut off the end
        bytes.resize(at);
        break;
      default: {  // continue with the rest of a seed
        const Bytes& other = seeds_[below(seeds_.size())];
        const size_t from = below(other.size() + 1);
        bytes.resize(at);
        bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
        break;
      }
    }
  }

  const std::vector<Bytes>& seeds_;
  std::mt19937_64 random_{1};
};

// Holds the input that is being tried, for the case that it ends the process. One open file,
// because a file system may flush a file that is replaced: 5 ms per input.
class CrashFile {
 public:
  explicit CrashFile(const char* path) : fd_(open(path, O_RDWR | O_CREAT | O_TRUNC, 0666)) {}
  bool is_open() const { return fd_ >= 0; }
  void hold(const Bytes& bytes) const {
    const bool held = pwrite(fd_, bytes.data(), bytes.size(), 0) >= 0 &&
                      ftruncate(fd_, static_cast<off_t>(bytes.size())) == 0;
    if (!held) std::perror("the input cannot be written");
  }

 private:
  int fd_;
};

void try_input(const Bytes& bytes, const CrashFile& crash_file) {
  crash_file.hold(bytes);
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s SEEDS RUNS CRASH_FILE\n", argv[0]);
    return 2;
  }
  const std::vector<Bytes> seeds = read_seeds(argv[1]);
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: no seeds\n", argv[1]);
    return 2;
  }
  const CrashFile crash_file(argv[3]);
  if (!crash_file.is_open()) {
    std::perror(argv[3]);
    return 2;
  }
  for (const Bytes& seed : seeds) try_input(seed, crash_file);
  Mutator mutator(seeds);
  const int runs = std::stoi(argv[2]);
  for (int i = 0; i < runs; ++i) try_input(mutator.next(), crash_file);
  std::filesystem::remove(argv[3]);
  std::printf("%zu seeds and %d changed inputs\n", seeds.size(), runs);
  return 0;
}
