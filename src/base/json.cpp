#include "base/json.h"

#include "base/error.h"
#include "base/files.h"
#include "base/format.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;

namespace reigen {

Json read_json(const std::string& path) {
  std::string text = read_file(path);
  try {
    return Json::parse(text);
  } catch (const Json::exception& e) {
    throw DataError(format("{}: not valid JSON ({})", path, e.what()));
  }
}

std::string pretty(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string one_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace reigen
