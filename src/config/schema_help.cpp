// The pages of a table of options: `--help` and docs/options.md.
#include <algorithm>

#include "base/format.h"
#include "base/terminal.h"
#include "config/schema.h"

namespace reigen {
namespace {

constexpr size_t kHelpColumn = 34;
constexpr size_t kLineWidth = 100;

std::string section_of(const Option& option) {
  size_t dot = option.key.find('.');
  return dot == std::string::npos ? "" : option.key.substr(0, dot);
}

std::string spelling(const Option& option) {
  if (option.positional) return option.value_name;
  const bool on_by_default = option.value_name.empty() && option.default_text == "true";
  std::string text = on_by_default ? "--[no-]" : "--";
  text += option.flag.empty() ? option.key : option.flag;
  if (!option.value_name.empty()) text += " " + option.value_name;
  return text;
}

std::string details(const Option& option) {
  std::vector<std::string> parts;
  if (option.required) parts.push_back("required");
  if (!option.limits.empty()) parts.push_back(option.limits);
  if (!option.required && !option.default_text.empty()) {
    parts.push_back("default " + option.default_text);
  }
  return parts.empty() ? "" : format(" ({})", fmt::join(parts, "; "));
}

std::string wrapped(const std::string& text, size_t indent) {
  std::string out;
  size_t column = indent;
  size_t at = 0;
  while (at < text.size()) {
    size_t end = std::min(text.find(' ', at), text.size());
    std::string word = text.substr(at, end - at);
    if (column > indent && column + 1 + word.size() > kLineWidth) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += display_width(word);
    at = end + 1;
  }
  return out;
}

std::string help_line(const Option& option) {
  std::string left = "  " + spelling(option);
  if (left.size() + 2 > kHelpColumn) {
    left += "\n" + std::string(kHelpColumn, ' ');
  } else {
    left.resize(kHelpColumn, ' ');
  }
  return left + wrapped(option.help + details(option), kHelpColumn) + "\n";
}

// Sections in the order they were declared, options without one first.
std::vector<std::string> sections_of(const std::vector<Option>& options) {
  std::vector<std::string> sections = {""};
  for (const auto& option : options) {
    std::string section = section_of(option);
    if (std::find(sections.begin(), sections.end(), section) == sections.end()) {
      sections.push_back(section);
    }
  }
  return sections;
}

std::string escaped(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) {
    text.insert(at, "\\");
  }
  return text;
}

}  // namespace

std::string Schema::help() const {
  std::string usage = format("Usage: reigen {} [options]", command_);
  for (const auto& option : options_) {
    if (option.positional) usage += " " + option.value_name;
  }
  std::string out = usage + "\n\n" + wrapped(summary_, 0) + "\n";
  for (const auto& section : sections_of(options_)) {
    out += section.empty() ? "\nOptions:\n" : format("\n{}:\n", section);
    for (const auto& option : options_) {
      if (section_of(option) == section) out += help_line(option);
    }
    if (section.empty()) {
      Option config{.key = "config", .value_name = "FILE.yaml"};
      config.help = "YAML file with options; the command line takes precedence over it";
      out += help_line(config);
    }
  }
  if (!examples_.empty()) out += "\nExamples:\n";
  for (const auto& line : examples_) out += "  " + line + "\n";
  return out;
}

std::string Schema::markdown() const {
  std::string out = format("## `reigen {}`\n\n{}\n\n", command_, summary_);
  for (const auto& line : examples_) out += format("    {}\n", line);
  if (!examples_.empty()) out += "\n";
  out +=
      "| YAML key | command line | default | allowed | meaning |\n| --- | --- | --- | --- | --- "
      "|\n";
  for (const auto& option : options_) {
    std::string shown = option.required ? "required" : option.default_text;
    out += format("| `{}` | `{}` | {} | {} | {} |\n", option.key, escaped(spelling(option)),
                  shown.empty() ? "" : format("`{}`", escaped(shown)), escaped(option.limits),
                  escaped(option.help));
  }
  return out;
}

}  // namespace reigen
