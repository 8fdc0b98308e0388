#include "config/schema.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/file/files.h"
#include "base/format.h"
#include "base/terminal.h"
#include "config/suggest.h"
#include "config/yaml.h"

namespace reigen {
namespace {

// A missing configuration file is a wrong option, not bad data: the exit codes differ.
std::string read_config(const std::string& path) {
  try {
    return read_file_or_pipe(path);
  } catch (const DataError& e) {
    throw ConfigError(format("--config {}", e.what()));
  }
}

// "a", "a or b", "a, b or c".
std::string alternatives(const std::vector<std::string>& names) {
  const std::span<const std::string> all(names);
  if (all.size() < 2) return names.empty() ? "" : names[0];
  return format("{} or {}", fmt::join(all.first(all.size() - 1), ", "), all.back());
}

}  // namespace

std::string scalar(const Json& value) {
  if (!value.is_string()) throw ConfigError("expected a single value");
  return value.get<std::string>();
}

std::vector<std::string> flat_list(const Json& value) {
  if (!value.is_array()) return {scalar(value)};
  std::vector<std::string> all;
  for (const Json& item : value) {
    for (std::string& text : flat_list(item)) all.push_back(std::move(text));
  }
  return all;
}

bool parse_bool(const std::string& text) {
  if (text == "true" || text == "yes" || text == "on" || text == "1") return true;
  if (text == "false" || text == "no" || text == "off" || text == "0") return false;
  throw ConfigError("expected true or false");
}

int64_t parse_integer(const std::string& text, int64_t least, int64_t most) {
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char c) { return c != '_'; });  // 1_000_000
  int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) {
    throw ConfigError(format("expected a whole number from {} to {}", least, most));
  }
  if (value < least || value > most) {
    throw ConfigError(format("must be from {} to {}", least, most));
  }
  return value;
}

double parse_number(const std::string& text, double least, double most) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(value)) {
    throw ConfigError(format("expected a number from {} to {}", least, most));
  }
  if (value < least || value > most) {
    throw ConfigError(format("must be from {} to {}", least, most));
  }
  return value;
}

Schema::Schema(std::string command, std::string summary)
    : command_(std::move(command)), summary_(std::move(summary)) {}

Option& Schema::last() { return options_.back(); }

Schema& Schema::custom(Option option) {
  options_.push_back(std::move(option));
  return *this;
}

Schema& Schema::option(std::string key, bool& target, std::string help) {
  return custom({.key = std::move(key),
                 .help = std::move(help),
                 .default_text = target ? "true" : "false",
                 .assign = [&target](const Json& v) { target = parse_bool(scalar(v)); },
                 .current = [&target] { return Json(target); }});
}

Schema& Schema::option(std::string key, int64_t& target, std::string help, int64_t least,
                       int64_t most) {
  auto set = [&target, least, most](const Json& v) {
    target = parse_integer(scalar(v), least, most);
  };
  return custom({.key = std::move(key),
                 .value_name = "N",
                 .help = std::move(help),
                 .default_text = std::to_string(target),
                 .limits = format("{} to {}", least, most),
                 .assign = set,
                 .current = [&target] { return Json(target); }});
}

Schema& Schema::option(std::string key, double& target, std::string help, double least,
                       double most) {
  auto set = [&target, least, most](const Json& v) {
    target = parse_number(scalar(v), least, most);
  };
  return custom({.key = std::move(key),
                 .value_name = "X",
                 .help = std::move(help),
                 .default_text = format("{}", target),
                 .limits = format("{} to {}", least, most),
                 .assign = set,
                 .current = [&target] { return Json(target); }});
}

Schema& Schema::option(std::string key, std::string& target, std::string value_name,
                       std::string help) {
  return custom({.key = std::move(key),
                 .value_name = std::move(value_name),
                 .help = std::move(help),
                 .default_text = target,
                 .assign = [&target](const Json& v) { target = scalar(v); },
                 .current = [&target] { return Json(target); }});
}

Schema& Schema::option(std::string key, std::vector<std::string>& target, std::string value_name,
                       std::string help) {
  return custom({.key = std::move(key),
                 .value_name = std::move(value_name),
                 .help = std::move(help),
                 .many = true,
                 .assign = [&target](const Json& v) { target = flat_list(v); },
                 .current = [&target] { return Json(target); }});
}

Schema& Schema::choice_text(std::string key, std::vector<std::string> names,
                            std::function<size_t()> get, std::function<void(size_t)> set,
                            std::string help) {
  auto assign = [names, set](const Json& v) {
    auto found = std::find(names.begin(), names.end(), scalar(v));
    if (found == names.end()) {
      throw ConfigError("expected " + alternatives(names));
    }
    set(static_cast<size_t>(found - names.begin()));
  };
  return custom({.key = std::move(key),
                 .value_name = "NAME",
                 .help = std::move(help),
                 .default_text = names[get()],
                 .limits = alternatives(names),
                 .choices = names,
                 .assign = assign,
                 .current = [names, get] { return Json(names[get()]); }});
}

