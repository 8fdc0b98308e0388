// The values of a table by the attributes of its options: recorded, shared between workers, fixed
// on resume, hyper-parameters.
#include "base/format.h"
#include "config/schema.h"

namespace reigen {

const Json* value_at(const Json& tree, const std::string& key) {
  const Json* at = &tree;
  for (size_t begin = 0; begin <= key.size();) {
    const size_t end = std::min(key.find('.', begin), key.size());
    const std::string part = key.substr(begin, end - begin);
    if (!at->is_object() || !at->contains(part)) return nullptr;
    at = &(*at)[part];
    begin = end + 1;
  }
  return at;
}

Json Schema::values_where(const std::function<bool(const Option&)>& wanted) const {
  Json tree = Json::object();
  for (const Option& option : options_) {
    if (!option.current || !wanted(option)) continue;  // a shorthand has no value
    Json* at = &tree;
    std::string key = option.key;
    for (size_t dot; (dot = key.find('.')) != std::string::npos; key = key.substr(dot + 1)) {
      at = &(*at)[key.substr(0, dot)];
    }
    (*at)[key] = option.current();
  }
  return tree;
}

Json Schema::current() const {
  return values_where([](const Option&) { return true; });
}

Json Schema::recorded() const {
  return values_where([](const Option& o) { return o.recorded; });
}

Json Schema::same_for_all_workers() const {
  return values_where(
      [](const Option& o) { return o.sharing == Sharing::kJob || o.sharing == Sharing::kLaunch; });
}

Json Schema::own_values() const {
  return values_where([](const Option& o) {
    const bool own = o.sharing == Sharing::kWorker || o.sharing == Sharing::kLaunch;
    return own && o.in_files && o.current() != Json("");
  });
}

std::vector<std::string> Schema::changes_since(const Json& before) const {
  std::vector<std::string> changes;
  for (const Option& option : options_) {
    if (!option.current || option.on_resume != OnResume::kFixed) continue;
    const Json* old = value_at(before, option.key);
    const Json now = option.current();
    if (old == nullptr || *old == now) continue;
    changes.push_back(format("{} was {} and is {} now", option.key, one_line(*old), one_line(now)));
  }
  return changes;
}

std::vector<std::string> Schema::hyperparameter_keys() const {
  std::vector<std::string> keys;
  for (const Option& option : options_) {
    if (option.current && option.hyperparameter) keys.push_back(option.key);
  }
  return keys;
}

}  // namespace reigen
