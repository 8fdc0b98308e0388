// Says a demo value in English and in German, through ICU's own locale data.
//
// Locales and time zone are named explicitly, so the machine's settings cannot change a corpus.
// What comes back is clean text: no soft hyphens (ICU's German numbers are full of them), only
// plain spaces, NFC. Not thread-safe, because ICU's formatters are not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "corpus/demo_values.h"

namespace reigen {

class DemoSpeller {
 public:
  DemoSpeller();
  ~DemoSpeller();

  // Both append to out. The form is the German ending of an ordinal: 'n', 'r', 's', or 0 for plain
  // -e; other kinds ignore it.
  void english(const DemoSlot& slot, uint32_t value, std::string& out);
  void german(const DemoSlot& slot, uint32_t value, char form, std::string& out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reigen