Schema& Schema::flag(std::string name) {
  last().flag = std::move(name);
  return *this;
}

Schema& Schema::required() {
  last().required = true;
  return *this;
}

Schema& Schema::positional() {
  last().positional = true;
  return *this;
}

Schema& Schema::free_on_resume() {
  last().on_resume = OnResume::kFree;
  return *this;
}

Schema& Schema::fixed_on_resume() {
  last().on_resume = OnResume::kFixed;
  return *this;
}

Schema& Schema::hyperparameter() {
  last().hyperparameter = true;
  if (last().on_resume == OnResume::kUndecided) last().on_resume = OnResume::kFixed;
  return *this;
}

Schema& Schema::by_recipe() {
  last().default_text = format("by recipe; classic {}", last().default_text);
  return *this;
}

Schema& Schema::command_line_only() {
  last().in_files = false;
  return unrecorded();
}

Schema& Schema::command_line_only_if(std::string prefix) {
  last().not_in_files = std::move(prefix);
  return unrecorded();
}

Schema& Schema::unrecorded() {
  last().recorded = false;
  return *this;
}

Schema& Schema::secret() {
  last().secret = true;
  return *this;
}

Schema& Schema::per_worker() {
  last().sharing = Sharing::kWorker;
  return *this;
}

Schema& Schema::from_rank0() {
  last().sharing = Sharing::kRank0;
  return *this;
}

Schema& Schema::for_launch() {
  last().sharing = Sharing::kLaunch;
  return *this;
}

Schema& Schema::example(std::string line) {
  examples_.push_back(std::move(line));
  return *this;
}

Option* Schema::find(const std::string& name) {
  for (auto& option : options_) {
    if (option.key == name || (!option.flag.empty() && option.flag == name)) return &option;
  }
  return nullptr;
}

std::vector<std::string> Schema::names() const {
  std::vector<std::string> all;
  for (const auto& option : options_) {
    all.push_back(option.key);
    if (!option.flag.empty()) all.push_back(option.flag);
  }
  return all;
}

void Schema::assign(Option& option, const Json& value, const std::string& where) {
  try {
    option.assign(value);
    option.set = !value.is_array() || !value.empty();  // `train: []` is not given
  } catch (const ConfigError& e) {
    std::string given = value.is_string() ? value.get<std::string>() : one_line(value);
    throw ConfigError(format("{}: '{}' cannot be used: {}", where, given, e.what()));
  }
}

Option& Schema::find_or_suggest(const std::string& argument, const std::string& name) {
  if (Option* option = find(name)) return *option;
  std::vector<std::string> known = names();
  known.insert(known.end(), {"help", "config"});
  auto near = nearest(name, known);
  throw ConfigError(format("unknown option {}{}; `reigen {} --help` lists all options", argument,
                           near ? format(" (did you mean --{}?)", *near) : "", command_));
}

// Handles the option or positional at `at`; returns the index after it.
size_t Schema::parse_argument(std::span<const std::string> args, size_t at) {
  const std::string& argument = args[at];
  if (!argument.starts_with("--")) {
    for (auto& option : options_) {
      if (option.positional && (option.given.empty() || option.many)) {
        option.given.push_back(argument);
        assign(option, option.many ? option.given : Json(argument), option.value_name);
        return at + 1;
      }
    }
    throw ConfigError(
        format("unexpected argument '{}'; `reigen {} --help` shows the usage", argument, command_));
  }
  size_t equals = argument.find('=');
  std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::optional<std::string> attached;
  if (equals != std::string::npos) attached = argument.substr(equals + 1);

  if (name.starts_with("no-") && find(name) == nullptr) {
    Option* negated = find(name.substr(3));
    if (negated != nullptr && negated->value_name.empty() && !attached) {
      assign(*negated, "false", argument);
      return at + 1;
    }
  }
  Option& option = find_or_suggest(argument, name);
  const std::string where = "--" + name;
  if (option.value_name.empty()) {
    assign(option, attached.value_or("true"), where);
    return at + 1;
  }
  Json values = Json::array();
  if (attached) values.push_back(*attached);
  ++at;
  while (at < args.size() && !args[at].starts_with("--") && (option.many || values.empty())) {
    values.push_back(args[at++]);
  }
  if (values.empty()) {
    throw ConfigError(format("{} needs a value ({})", where, option.value_name));
  }
  option.given.push_back(values);
  assign(option, option.many ? option.given : values[0], where);
  return at;
}

std::set<std::string> Schema::given_keys() const {
  std::set<std::string> keys;
  for (const Option& option : options_) {
    if (option.set) keys.insert(option.key);
  }
  return keys;
}

