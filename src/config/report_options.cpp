#include "config/report_options.h"

#include "base/error.h"

namespace reigen {
namespace {

void collect(const Json& value, std::vector<std::string>& into) {
  if (!value.is_array()) return into.push_back(scalar(value));
  for (const Json& item : value) collect(item, into);
}

}  // namespace

void describe(Schema& s, ReportOptions& o) {
  s.custom({.key = "runs",
            .value_name = "RUN [RUN]",
            .help = "directories of runs, live or finished; several are shown side by side",
            .required = true,
            .positional = true,
            .many = true,
            .assign =
                [&o](const Json& value) {
                  o.runs.clear();
                  collect(value, o.runs);
                },
            .current = [&o] { return Json(o.runs); }});
  s.option("output", o.output, "DIR",
           "where to write report.html and report.json; the run when empty, here for several runs");
  s.option("price-per-hour", o.price_per_hour,
           "what one host costs in an hour, for the cost of the run on all of them", 0, 1e6);
  s.option("doctor", o.doctor, "FILE",
           "what `reigen doctor --json` printed before the run, to show beside what happened; the "
           "run's doctor.json when empty");
  s.option("json", o.json, "print report.json instead of a summary");
  s.example("reigen report runs/first --price-per-hour 3.06");
  s.example("reigen report runs/first runs/second --output compared");
}

void describe(Schema& s, TopOptions& o) {
  s.option("run", o.run, "RUN", "directory of the run").required().positional();
  s.option("every", o.every, "seconds from one picture to the next", 0.1, 3600);
  s.option("once", o.once, "show one picture and end");
  s.example("reigen top runs/first");
}

void describe(Schema& s, DashboardOptions& o) {
  s.option("run", o.run, "RUN", "directory of the run, live or finished").required().positional();
  describe(s, o.page, "");
  s.example("reigen dashboard runs/first");
}

void describe(Schema& s, PageOptions& o, const std::string& prefix) {
  s.option(
      prefix + "address", o.address, "ADDRESS",
      "where the page listens; anything but this machine's own (127.0.0.1, ::1) needs a token");
  s.option(prefix + "port", o.port,
           "port of the page; 0 for 6810, or any that is free when that is taken", 0, 65535);
  s.option(prefix + "token", o.token, "TEXT",
           "who does not give it as ?token=TEXT is turned away; made up when an address needs one");
}

}  // namespace reigen
