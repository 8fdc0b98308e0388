// The fuzzer's bytes as a file in memory with a path: the readers open paths, and a disk
// would be too slow for thousands of inputs a second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace reigen {

class PairReader;

// Holds `data` until the next call. The path is valid in this process only.
std::string memory_file(const uint8_t* data, size_t size);

// Reads every pair, as `reigen prepare` would, and ignores an expected error. Stops after some
// MiB of text: a few compressed bytes may stand for gigabytes, which is no finding.
void read_all_pairs(const std::function<std::unique_ptr<PairReader>()>& open);

}  // namespace reigen
