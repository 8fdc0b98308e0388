// Writes a slot's value in English and in German, with ICU's locale data.
//
// Locales and time zone are explicit, so the machine's settings cannot change a corpus. The text is
// clean: no soft hyphens (ICU's German numbers are full of them), only plain spaces, NFC. Not
// thread-safe, because ICU's formatters are not.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "corpus/values.h"

namespace reigen {

class ValueSpeller {
 public:
  ValueSpeller();
  ~ValueSpeller();

  // Both append to `out`. `form` is the German ending of an ordinal: 'n', 'r', 's', or 0 for -e;
  // other kinds ignore it.
  void english(const FrameSlot& slot, uint32_t value, std::string& out);
  void german(const FrameSlot& slot, uint32_t value, char form, std::string& out);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace reigen
