#include "config/inspect_options.h"

namespace reigen {

void describe(Schema& s, InspectOptions& o) {
  s.option("path", o.path, "PATH", "dataset, run directory or checkpoint").required().positional();
  s.option("json", o.json, "print JSON instead of text");
  s.option("verify", o.verify, "compare every file with its checksum");
  s.example("reigen inspect data --verify");
  s.example("reigen inspect runs/first/best-bleu");
}

}  // namespace reigen
