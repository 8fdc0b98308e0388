// The pairs returned by a reader, in a form that tests can compare and gtest can print.
#pragma once

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/input/pair_reader.h"
#include "support/temp_dir.h"

namespace reigen {

struct Seen {
  std::string source;
  std::string target;
  bool malformed = false;
  bool operator==(const Seen&) const = default;
};
inline void PrintTo(const Seen& s, std::ostream* out) {
  *out << "{" << s.source.substr(0, 200) << " | " << s.target.substr(0, 200)
       << (s.malformed ? " | malformed}" : "}");
}

// Files in a temporary directory, read as English to German by default.
class ReaderTest : public ::testing::Test {
 protected:
  std::string file(const std::string& name, std::string_view text) {
    write_text(dir_.path(name), text);
    return dir_.path(name);
  }

  std::vector<Seen> open(const CorpusSpec& spec, const std::string& source = "en",
                         const std::string& target = "de") {
    std::vector<Seen> all;
    auto reader = open_pairs(spec, source, target);
    for (RawPair pair; reader->next(pair); pair = {}) {
      all.push_back({pair.source, pair.target, pair.malformed});
    }
    return all;
  }

  std::string error_of(const CorpusSpec& spec, const std::string& source = "en",
                       const std::string& target = "de") {
    try {
      open(spec, source, target);
    } catch (const DataError& e) {
      return e.what();
    } catch (const ConfigError& e) {
      return std::string("config: ") + e.what();
    }
    return "no error";
  }

  TempDir dir_;
};

}  // namespace reigen
