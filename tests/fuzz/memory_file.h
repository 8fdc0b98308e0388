// The fuzzer's bytes as a file in memory with a path: the readers open paths, and a disk would be
// too slow for thousands of inputs per second.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace reigen {

class PairReader;

// Returns a path to `data`, valid in this process until the next call.
std::string memory_file(const uint8_t* data, size_t size);

// Reads every pair as `reigen prepare` does and ignores a reigen::Error. Stops after a few MiB of
// text: a few compressed bytes may expand to gigabytes, which is not a bug.
void read_all_pairs(const std::function<std::unique_ptr<PairReader>()>& open);

}  // namespace reigen
