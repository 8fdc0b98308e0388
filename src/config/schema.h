// One table per command: every option with its name, type, default, limits and help, declared once.
//
// The table is bound to a typed struct. It drives YAML files, command-line overrides, --help, the
// generated docs/options.md, validation and "did you mean". The struct's initial values are the
// defaults, so no default is stated twice. Past config/, code sees only the struct.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace reigen {

// YAML and the command line both deliver strings, lists of strings and maps of them; an option's
// own type decides what a string means.
struct Option {
  std::string key;         // "vocab.size": the path in YAML, and --vocab.size
  std::string flag;        // "vocab-size": a shorter spelling, or empty
  std::string value_name;  // "N"; empty for a switch
  std::string help;
  std::string default_text;
  std::string limits;  // "1 to 64", "bpe or unigram"
  bool required = false;
  bool positional = false;
  bool many = false;  // takes several values, and may be given again
  bool set = false;
  Json given = Json::array();  // the command line's values, one list per occurrence
  std::function<void(const Json&)> assign;
  std::function<Json()> current;  // null for a shorthand that sets other options
};

class Schema {
 public:
  Schema(std::string command, std::string summary);

  // Declared options may be refined by the calls below, which speak of the last one declared.
  Schema& option(std::string key, bool& target, std::string help);
  Schema& option(std::string key, int64_t& target, std::string help, int64_t least, int64_t most);
  Schema& option(std::string key, double& target, std::string help, double least, double most);
  Schema& option(std::string key, std::string& target, std::string value_name, std::string help);
  template <class E>
  Schema& choice(std::string key, E& target, std::string help,
                 std::vector<std::pair<std::string, E>> names);
  // For values with a structure of their own. `assign` gets whatever stands in YAML, or from the
  // command line a list with one list of strings per occurrence; the later call replaces.
  Schema& custom(Option option);

  Schema& flag(std::string name);
  Schema& required();
  Schema& positional();
  Schema& example(std::string line);

  // Reads `--config FILE` first, then the arguments over it, then checks what is required.
  // Returns false when the arguments ask for help, which the caller prints.
  bool parse(std::span<const std::string> args);
  void parse_yaml(const std::string& text, const std::string& name);

  std::string help() const;
  std::string markdown() const;
  Json current() const;  // every option's value, nested by section
  const std::string& command() const { return command_; }
  const std::string& summary() const { return summary_; }

 private:
  Schema& choice_text(std::string key, std::vector<std::string> names, std::function<size_t()> get,
                      std::function<void(size_t)> set, std::string help);
  Option& last();
  Option* find(const std::string& name);
  Option& find_or_suggest(const std::string& argument, const std::string& name);
  size_t parse_argument(std::span<const std::string> args, size_t at);
  void assign(Option& option, const Json& value, const std::string& where);
  void assign_tree(const Json& tree, const std::string& prefix, const std::string& file);
  std::vector<std::string> names() const;

  std::string command_;
  std::string summary_;
  std::vector<Option> options_;
  std::vector<std::string> examples_;
};

template <class E>
Schema& Schema::choice(std::string key, E& target, std::string help,
                       std::vector<std::pair<std::string, E>> names) {
  std::vector<std::string> texts;
  std::vector<E> values;
  for (auto& [text, value] : names) {
    texts.push_back(text);
    values.push_back(value);
  }
  auto get = [&target, values] {
    size_t at = 0;
    while (values[at] != target) ++at;
    return at;
  };
  auto set = [&target, values](size_t at) { target = values[at]; };
  return choice_text(std::move(key), std::move(texts), get, set, std::move(help));
}

// The string of a scalar value; throws ConfigError when it is a list or a map.
std::string scalar(const Json& value);

// Parsers for one scalar; a ConfigError says what was expected.
bool parse_bool(const std::string& text);
int64_t parse_integer(const std::string& text, int64_t least, int64_t most);
double parse_number(const std::string& text, double least, double most);

}  // namespace reigen
