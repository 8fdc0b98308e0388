#include "config/report_options.h"

namespace reigen {
void describe(Schema& s, ReportOptions& o) {
  s.option("runs", o.runs, "RUN [RUN]",
           "directories of running or finished runs; several are compared side by side")
      .required()
      .positional();
  s.option(
      "output", o.output, "DIR",
      "directory for report.html and report.json; when empty, the run directory, or the current "
      "directory for several runs");
  s.option("price-per-hour", o.price_per_hour,
           "price of one host per hour, for the cost of the run on all hosts", 0, 1e6);
  s.option(
      "doctor", o.doctor, "FILE",
      "output of `reigen doctor --json` from before the run, to compare predicted with measured "
      "figures; the run's doctor.json when empty");
  s.option("json", o.json, "print report.json instead of a summary");
  s.example("reigen report runs/first --price-per-hour 3.06");
  s.example("reigen report runs/first runs/second --output compared");
}

void describe(Schema& s, TopOptions& o) {
  s.option("run", o.run, "RUN", "run directory").required().positional();
  s.option("every", o.every, "seconds between updates of the screen", 0.1, 3600);
  s.option("once", o.once, "print the current state once and exit");
  s.example("reigen top runs/first");
}

void describe(Schema& s, DashboardOptions& o) {
  s.option("run", o.run, "RUN", "directory of a running or finished run").required().positional();
  describe(s, o.page, "");
  s.example("reigen dashboard runs/first");
}

void describe(Schema& s, PageOptions& o, const std::string& prefix) {
  s.option(prefix + "address", o.address, "ADDRESS",
           "network address of the live page; it is not encrypted, so leave it on loopback "
           "(127.0.0.1, ::1) and use an ssh tunnel on a shared network")
      .free_on_resume()
      .from_rank0()
      .unrecorded();
  s.option(prefix + "port", o.port,
           "port of the live page; 0 for 6810, or a free port when 6810 is in use", 0, 65535)
      .free_on_resume()
      .from_rank0()
      .unrecorded();
  s.option(prefix + "token", o.token, "TEXT",
           "access token of the live page, required as ?token=TEXT; random when not given. Other "
           "users may see a command line: prefer a file or $REIGEN_DASHBOARD_TOKEN")
      .free_on_resume()
      .from_rank0()
      .unrecorded()
      .secret();
  s.option(prefix + "token-file", o.token_file, "FILE",
           "file with the access token of the live page; only its owner may have access to it "
           "(chmod 600)")
      .free_on_resume()
      .from_rank0()
      .unrecorded()
      .secret();
}

}  // namespace reigen
