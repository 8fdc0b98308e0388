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

// Reads every pair of a path, as `reigen prepare` would, and ignores an expected error. A file that
// unpacks to more than 256 KB, four times the buffer of a LineReader, is only unpacked that far: a
// few compressed bytes may stand for 80 MB of empty lines, which is no finding and takes a second.
void read_all_pairs(const std::string& path,
                    const std::function<std::unique_ptr<PairReader>()>& open);

}  // namespace reigen
