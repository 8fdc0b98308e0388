#include "config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <sstream>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

// Deep enough for any configuration; shallow enough that hostile text cannot exhaust the stack.
constexpr int kMaxDepth = 32;
// An alias can repeat a subtree; a few of them nested would expand without end.
constexpr size_t kMaxNodes = 100'000;
// yaml-cpp parses flow collections recursively, before we see any of them.
constexpr int kMaxBrackets = 64;

struct Converter {
  const std::string& name;
  size_t nodes = 0;

  std::string at(const YAML::Node& node) const {
    return format("{}:{}:{}", name, node.Mark().line + 1, node.Mark().column + 1);
  }

  Json convert(const YAML::Node& node, int depth) {
    if (depth > kMaxDepth) throw ConfigError(format("{}: nested too deeply", at(node)));
    if (++nodes > kMaxNodes) throw ConfigError(format("{}: too many values", name));
    if (node.IsScalar()) return node.Scalar();
    if (node.IsSequence()) {
      Json list = Json::array();
      for (const auto& item : node) list.push_back(convert(item, depth + 1));
      return list;
    }
    if (!node.IsMap()) return nullptr;
    Json map = Json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) throw ConfigError(format("{}: a key must be text", at(node)));
      const std::string key = entry.first.Scalar();
      if (map.contains(key)) {
        throw ConfigError(format("{}: '{}' is given twice", at(entry.first), key));
      }
      map[key] = convert(entry.second, depth + 1);
    }
    return map;
  }
};

void refuse_deep_brackets(const std::string& text, const std::string& name) {
  int depth = 0;
  for (char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kMaxBrackets) throw ConfigError(format("{}: brackets nested too deeply", name));
  }
}

// Load reads the first document and silently ignores the rest, which after a stray `---` or `,` can
// be most of the file. LoadAll is no alternative: yaml-cpp 0.7 never returns from "{a: 1}\n, b".
void refuse_second_document(const std::string& text, const std::string& name) {
  struct Ignore : YAML::EventHandler {
    void OnDocumentStart(const YAML::Mark&) override {}
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
    void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
    void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  const std::string&) override {}
    void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                         YAML::EmitterStyle::value) override {}
    void OnSequenceEnd() override {}
    void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                    YAML::EmitterStyle::value) override {}
    void OnMapEnd() override {}
  } ignore;
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  if (parser.HandleNextDocument(ignore) && parser.HandleNextDocument(ignore)) {
    throw ConfigError(format(
        "{}: has text after the end of its document; remove a stray `---`, `...` or `,`", name));
  }
}

void emit(YAML::Emitter& out, const Json& value) {
  if (value.is_object()) {
    out << YAML::BeginMap;
    for (const auto& [key, item] : value.items()) {
      out << YAML::Key << key << YAML::Value;
      emit(out, item);
    }
    out << YAML::EndMap;
  } else if (value.is_array()) {
    out << YAML::Flow << YAML::BeginSeq;
    for (const auto& item : value) emit(out, item);
    out << YAML::EndSeq;
  } else if (value.is_string()) {
    const auto text = value.get<std::string>();
    // yaml-cpp 0.7 quotes a newline but writes a lone carriage return as it is, and loses it.
    if (text.find('\r') != std::string::npos) out << YAML::DoubleQuoted;
    out << text;
  } else if (value.is_null()) {
    out << YAML::Null;
  } else {
    out << value.dump();  // as JSON writes it: the shortest text that reads back as the same number
  }
}

}  // namespace

std::string to_yaml(const Json& tree) {
  YAML::Emitter out;
  emit(out, tree);
  return std::string(out.c_str()) + "\n";
}

Json parse_yaml(const std::string& text, const std::string& name) {
  refuse_deep_brackets(text, name);
  try {
    refuse_second_document(text, name);
    return Converter{name}.convert(YAML::Load(text), 0);
  } catch (const YAML::Exception& e) {
    throw ConfigError(format("{}:{}:{}: {}", name, e.mark.line + 1, e.mark.column + 1, e.msg));
  }
}

}  // namespace reigen
