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

#include "base/file/files.h"
#include "tensor/tensor.h"

namespace reigen {

struct SafeTensor {
  std::string dtype;  // "F32", "BF16", "F16", "I64", ...
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;

  // Copies of the values, because bytes after a header of odd size are not aligned for floats.
  // Throw CheckpointError unless dtype is F32 and, for copy_f32, the sizes match.
  std::vector<float> f32() const;
  void copy_f32(std::span<float> into) const;
  // The same for F32, BF16 and F16.
  void copy_as_f32(std::span<float> into) const;
};

// The header of a file: tensors by name, and text that its writer added.
struct SafeTensorsHeader {
  std::map<std::string, SafeTensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Parses the bytes of a file in linear time; the tensors point into them. Throws CheckpointError,
// which begins with `name`, when they are truncated, malformed or have too many names.
SafeTensorsHeader parse_safetensors(std::span<const std::byte> file, const std::string& name);

class SafeTensorsFile {
 public:
  // Throws CheckpointError naming the file when it is missing, truncated or malformed.
  explicit SafeTensorsFile(const std::string& path);

  const SafeTensor& find(const std::string& name) const;  // throws CheckpointError naming both
  // Gives back the memory of a tensor's bytes until they are used again.
  void forget(std::span<const std::byte> bytes) const { file_.forget(bytes); }
  const SafeTensorsHeader& header() const { return header_; }
  const std::map<std::string, SafeTensor>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }

 private:
  std::string path_;
  MappedFile file_;
  SafeTensorsHeader header_;
};

struct SafeTensorSource {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;
  std::span<const int8_t> int8 = {};  // instead of `values`: a tensor of the type I8

  uint64_t bytes() const { return values.size_bytes() + int8.size_bytes(); }
};

// Writes through `file`, which hashes and checks; the caller closes it.
void write_safetensors(FileWriter& file, const std::vector<SafeTensorSource>& tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace reigen
