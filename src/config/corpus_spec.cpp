#include "config/corpus_spec.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "config/suggest.h"

namespace reigen {
namespace {

const std::vector<std::string> kAttributes = {"name", "weight", "format", "swap", "to"};
const std::vector<std::string> kFormats = {"text", "tsv", "tmx", "po", "mo"};

void set_attribute(CorpusSpec& spec, const std::string& key, const std::string& value) {
  if (key == "name") {
    spec.name = value;
  } else if (key == "weight") {
    try {
      spec.weight = parse_number(value, 0.001, 1000);
    } catch (const ConfigError& e) {
      throw ConfigError(format("weight {}: {}", value, e.what()));
    }
  } else if (key == "swap") {
    spec.swap = parse_bool(value);
  } else if (key == "to") {
    if (!is_language_code(value)) {
      throw ConfigError(
          format("to '{}' is not a language code; use one such as fr or pt-BR", value));
    }
    spec.to = value;
  } else {
    // Empty: by the file's name, as a recorded configuration may have it.
    if (!value.empty() && std::find(kFormats.begin(), kFormats.end(), value) == kFormats.end()) {
      throw ConfigError(
          format("unknown format '{}'; use one of {}", value, fmt::join(kFormats, ", ")));
    }
    spec.format = value;
  }
}

// A path, or `weight=2`. A file of such a name can be given as ./weight=2.
void add_word(CorpusSpec& spec, const std::string& word) {
  size_t equals = word.find('=');
  std::string key = word.substr(0, equals);
  bool attribute = equals != std::string::npos &&
                   std::find(kAttributes.begin(), kAttributes.end(), key) != kAttributes.end();
  if (attribute) {
    set_attribute(spec, key, word.substr(equals + 1));
  } else {
    spec.paths.push_back(word);
  }
}

void add_paths(CorpusSpec& spec, const Json& value) {
  for (const auto& item : value.is_array() ? value : Json::array({value})) {
    spec.paths.push_back(scalar(item));
  }
}

CorpusSpec parse_map(const Json& map) {
  CorpusSpec spec;
  for (const auto& [key, value] : map.items()) {
    if (key == "paths" || key == "path") {
      add_paths(spec, value);
    } else if (std::find(kAttributes.begin(), kAttributes.end(), key) != kAttributes.end()) {
      set_attribute(spec, key, scalar(value));
    } else {
      std::vector<std::string> known = kAttributes;
      known.insert(known.end(), {"paths", "path"});
      auto near = nearest(key, known);
      throw ConfigError(
          format("unknown key '{}'{}", key, near ? format(" (did you mean '{}'?)", *near) : ""));
    }
  }
  return spec;
}

CorpusSpec parse_one(const Json& value) {
  CorpusSpec spec;
  if (value.is_object()) {
    spec = parse_map(value);
  } else if (value.is_array()) {
    for (const auto& word : value) add_word(spec, scalar(word));
  } else {
    add_word(spec, scalar(value));
  }
  if (spec.paths.empty() || spec.paths.size() > 2) {
    throw ConfigError(
        format("a corpus is one file of pairs or two text files, not {} files", spec.paths.size()));
  }
  if (spec.name.empty()) {
    const std::string& path = spec.paths[0];
    std::string file = path.substr(path.rfind('/') + 1);
    spec.name = file.substr(0, file.find('.', 1));
  }
  return spec;
}

// A list of plain strings is one corpus (`valid: [V.en, V.de]`); otherwise a list of corpora.
std::vector<CorpusSpec> parse_list(const Json& value) {
  auto is_string = [](const Json& item) { return item.is_string(); };
  bool single =
      !value.is_array() || (!value.empty() && std::all_of(value.begin(), value.end(), is_string));
  std::vector<CorpusSpec> specs;
  for (const auto& item : single ? Json::array({value}) : value) specs.push_back(parse_one(item));
  return specs;
}

// Two corpora named train become train and train-2.
void make_names_unique(std::vector<CorpusSpec>& specs) {
  std::set<std::string> used;
  for (auto& spec : specs) {
    std::string base = spec.name;
    for (int n = 2; !used.insert(spec.name).second; ++n) spec.name = format("{}-{}", base, n);
  }
}

Json to_json(const CorpusSpec& spec) {
  Json json = {{"name", spec.name},
               {"paths", spec.paths},
               {"weight", spec.weight},
               {"format", spec.format},
               {"swap", spec.swap}};
  if (!spec.to.empty()) json["to"] = spec.to;
  return json;
}

}  // namespace

bool is_language_code(std::string_view text) {
  constexpr size_t kLongest = 32;
  return !text.empty() && text.size() <= kLongest &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_';
         });
}

Option corpus_list_option(std::string key, std::vector<CorpusSpec>& target, std::string help,
                          size_t most) {
  auto assign = [&target, most](const Json& value) {
    std::vector<CorpusSpec> specs = parse_list(value);
    if (specs.size() > most) {
      throw ConfigError(
          format("{} corpora given, at most {} allowed; join their files", specs.size(), most));
    }
    make_names_unique(specs);
    target = specs;
  };
  auto current = [&target] {
    Json list = Json::array();
    for (const auto& spec : target) list.push_back(to_json(spec));
    return list;
  };
  return {.key = std::move(key),
          .value_name = "FILE [FILE]",
          .help = std::move(help),
          .many = true,
          .assign = assign,
          .current = current};
}

}  // namespace reigen
