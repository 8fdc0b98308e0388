// safetensors: named tensors in one file, the format of checkpoints. Nothing in it is executable.
//
// Layout: u64 header size, a JSON header (name -> dtype, shape, byte range), then the bytes. Read
// through a mapping; written in the order given.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "tensor/tensor.h"

namespace reigen {

struct SafeTensor {
  std::string dtype;  // "F32", "BF16", "F16", "I64", ...
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;

  std::span<const float> f32() const;  // throws CheckpointError unless dtype is F32
};

class SafeTensorsFile {
 public:
  // Throws CheckpointError naming the file when it is truncated or malformed.
  explicit SafeTensorsFile(const std::string& path);

  const SafeTensor& find(const std::string& name) const;  // throws CheckpointError naming both
  const std::map<std::string, SafeTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  void add(const std::string& name, const Json& entry, std::span<const std::byte> data);

  std::string path_;
  MappedFile file_;
  std::map<std::string, SafeTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

struct SafeTensorSource {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;
};

// Writes through `file`, which hashes and checks; the caller closes it.
void write_safetensors(FileWriter& file, const std::vector<SafeTensorSource>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace reigen
