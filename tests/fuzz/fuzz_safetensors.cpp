// safetensors: any bytes give tensors that lie inside the file, or a reigen::Error. Each input is
// tried as a file and, with the right size before it, as a header.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.h"
#include "tensor/safetensors.h"

namespace {

using namespace reigen;

void read_tensors(std::span<const std::byte> file) {
  try {
    const SafeTensorsHeader header = parse_safetensors(file, "input");
    for (const auto& [name, tensor] : header.tensors) {
      const bool inside = tensor.bytes.data() >= file.data() &&
                          tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size();
      if (!inside) std::abort();
      if (tensor.dtype == "F32" && tensor.f32().size() * 4 != tensor.bytes.size()) std::abort();
    }
  } catch (const Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read_tensors(std::as_bytes(std::span(data, size)));
  constexpr size_t kDataBytes = 64;
  std::string file(8 + size + kDataBytes, '\0');
  const uint64_t header_size = size;
  std::memcpy(file.data(), &header_size, 8);
  if (size > 0) std::memcpy(file.data() + 8, data, size);
  read_tensors(std::as_bytes(std::span(file)));
  return 0;
}