std::vector<std::string> Schema::secrets_given() const {
  std::vector<std::string> secrets;
  for (const Option& option : options_) {
    if (!option.secret) continue;
    for (std::string& value : flat_list(option.given)) secrets.push_back(std::move(value));
  }
  return secrets;
}

// A secret option has one value: the next argument, or the text after '='.
std::vector<std::string> Schema::without_secrets(std::span<const std::string> args) const {
  std::vector<std::string> rest;
  for (size_t at = 0; at < args.size(); ++at) {
    const std::string name = args[at].substr(0, args[at].find('='));
    const bool secret = std::any_of(options_.begin(), options_.end(), [&](const Option& option) {
      return option.secret &&
             (name == "--" + option.key || (!option.flag.empty() && name == "--" + option.flag));
    });
    if (!secret) {
      rest.push_back(args[at]);
    } else if (name.size() == args[at].size()) {
      ++at;
    }
  }
  return rest;
}

void Schema::parse_yaml(const std::string& text, const std::string& name, UnknownKeys unknown) {
  parse_yaml(text, {.name = name, .unknown = unknown});
}

void Schema::parse_recorded(const std::string& text, const std::string& name, UnknownKeys unknown) {
  parse_yaml(text, {.name = name, .unknown = unknown, .is_record = true});
}

void Schema::parse_yaml(const std::string& text, const YamlFile& file) {
  Json tree = reigen::parse_yaml(text, file.name);
  if (tree.is_null()) return;
  if (!tree.is_object()) throw ConfigError(format("{}: expected `key: value` lines", file.name));
  assign_tree(tree, "", file);
}

namespace {

bool is_text(const Json& value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

// Whether only the command line may give this value. A file lists every option, so that the default
// is no value.
bool runs_program(const Option& option, const Json& value) {
  if (!option.in_files) return !value.is_null() && !is_text(value, "");
  if (option.not_in_files.empty() || !value.is_string()) return false;
  return value.get_ref<const std::string&>().starts_with(option.not_in_files);
}

bool is_present_value(const Option& option, const Json& value) {
  if (!option.current || value.is_null()) return true;
  const Json now = option.current();
  return is_text(value, now.is_string() ? now.get<std::string>() : one_line(now));
}

}  // namespace

void Schema::assign_from(const YamlFile& file, Option& option, const Json& value) {
  if (file.is_record && !option.recorded) {
    if (file.unknown == UnknownKeys::kRefuse && !is_present_value(option, value)) {
      log_warning(format("{}: {} is not taken from the record of a run; give it as --{}", file.name,
                         option.key, option.key));
    }
    return;
  }
  if (runs_program(option, value)) {
    if (file.unknown == UnknownKeys::kIgnore) return;
    throw ConfigError(
        format("{}: {} can only be given on the command line, because it runs a program; remove it "
               "here and give it as --{}",
               file.name, option.key, option.key));
  }
  if (option.in_files) assign(option, value, format("{}: {}", file.name, option.key));
}

void Schema::assign_tree(const Json& tree, const std::string& prefix, const YamlFile& file) {
  for (const auto& [key, value] : tree.items()) {
    std::string path = prefix + key;
    auto is_below = [&](const Option& o) { return o.key.starts_with(path + "."); };
    bool section = std::any_of(options_.begin(), options_.end(), is_below);
    // Sections first: `vocab` is a section and the short spelling of vocab.file.
    if (section && value.is_object()) {
      assign_tree(value, path + ".", file);
      continue;
    }
    if (Option* option = find(path)) {
      assign_from(file, *option, value);
      continue;
    }
    if (file.unknown == UnknownKeys::kIgnore) continue;
    auto near = nearest(path, names());
    throw ConfigError(format("{}: unknown key '{}'{}", file.name, path,
                             near ? format(" (did you mean '{}'?)", *near) : ""));
  }
}

bool Schema::parse(std::span<const std::string> args) {
  std::vector<std::string> rest;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--help" || args[i] == "-h") return false;
    if (args[i] == "--config" && i + 1 == args.size()) {
      throw ConfigError("--config needs a value (FILE.yaml)");
    }
    if (args[i] == "-o" && find("output") != nullptr) {
      rest.emplace_back("--output");
      continue;
    }
    bool separate = args[i] == "--config";
    if (separate || args[i].starts_with("--config=")) {
      std::string path = separate ? args[++i] : args[i].substr(9);
      parse_yaml(read_config(path), path);
    } else {
      rest.push_back(args[i]);
    }
  }
  for (size_t at = 0; at < rest.size();) at = parse_argument(rest, at);
  for (const auto& option : options_) {
    if (option.required && !option.set) {
      throw ConfigError(format("{} is required ({}); `reigen {} --help` shows the usage",
                               option.positional ? option.value_name : "--" + option.key,
                               option.help, command_));
    }
  }
  return true;
}

}  // namespace reigen
