// TFRecord framing, the outer layer of TensorBoard's event files.
//
// A record is its length (u64), the masked CRC-32C of those eight bytes, the payload, the masked
// CRC-32C of the payload; all little-endian.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

namespace reigen {

std::string frame_record(std::string_view payload);

// Reads the records of a file and checks both checksums of each.
class TfRecordReader {
 public:
  explicit TfRecordReader(const std::string& path);  // throws DataError when it cannot be opened

  enum class Next {
    kRecord,
    kEnd,      // after a complete record
    kTorn,     // the file ends inside a record: its writer was killed, or is still writing
    kDamaged,  // wrong checksum; nothing after it can be trusted
  };
  Next next(std::string& payload);

  uint64_t end() const { return end_; }  // bytes up to the end of the last complete record

 private:
  std::ifstream in_;
  uint64_t size_ = 0;
  uint64_t end_ = 0;
};

}  // namespace reigen
