// One table per command: every option with its name, type, default, limits and help, declared once.
//
// The table is bound to a typed struct. It drives YAML files, the command line, --help, the
// generated docs/options.md, validation, "did you mean", and the attributes of an option: whether
// it may change on resume, differs between workers, is recorded or is a hyper-parameter. The
// struct's initial values are the defaults, so no default is stated twice. Past config/, code sees
// only the struct.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"

namespace reigen {

// Whether an option may change when a run is resumed. Every option of `train` decides it.
enum class OnResume { kUndecided, kFixed, kFree };

// Which worker's value of an option counts where several workers train together.
enum class Sharing {
  kJob,     // the same on all command lines; workers take rank 0's, which may come from the run
  kLaunch,  // the same on all command lines; needed before the workers are connected
  kRank0,   // may differ between command lines; rank 0's value counts
  kWorker,  // may differ between command lines; each worker uses its own
};

// YAML and the command line both deliver strings, lists of strings and maps of them; an option's
// own type decides the meaning of a string.
struct Option {
  std::string key;         // "vocab.size": the path in YAML, and --vocab.size
  std::string flag;        // "vocab-size": a shorter spelling, or empty
  std::string value_name;  // "N"; empty for a switch
  std::string help;
  std::string default_text;
  std::string limits;                     // "1 to 64", "bpe or unigram"
  std::vector<std::string> choices = {};  // all allowed values, where they are names
  bool required = false;
  bool positional = false;
  bool many = false;  // takes several values, and may be repeated
  bool set = false;
  OnResume on_resume = OnResume::kUndecided;
  Sharing sharing = Sharing::kJob;
  bool recorded = true;         // in config.yaml or the manifest
  bool in_files = true;         // may be given in YAML
  std::string not_in_files;     // nor may values that begin so, unless empty
  bool secret = false;          // not passed on in command lines, hidden from `ps`
  bool hyperparameter = false;  // shown by TensorBoard and the report to compare runs
  Json given = Json::array();   // the command line's values, one list per occurrence
  std::function<void(const Json&)> assign;
  std::function<Json()> current;  // null for a shorthand that sets other options
};

// Keys of the options that are given; nothing for options that no schema has parsed.
using GivenKeys = std::optional<std::set<std::string>>;

class Schema {
 public:
  Schema(std::string command, std::string summary);

  // Declarations. The calls further below refine the option that was declared last.
  Schema& option(std::string key, bool& target, std::string help);
  Schema& option(std::string key, int64_t& target, std::string help, int64_t least, int64_t most);
  Schema& option(std::string key, double& target, std::string help, double least, double most);
  Schema& option(std::string key, std::string& target, std::string value_name, std::string help);
  // One value or several; on the command line it may also be repeated.
  Schema& option(std::string key, std::vector<std::string>& target, std::string value_name,
                 std::string help);
  template <class E>
  Schema& choice(std::string key, E& target, std::string help,
                 std::vector<std::pair<std::string, E>> names);
  // For values with a structure of their own. `assign` gets the tree in YAML, or from the command
  // line a list with one list of strings per occurrence; a later call replaces an earlier one.
  Schema& custom(Option option);

  Schema& flag(std::string name);
  Schema& required();
  Schema& positional();
  Schema& free_on_resume();
  Schema& fixed_on_resume();  // a change would alter the course of training
  Schema& hyperparameter();   // fixed on resume, too, unless declared free
  Schema& by_recipe();        // not given, the recipe chooses it (config/recipe.h)
  Schema& unrecorded();
  // Refused in files, which may come from elsewhere, and not recorded: for what runs a program.
  Schema& command_line_only();
  Schema& command_line_only_if(std::string prefix);  // for values that begin so
  Schema& secret();
  Schema& per_worker();
  Schema& from_rank0();
  Schema& for_launch();
  Schema& example(std::string line);

  // Reads `--config FILE` first, then the other arguments, then checks that required options are
  // given. Returns false when the arguments ask for help, which the caller prints.
  bool parse(std::span<const std::string> args);
  enum class UnknownKeys { kRefuse, kIgnore };
  void parse_yaml(const std::string& text, const std::string& name,
                  UnknownKeys unknown = UnknownKeys::kRefuse);
  // The record of a run or checkpoint, which may come from elsewhere: options that are not recorded
  // keep their values, whatever it says of them. With kRefuse a different value there is a warning.
  void parse_recorded(const std::string& text, const std::string& name, UnknownKeys unknown);

  // The options that command line or files gave.
  std::set<std::string> given_keys() const;

  // The values of secret options on the command line, and `args` without these options.
  std::vector<std::string> secrets_given() const;
  std::vector<std::string> without_secrets(std::span<const std::string> args) const;

  std::string help() const;
  std::string markdown() const;

  // Values nested by section.
  Json current() const;               // of all options
  Json recorded() const;              // of those that are recorded
  Json same_for_all_workers() const;  // of kJob and kLaunch
  Json own_values() const;            // of kLaunch and kWorker, without empty texts

  // "model.width was 256 and is 512 now", for each option that is fixed on resume and differs from
  // `before`. Options that `before` does not have are not compared.
  std::vector<std::string> changes_since(const Json& before) const;
  std::vector<std::string> hyperparameter_keys() const;

  const std::vector<Option>& options() const { return options_; }
  const std::string& command() const { return command_; }
  const std::string& summary() const { return summary_; }
  const std::vector<std::string>& examples() const { return examples_; }

 private:
  Schema& choice_text(std::string key, std::vector<std::string> names, std::function<size_t()> get,
                      std::function<void(size_t)> set, std::string help);
  Option& last();
  Option* find(const std::string& name);
  Option& find_or_suggest(const std::string& argument, const std::string& name);
  size_t parse_argument(std::span<const std::string> args, size_t at);
  void assign(Option& option, const Json& value, const std::string& where);
  struct YamlFile {
    std::string name;
    UnknownKeys unknown = UnknownKeys::kRefuse;
    bool is_record = false;
  };
  void parse_yaml(const std::string& text, const YamlFile& file);
  void assign_tree(const Json& tree, const std::string& prefix, const YamlFile& file);
  void assign_from(const YamlFile& file, Option& option, const Json& value);
  Json values_where(const std::function<bool(const Option&)>& wanted) const;
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

// One value or a list in YAML; on the command line one list for each occurrence of the option.
std::vector<std::string> flat_list(const Json& value);

// The value at "model.width" in a nested tree, or null.
const Json* value_at(const Json& tree, const std::string& key);

// Parsers for one scalar; the ConfigError names the expected form or range.
bool parse_bool(const std::string& text);
int64_t parse_integer(const std::string& text, int64_t least, int64_t most);
double parse_number(const std::string& text, double least, double most);

}  // namespace reigen
