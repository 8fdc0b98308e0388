#include "tensor/safetensors.h"

#include <cstring>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

// The format's own limit; a larger header is damage, not data.
constexpr uint64_t kMostHeaderBytes = 100'000'000;

uint64_t element_size(const std::string& dtype) {
  if (dtype == "F64" || dtype == "I64" || dtype == "U64") return 8;
  if (dtype == "F32" || dtype == "I32" || dtype == "U32") return 4;
  if (dtype == "F16" || dtype == "BF16" || dtype == "I16" || dtype == "U16") return 2;
  return dtype == "I8" || dtype == "U8" || dtype == "BOOL" ? 1 : 0;
}

}  // namespace

std::span<const float> SafeTensor::f32() const {
  if (dtype != "F32")
    throw CheckpointError(format("a tensor has the type {}; F32 is required", dtype));
  return {reinterpret_cast<const float*>(bytes.data()), bytes.size() / 4};
}

SafeTensorsFile::SafeTensorsFile(const std::string& path) : path_(path), file_(path) {
  uint64_t header_size = 0;
  if (file_.size() >= 8) std::memcpy(&header_size, file_.data(), 8);
  if (file_.size() < 8 || header_size > kMostHeaderBytes || header_size > file_.size() - 8) {
    throw CheckpointError(format("{}: truncated, or not a safetensors file", path));
  }
  const auto* text = reinterpret_cast<const char*>(file_.data()) + 8;
  std::span<const std::byte> data(file_.data() + 8 + header_size, file_.size() - 8 - header_size);
  try {
    Json header = Json::parse(text, text + header_size);
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        metadata_ = entry.get<std::map<std::string, std::string>>();
      } else {
        add(name, entry, data);
      }
    }
  } catch (const Json::exception& e) {
    throw CheckpointError(format("{}: damaged header ({})", path, e.what()));
  }
}

void SafeTensorsFile::add(const std::string& name, const Json& entry,
                          std::span<const std::byte> data) {
  SafeTensor tensor{.dtype = entry.at("dtype"), .shape = entry.at("shape")};
  uint64_t begin = entry.at("data_offsets").at(0);
  uint64_t end = entry.at("data_offsets").at(1);
  uint64_t wanted = element_size(tensor.dtype);
  for (int64_t n : tensor.shape) {
    if (n < 0 || (n > 0 && wanted > data.size() / static_cast<uint64_t>(n) + 1))
      wanted = UINT64_MAX;
    if (wanted != UINT64_MAX) wanted *= static_cast<uint64_t>(n);
  }
  if (begin > end || end > data.size() || end - begin != wanted) {
    throw CheckpointError(format(
        "{}: tensor {} does not fit into the file; the file is truncated or damaged", path_, name));
  }
  tensor.bytes = data.subspan(begin, end - begin);
  tensors_.emplace(name, std::move(tensor));
}

const SafeTensor& SafeTensorsFile::find(const std::string& name) const {
  auto found = tensors_.find(name);
  if (found == tensors_.end()) throw CheckpointError(format("{}: has no tensor {}", path_, name));
  return found->second;
}

void write_safetensors(FileWriter& file, const std::vector<SafeTensorSource>& tensors,
                       const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t at = 0;
  for (const auto& tensor : tensors) {
    uint64_t end = at + tensor.values.size_bytes();
    header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the bytes start aligned
  uint64_t size = text.size();
  file.write(&size, sizeof size);
  file.write(text);
  for (const auto& tensor : tensors) file.write(tensor.values.data(), tensor.values.size_bytes());
}

}  // namespace reigen
