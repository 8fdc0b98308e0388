// `reigen doctor`: alone, as one of several workers, or as the process that starts them.
#include "base/build.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "cli/launching.h"
#include "doctor/doctor.h"
#include "doctor/offers.h"
#include "train/workers/join.h"

namespace reigen {
namespace {

void examine_as_worker(DoctorOptions options) {
  options.train.same_for_all = options.same_for_all;
  options.train.given = options.given;
  Job job = join_job(options.train, version_line());
  try {
    const Examination found = examine(options, job);
    job.leave();
    if (!job.first()) return;
    print(options.json ? pretty(to_json(found)) : to_text(found, options));
  } catch (const std::exception& e) {
    if (job.membership() != nullptr) job.membership()->control().report_error(e.what());
    throw;
  }
}

}  // namespace

void run_doctor(const DoctorOptions& options) {
  if (!options.offers.empty()) return print(compare_offers(options));
  if (starts_workers(options.train.workers)) {
    launch_workers({.name = "doctor", .arguments = options.arguments}, options.train.workers);
  } else {
    examine_as_worker(options);
  }
}

}  // namespace reigen
