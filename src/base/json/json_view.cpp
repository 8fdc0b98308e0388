#include "base/json/json_view.h"

#include "base/format.h"

namespace reigen {
namespace {

constexpr size_t kMostShown = 40;

std::string shown(const Json& json) {
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list";
  const std::string text = one_line(json);
  return text.size() <= kMostShown ? text : text.substr(0, kMostShown) + "...";
}

}  // namespace

void JsonView::refuse(const std::string& wanted) const {
  throw FieldError(
      format("{}: must be {}, but is {}", path_.empty() ? "it" : path_, wanted, shown(*json_)));
}

JsonView JsonView::at(std::string_view key) const {
  const std::string path = path_.empty() ? std::string(key) : format("{}.{}", path_, key);
  const auto found = object().find(std::string(key));
  if (found == json_->end()) throw FieldError(format("{}: is missing", path));
  return JsonView(*found, path);
}

JsonView JsonView::at(size_t index) const {
  if (!json_->is_array()) refuse("a list");
  if (index >= json_->size()) throw FieldError(format("{}[{}]: is missing", path_, index));
  return JsonView((*json_)[index], format("{}[{}]", path_, index));
}

std::vector<JsonView> JsonView::elements() const {
  if (!json_->is_array()) refuse("a list");
  std::vector<JsonView> all;
  for (size_t i = 0; i < json_->size(); ++i) all.push_back(at(i));
  return all;
}

std::vector<JsonView> JsonView::members() const {
  std::vector<JsonView> all;
  for (const auto& [key, value] : object().items()) {
    all.emplace_back(value, path_.empty() ? key : path_ + "." + key);
  }
  return all;
}

const Json& JsonView::object() const {
  if (!json_->is_object()) refuse("an object");
  return *json_;
}

std::string JsonView::text() const {
  if (!json_->is_string()) refuse("text");
  return json_->get<std::string>();
}

bool JsonView::flag() const {
  if (!json_->is_boolean()) refuse("true or false");
  return json_->get<bool>();
}

double JsonView::number() const {
  if (!json_->is_number()) refuse("a number");
  return json_->get<double>();
}

int64_t JsonView::whole_number() const {
  if (!json_->is_number_integer()) refuse("a whole number");
  if (json_->is_number_unsigned() && !std::in_range<int64_t>(json_->get<uint64_t>())) {
    refuse("a smaller whole number");
  }
  return json_->get<int64_t>();
}

uint64_t JsonView::count() const {
  if (!json_->is_number_unsigned()) refuse("a whole number of at least 0");
  return json_->get<uint64_t>();
}

}  // namespace reigen
