#include "base/json/json.h"

#include <vector>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace reigen {
namespace {

// Counts levels and members while nlohmann-json parses, so that hostile text is refused early.
class JsonLimits {
 public:
  explicit JsonLimits(const std::string& name) : name_(name) {}

  bool operator()(Json::parse_event_t event) {
    switch (event) {
      case Json::parse_event_t::object_start:
      case Json::parse_event_t::array_start:
        members_.push_back(0);
        if (members_.size() > kMostJsonLevels) {
          refuse(format("nested more than {} levels deep", kMostJsonLevels));
        }
        break;
      case Json::parse_event_t::object_end:
      case Json::parse_event_t::array_end:
        members_.pop_back();
        break;
      case Json::parse_event_t::key:
        if (++members_.back() > kMostJsonMembers) {
          refuse(format("has an object of more than {} members", kMostJsonMembers));
        }
        break;
      default:
        break;
    }
    return true;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw DataError(format("{}: {}, unlike any JSON file of reigen", name_, what));
  }

  const std::string& name_;
  std::vector<size_t> members_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& name) {
  try {
    JsonLimits limits(name);
    return Json::parse(text.begin(), text.end(),
                       [&](int, Json::parse_event_t event, Json&) { return limits(event); });
  } catch (const Json::exception& e) {
    throw DataError(format("{}: not valid JSON ({})", name, e.what()));
  }
}

namespace {

constexpr uint64_t kMostJsonBytes = 256 << 20;  // a dataset of a million shards

}  // namespace

Json read_json(const std::string& path) {
  return parse_json(read_file(path, kMostJsonBytes), path);
}

Json read_own_json(const std::string& path) {
  return parse_json(read_own_file(path, kMostJsonBytes), path);
}

std::string pretty(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace reigen
