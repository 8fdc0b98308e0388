#include "config/common_options.h"

namespace reigen {

void describe_output(Schema& s, std::string& output, bool& overwrite, const std::string& what) {
  s.option("output", output, "DIR",
           what + " to write (-o for short); it appears only when it is complete")
      .required()
      .unrecorded();
  s.option("overwrite", overwrite, "replace an existing output once the new one is complete")
      .unrecorded();
}

Schema& describe_threads(Schema& s, int64_t& threads, const std::string& note) {
  return s.option("threads", threads, "number of CPU threads; 0 for all cores" + note, 0, 1024);
}

void describe_to(Schema& s, std::string& to) {
  s.option(
      "to", to, "LANG",
      "target language, for a model with several target languages: its tag begins each source");
}

Schema& describe_quiet(Schema& s, bool& quiet, const std::string& note) {
  return s.option("quiet", quiet, "print only warnings and errors" + note);
}

}  // namespace reigen
