#include "dist/members/member_json.h"

#include <charconv>

#include "base/format.h"
#include "base/hash.h"
#include "dist/net/message.h"

namespace reigen {
namespace {

constexpr size_t kProcessBytes = 8;

// 64 bits as hex digits: JSON readers may keep only 53 bits of a number.
std::optional<uint64_t> hex_number(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value, 16);
  constexpr size_t kMostDigits = 16;
  if (text.empty() || text.size() > kMostDigits || read.ec != std::errc() || read.ptr != end)
    return std::nullopt;
  return value;
}

}  // namespace

Json json_of(const WorkerId& worker) {
  return {{"number", worker.number}, {"process", format("{:016x}", worker.process)}};
}

std::optional<WorkerId> worker_in(const Json& json) {
  if (!json.is_object()) return std::nullopt;
  const auto number = number_field(json, "number");
  const auto process = hex_number(text_field(json, "process").value_or(""));
  constexpr int64_t kMostNumbers = 1'000'000'000;
  if (!number || *number < 0 || *number > kMostNumbers || !process) return std::nullopt;
  return WorkerId{static_cast<int>(*number), *process};
}

std::optional<WorkerId> worker_field(const Json& message, const char* name) {
  const auto field = message.find(name);
  return field == message.end() ? std::nullopt : worker_in(*field);
}

WorkerId new_worker(int number) {
  return {number, hex_number(random_hex(kProcessBytes)).value_or(0)};
}

}  // namespace reigen
