// Values depend on the step, so that a test notices a record in the wrong place.
#include "observe/record/sample_records.h"

#include "observe/record/log_reader.h"
#include "observe/record/record_parser.h"

namespace reigen {
namespace {

double time_of(uint64_t step) { return 1'700'000'000.25 + 0.5 * static_cast<double>(step); }

}  // namespace

StartRecord sample_start(uint64_t step, uint64_t attempt) {
  return {.step = step,
          .time = time_of(step),
          .attempt = attempt,
          .format = kLogFormat,
          .version = "reigen 0.1.0 (abc1234)",
          .host = "node-7",
          .process = 4242,
          .threads = 16,
          .workers = 4,
          .device = "NVIDIA H200",
          .lost_steps = 12,
          .lost_seconds = 3.25,
          .source_token_flops = 2.5e8,
          .target_token_flops = 3.5e8,
          .capacity = 6.5e14,
          .capacity_low = 6.25e14,
          .setup_seconds = 7.5,
          .data_seconds = 5.25,
          .eval_command = "score \"$HYPOTHESIS\" | awk '{print $1}'"};
}

StepRecord sample_step(uint64_t step) {
  const double x = static_cast<double>(step);
  return {.step = step,
          .time = time_of(step),
          .epoch = x / 8,
          .loss = 10 / (x + 0.1),
          .nll = 9 / (x + 0.3),
          .rate = 1e-4 * x,
          .norm = 1.0 / 3 + x,
          .source_tokens = 24'000 + step,
          .target_tokens = 25'000 + step,
          .pairs = 900 + step,
          .micro_batches = 4,
          .writing_seconds = 0.25,
          .seconds = 0.5,
          .descheduled_seconds = 0.75,
          .spans = {{"input", 0.001}, {"forward", 0.2}, {"backward", 0.25}, {"optimizer", 0.04}}};
}

EvaluationRecord sample_evaluation(uint64_t step) {
  return {.step = step,
          .time = time_of(step),
          .seconds = 7.5,
          .spans = {{"loss", 1.5}, {"decode", 5.5}, {"score", 0.5}},
          .nll = 1.75,
          .perplexity = 5.754602676005731,
          .probe_nll = 1.625,
          .rotated_nll = 4.5,
          .bleu = 27.25,
          .chrf = 55.5,
          .old_nll = 2.5,
          .old_bleu = 12.5,
          .metrics = {{"COMET", 0.75}, {"ter-neg", -60.5}},
          .directions = {{.name = "en-de", .nll = 1.5, .bleu = 30.5, .tokens = 40'000},
                         {.name = "en-fr", .nll = 2.25, .tokens = 24'000}},
          .sentences = 3000,
          .tokens = 64'000,
          .is_best_loss = true,
          .is_best_bleu = false,
          .samples = {{"Ein \"Wort\" | zwei.", "One *word* | two.", "A <b>word</b> & two."},
                      {"größer\tals\n1", "larger than 1", "greater than [1](x)"}}};
}

CheckpointRecord sample_checkpoint(uint64_t step) {
  return {.step = step,
          .time = time_of(step),
          .path = "checkpoints/step-" + std::to_string(step),
          .bytes = 987'654'321,
          .stall_seconds = 0.25,
          .write_seconds = 4.5};
}

EndRecord sample_end(uint64_t step) {
  return {.step = step,
          .time = time_of(step),
          .reason = "preemption",
          .notice = "AWS: stop",
          .seconds = 123.5};
}

SpansRecord sample_spans(uint64_t step) {
  return {.step = step,
          .time = time_of(step),
          .steps = 7,
          .seconds = 1.25,
          .descheduled_seconds = 0.5,
          .spans = {{"input", 0.25}, {"backward", 0.5}, {"communication", 0.5}},
          .communication = {.min_wait = 0.125,
                            .busy = 0.75,
                            .hidden = 0.25,
                            .hidden_at_best = 0.375,
                            .sent = 123'456,
                            .inter_node_bytes = 23'456}};
}

SampleRecord sample_machine(uint64_t step) {
  return {
      .step = step,
      .time = time_of(step),
      .seconds = 1.0,
      .host = "node-7",
      .cores = {97, 3, 0},
      .memory_used = 12'000'000'000,
      .memory_total = 64'000'000'000,
      .memory_pressure = 4,
      .clock = 2600,
      .throttled = 2,
      .disk_read = 1'000'000,
      .disk_written = 2'000'000,
      .interfaces = {{"eth0", 11'800'000, 11'700'000, 125'000'000, true}, {"lo", 10, 10, 0, false}},
      .gpus = {{.name = "NVIDIA H200",
                .utilisation = 100,
                .memory_used = 6'000'000'000,
                .memory_total = 150'000'000'000,
                .watts = 640,
                .megahertz = 1980,
                .slowed_by = "power-cap thermal",
                .other_processes = 1,
                .other_memory = 2'000'000'000}}};
}

ProcessRecord sample_process(uint64_t step) {
  return {.step = step,
          .time = time_of(step),
          .seconds = 1.0,
          .machine = "8b2c6d1a",
          .cores = "0-3,8",
          .core_count = 5,
          .core_limit = 2.5,
          .cpu = 1.5,
          .run_delay = 0.25,
          .cores_busy = 3.5,
          .stolen = 0.125,
          .major_faults = 3};
}

DecayRecord sample_decay(uint64_t step) {
  return {.step = step, .time = time_of(step), .steps = 300, .cause = "stalled"};
}

StartingPointRecord sample_starting_point() {
  return {.time = time_of(0),
          .path = "runs/first/checkpoints/step-00001000",
          .sha256 = "0123abcd",
          .checkpoint_step = 1000,
          .nll = 2.25,
          .bleu = 20.5,
          .chrf = 44.25,
          .old_nll = 1.75};
}

CopyRecord sample_copy(uint64_t step) {
  return {.step = step,
          .time = time_of(step),
          .target = "vm2:/data/copy",
          .bytes = 987'654'321,
          .seconds = 8.5,
          .error = "no route to host"};
}

SharesRecord sample_shares(uint64_t step) {
  return {.step = step,
          .time = time_of(step),
          .shares = {0.667, 0.333},
          .speeds = {12.5, 6.25},
          .workers = {0, 2}};
}

MembershipChangeRecord sample_membership(uint64_t step) {
  return {.step = step,
          .time = time_of(step),
          .epoch = 2,
          .id = "0a1b2c3d",
          .workers = 3,
          .lost = {{.worker = 1, .host = "vm1", .why = "its connection closed", .proven = true},
                   {.worker = 4, .host = "vm2", .why = "no heartbeat for 10 s"}},
          .joined = {{.worker = 5, .host = "vm3"}},
          .left = {{.worker = 6, .host = "vm4", .why = "SIGTERM"}},
          .seconds = 1.5,
          .paused = 0.25,
          .settled = "rolled_forward",
          .writer = 2,
          .earlier_run = "runs/first",
          .earlier_host = "vm1",
          .lost_residuals = true};
}

PredictionRecord sample_prediction(uint64_t step) {
  return {.step = step,
          .time = time_of(step),
          .method = "powersgd:8",
          .seconds = 1.75,
          .compute = 1.5,
          .compression = 0.125,
          .exposed = 0.125,
          .bytes = 1.5e6,
          .bandwidth = 11.8e6,
          .latency = 0.000125,
          .better = "powersgd:16",
          .better_seconds = 1.625,
          .links = {{0, 4, 11.8e6}, {4, 0, 117.5e6}}};
}

std::vector<Record> read_records(const std::string& path) {
  std::vector<Record> records;
  LogLineReader reader(path);
  RecordParser parser;
  std::string_view line;
  while (reader.next(line)) records.push_back(parser.parse(line, path, reader.number()));
  return records;
}

}  // namespace reigen
