// What a run measures, as typed records and as the JSON lines they are kept in.
//
// A record reads back as what was written, with two exceptions: stamps and durations are kept to
// the microsecond, and a number that is not finite is written as null and read back as NaN.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/json.h"

namespace reigen {

// Where the time went, in the order it did: name and seconds.
using Spans = std::vector<std::pair<std::string, double>>;

// An attempt at the run begins: the first, or one that resumes from a checkpoint.
struct StartRecord {
  uint64_t step = 0;  // the last step that counts; 0 for a new run
  double time = unix_now();
  uint64_t attempt = 1;
  std::string version;
  std::string host;
  uint64_t process = 0;
  uint64_t threads = 0;
  uint64_t workers = 1;
  std::string device;
  uint64_t lost_steps = 0;  // done by the attempt before, after its last checkpoint
  double lost_seconds = 0;
  // Floating-point operations of matrix products for a token in a step, and how many of them in a
  // second all workers together do in a large product; 0 where that is not known.
  double source_token_flops = 0;
  double target_token_flops = 0;
  double capacity = 0;
  double setup_seconds = 0;  // from the beginning of the attempt to this record
  double data_seconds = 0;   // of those, opening and verifying data, until all workers had
  bool operator==(const StartRecord&) const = default;
};

// Between workers, in a step: seconds in which the network had something to do, those of them that
// passed while the model computed, and the most that could have; and what this worker sent.
struct CommunicationTimes {
  // Of the wait for gradients, what also the rank that waited least in this step did: nobody was
  // late for that part of it.
  double least = 0;
  double busy = 0;
  double hidden = 0;
  double hideable = 0;
  uint64_t sent = 0;       // bytes of payload this worker sent
  uint64_t sent_away = 0;  // of those, to other machines
  bool operator==(const CommunicationTimes&) const = default;
};

struct StepRecord {
  uint64_t step = 0;
  double time = unix_now();
  double epoch = 0;  // 1.25: a quarter into the second
  double loss = 0;   // smoothed, per target token
  double nll = 0;    // per target token
  double rate = 0;
  double norm = 0;  // of the gradient, before clipping
  uint64_t source_tokens = 0;
  uint64_t target_tokens = 0;
  uint64_t pairs = 0;
  uint64_t micro_batches = 0;
  double loss_scale = 0;    // fp16; 0 where nothing is scaled
  bool skipped = false;     // the gradient was not finite, and the weights were left alone
  double seconds = 0;       // the whole step, by the clock on the wall
  double held_seconds = 0;  // that this process was not let run; see observe/deschedule_watch.h
  Spans spans;
  std::optional<CommunicationTimes> communication;  // absent for one worker
  bool operator==(const StepRecord&) const = default;
};

struct Sample {
  std::string source;
  std::string reference;
  std::string hypothesis;
  bool operator==(const Sample&) const = default;
};

struct EvaluationRecord {
  uint64_t step = 0;
  double time = unix_now();
  double seconds = 0;
  Spans spans;
  double nll = 0;
  double perplexity = 0;
  std::optional<double> bleu;  // absent where nothing was decoded
  std::optional<double> chrf;
  uint64_t sentences = 0;
  uint64_t tokens = 0;
  bool is_best_loss = false;
  bool is_best_bleu = false;
  std::vector<Sample> samples;
  bool operator==(const EvaluationRecord&) const = default;
};

struct CheckpointRecord {
  uint64_t step = 0;
  double time = unix_now();
  std::string path;
  uint64_t bytes = 0;
  double held_seconds = 0;  // how long training stood still
  double write_seconds = 0;
  std::string error;  // empty: it was written
  bool operator==(const CheckpointRecord&) const = default;
};

struct EndRecord {
  uint64_t step = 0;
  double time = unix_now();
  std::string reason;
  double seconds = 0;  // of this attempt
  bool operator==(const EndRecord&) const = default;
};

// What a worker other than the first one did in some steps, up to `step`: about a second's worth,
// so that a log does not grow with how short steps are.
struct SpansRecord {
  uint64_t step = 0;
  double time = unix_now();
  uint64_t steps = 0;  // so many, in sums
  double seconds = 0;
  double held_seconds = 0;
  Spans spans;
  CommunicationTimes communication;
  bool operator==(const SpansRecord&) const = default;
};

struct InterfaceSample {
  std::string name;
  double in = 0;  // bytes a second
  double out = 0;
  uint64_t speed = 0;  // bytes a second as the driver claims; 0 where it claims nothing
  bool used = false;   // data between workers goes this way
  bool operator==(const InterfaceSample&) const = default;
};

struct GpuSample {
  std::string name;
  double utilisation = 0;  // percent of the time that anything ran, waiting collectives included
  uint64_t memory_used = 0;
  uint64_t memory_total = 0;
  double watts = 0;
  double megahertz = 0;
  bool operator==(const GpuSample&) const = default;
};

// A machine as one of its workers saw it over about a second.
struct SampleRecord {
  uint64_t step = 0;  // the last that was finished
  double time = unix_now();
  double seconds = 0;  // that it is an average of
  std::string host;
  std::vector<double> cores;  // busy, 0 to 100 percent each
  uint64_t memory_used = 0;
  uint64_t memory_total = 0;
  double disk_read = 0;  // bytes a second
  double disk_written = 0;
  std::vector<InterfaceSample> interfaces;
  std::vector<GpuSample> gpus;
  bool operator==(const SampleRecord&) const = default;
};

// What a step should take, as measured just before the first one, to be held against what it took.
struct ForecastRecord {
  uint64_t step = 0;
  double time = unix_now();
  std::string method;  // how gradients travel
  double seconds = 0;  // a step
  double compute = 0;  // of them
  double compression = 0;
  double exposed = 0;    // waiting for the network
  double bytes = 0;      // a worker sends in a step
  double bandwidth = 0;  // of the link, bytes a second
  double latency = 0;    // seconds
  bool operator==(const ForecastRecord&) const = default;
};

using Record = std::variant<StartRecord, StepRecord, EvaluationRecord, CheckpointRecord, EndRecord,
                            SpansRecord, SampleRecord, ForecastRecord>;

uint64_t step_of(const Record& record);

// An object with "kind", "step" and "time" first.
Json to_json(const Record& record);

// Throws DataError that names the field which is missing or of the wrong type.
Record record_from_json(const Json& json);

}  // namespace reigen
