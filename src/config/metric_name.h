// Names of metrics that eval.command prints. They become names of files (best-NAME) and are read
// back from checkpoints and logs, which may come from elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace reigen {

inline constexpr size_t kMostMetrics = 16;  // of an evaluation

// A letter, and up to 31 letters, digits, dots, hyphens and underscores. `loss` and `bleu` name
// other scores.
inline bool is_metric_name(std::string_view text) {
  constexpr size_t kMostName = 32;
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  auto inside = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
  };
  return !text.empty() && text.size() <= kMostName && letter(text[0]) &&
         std::all_of(text.begin(), text.end(), inside) && text != "loss" && text != "bleu";
}

}  // namespace reigen
