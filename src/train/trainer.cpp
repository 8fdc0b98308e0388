#include "train/trainer.h"

#include <filesystem>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "base/interrupt.h"
#include "base/terminal.h"
#include "data/manifest.h"
#include "optim/schedule.h"
#include "report/live/live_server.h"
#include "train/attempt.h"
#include "train/workers/agreements.h"
#include "train/workers/send_data.h"

namespace reigen {
namespace {

std::string absolute(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

std::unique_ptr<LiveServer> serve_page(const TrainOptions& options) {
  return std::make_unique<LiveServer>(LiveServerOptions{.run = options.run,
                                                        .address = options.page.address,
                                                        .port = static_cast<int>(options.page.port),
                                                        .token = options.page.token,
                                                        .beside_work = true});
}

void warn_of_timeline(const TrainOptions& options) {
  if (options.timeline.empty() || options.max_steps == 0) return;
  if (parse_step_range(options.timeline).last <= static_cast<uint64_t>(options.max_steps)) return;
  log_warning(format("timeline {} goes beyond the last step: it will end with max-steps {}",
                     options.timeline, options.max_steps));
}

}  // namespace

void train(const TrainOptions& given, const std::string& version, Job& job) {
  TrainOptions options = given;
  if (job.first()) {
    if (options.data.empty()) {
      throw ConfigError("--data is required (directory written by reigen prepare)");
    }
    options = resolve(options);
    check_schedule(options.schedule);
    options.data = absolute(options.data);
  }
  if (job.first()) warn_of_timeline(options);
  options = shared_options(job, options);
  options.data = absolute(options.data);
  ignore_hangup();
  set_quiet(options.quiet || !job.first());
  if (options.workers.send_data) send_data(job, options.data);
  read_manifest(options.data);  // a wrong --data leaves no empty run behind
  std::optional<RunDirectory> run;
  if (job.first()) run.emplace(options.run);
  std::unique_ptr<LiveServer> page;
  if (run && options.dashboard) page = serve_page(options);
  Attempt attempt(options, run ? &*run : nullptr, job, version);
  if (page) log_note(format("the run is shown at {}", page->url()));
  attempt.run();
}

}  // namespace reigen
