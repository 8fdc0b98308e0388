#include "train/doctor.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/host.h"
#include "observe/memory.h"
#include "train/agreements.h"
#include "train/gpu_transport.h"
#include "train/setup.h"

namespace reigen {
namespace {

constexpr double kSlowWorker = 1.3;     // times the median
constexpr double kMuchSkew = 5;         // seconds
constexpr double kFarBelowClaim = 0.5;  // of what the interface says it carries

// Reads from the disk, not from what the system remembers of it.
double disk_rate(const std::string& directory, const Manifest& manifest) {
  constexpr size_t kMost = 64 << 20;
  constexpr size_t kLeast = 1 << 20;
  constexpr size_t kPiece = 128 << 10;
  constexpr double kLongest = 2;  // seconds: a slow disk shows sooner
  constexpr double kTelling = 0.5;
  size_t total = 0;
  double seconds = 0;
  // Past what the system remembers of the file, where the file system lets us.
  constexpr size_t kAlignment = 4096;
  const std::unique_ptr<void, void (*)(void*)> buffer(std::aligned_alloc(kAlignment, kPiece),
                                                      &std::free);
  for (const auto& file : manifest.files()) {
    if (!file.file.ends_with(".shard") || total >= kMost || seconds > kLongest) continue;
    const std::string path = directory + "/" + file.file;
    int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (fd < 0) fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) continue;
    Stopwatch watch;
    ssize_t got = 0;
    const double before = seconds;
    while (total < kMost && seconds < kLongest && (got = read(fd, buffer.get(), kPiece)) > 0) {
      total += static_cast<size_t>(got);
      seconds = before + watch.seconds();
    }
    close(fd);
  }
  const bool enough = total >= kLeast || seconds >= kTelling;
  return !enough ? 0 : static_cast<double>(total) / std::max(seconds, 1e-6);
}

Json facts_json(const WorkerFacts& f) {
  return {{"rank", f.rank},
          {"host", f.host},
          {"cores", f.cores},
          {"threads", f.threads},
          {"memory_bytes", f.memory},
          {"disk_bytes_per_second", f.disk_rate},
          {"device", f.device},
          {"interface", f.interface},
          {"interface_note", f.interface_note},
          {"claimed_mbit", f.speed},
          {"clock_ahead_seconds", f.clock_ahead},
          {"compute_seconds", f.compute}};
}

WorkerFacts facts_from(const Json& json) {
  WorkerFacts f;
  f.rank = json.at("rank");
  f.host = json.at("host");
  f.cores = json.at("cores");
  f.threads = json.at("threads");
  f.memory = json.at("memory_bytes");
  f.disk_rate = json.at("disk_bytes_per_second");
  f.device = json.at("device");
  f.interface = json.at("interface");
  f.interface_note = json.at("interface_note");
  f.speed = json.at("claimed_mbit");
  return f;
}

// One worker of each machine, in the order of ranks.
std::vector<int> one_of_each_host(const Crew& crew, const std::vector<Member>& members) {
  std::vector<int> ranks;
  std::set<std::string> seen;
  for (const Member& member : members) {
    if (seen.insert(member.host + " " + member.address).second) ranks.push_back(member.rank);
  }
  if (ranks.size() < 2) {
    ranks.clear();
    for (int r = 0; r < crew.size(); ++r) ranks.push_back(r);
  }
  return ranks;
}

// Every pair of machines while there are few; a ring of them when all pairs would take too long.
std::vector<std::pair<int, int>> pairs_to_measure(const std::vector<int>& ranks) {
  constexpr size_t kFew = 6;
  std::vector<std::pair<int, int>> pairs;
  for (size_t i = 0; i < ranks.size(); ++i) {
    for (size_t j = i + 1; j < ranks.size(); ++j) {
      const bool neighbours = j == i + 1 || (i == 0 && j + 1 == ranks.size());
      if (ranks.size() <= kFew || neighbours) pairs.emplace_back(ranks[i], ranks[j]);
    }
  }
  return pairs;
}

// The median, of two the lower.
double usual_compute(const Examination& e) {
  std::vector<double> values;
  for (const WorkerFacts& w : e.workers) values.push_back(w.compute);
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

// Where one takes much longer than the others, not computing is to blame but who does it.
void name_straggler(Examination& e) {
  const double usual = usual_compute(e);
  const WorkerFacts& w = *std::max_element(
      e.workers.begin(), e.workers.end(),
      [](const WorkerFacts& a, const WorkerFacts& b) { return a.compute < b.compute; });
  if (e.verdict.bottleneck != "compute" || w.compute <= kSlowWorker * usual) return;
  e.verdict = {"straggler",
               format("straggler: {} computes its share in {}, the others in {}, and everybody "
                      "waits for it in a step of {}",
                      rank_and_host(w.rank, w.host), human_seconds(w.compute), human_seconds(usual),
                      human_seconds(e.forecasts[0].seconds))};
}

// `bytes_needed`: of the data in a second, by each worker.
void warn_of_hosts(Examination& e, double bytes_needed) {
  const double usual = usual_compute(e);
  for (const WorkerFacts& w : e.workers) {
    const std::string who = rank_and_host(w.rank, w.host);
    if (w.compute > kSlowWorker * usual) {
      e.warnings.push_back(format(
          "{} computes its share in {}, the others in {}: everybody waits for it; take it out, or "
          "give it fewer threads of other work",
          who, human_seconds(w.compute), human_seconds(usual)));
    }
    if (!w.interface_note.empty()) {
      e.warnings.push_back(format("{}: {}; is --interface the right one?", who, w.interface_note));
    }
    if (std::abs(w.clock_ahead) > kMuchSkew) {
      e.warnings.push_back(format(
          "the clock of {} is {} {} rank 0's: logs of the two do not fit together; set it", who,
          human_seconds(std::abs(w.clock_ahead)), w.clock_ahead > 0 ? "ahead of" : "behind"));
    }
    if (w.disk_rate > 0 && w.disk_rate < bytes_needed) {
      e.warnings.push_back(format(
          "the disk of {} reads {}/s but its share needs {}/s: copy the data to a faster one", who,
          human_bytes(static_cast<uint64_t>(w.disk_rate)),
          human_bytes(static_cast<uint64_t>(bytes_needed))));
    }
  }
  for (const PairLink& link : e.links) {
    for (int rank : {link.from, link.to}) {
      const WorkerFacts& w = e.workers[static_cast<size_t>(rank)];
      const double claimed = static_cast<double>(w.speed) * kMegabit;
      if (claimed > 0 && link.bandwidth < kFarBelowClaim * claimed) {
        e.warnings.push_back(format(
            "{} of {} says it carries {} Mbit/s, but {:.0f} Mbit/s were measured to rank {}: is "
            "the port capped, or is it the wrong interface (--interface)?",
            w.interface, rank_and_host(w.rank, w.host), with_commas(static_cast<uint64_t>(w.speed)),
            link.bandwidth / kMegabit, rank == link.from ? link.to : link.from));
        break;
      }
    }
  }
}

// A share takes a part that more cores do not shorten and one that they do; two measurements tell
// both.
void advise_of_cores(Examination& e, const ParameterLayout& layout) {
  constexpr double kHardlySlower = 1.1;
  if (e.half.threads == 0) return;
  const Measured& m = e.preflight.measured;
  const double now = e.forecasts[0].seconds;
  const double whole = m.compute.forward + m.compute.backward;
  const double gained = std::max(0.0, e.half.seconds - whole);
  auto step_of = [&](double share) {
    Measured other = m;
    const double scale = std::max(share, 0.01 * whole) / whole;
    other.compute.forward *= scale;
    other.compute.backward *= scale;
    other.compute.last_backward *= scale;
    return forecast(other, layout, e.setting).seconds;
  };
  const double fewer = step_of(e.half.seconds);
  if (fewer < kHardlySlower * now) {
    e.advice.push_back({format("half the cores (--threads {}), which cost less", e.half.threads),
                        fewer, now / fewer});
  }
  // From so many to twice as many saves half of what the step before saved.
  const double more = step_of(whole - gained / 2);
  if (now / more > 1.05) {
    e.advice.push_back(
        {format("machines with twice the cores (--threads {})", 2 * e.half.of), more, now / more});
  }
}

void advise(Examination& e, const ParameterLayout& layout) {
  const Measured& m = e.preflight.measured;
  const double now = e.forecasts[0].seconds;
  advise_of_cores(e, layout);
  auto add = [&](std::string change, double step, double tokens) {
    const double gain = tokens * now / step;
    if (gain > 1.05) e.advice.push_back({std::move(change), step, gain});
  };
  const StepForecast best = forecast(m, layout, choose(m, layout));
  if (m.workers > 1 && best.setting != e.setting) {
    add(format("--compress {}", text_of(best.setting)), best.seconds, 1);
  }
  Measured large = m;
  large.compute.forward *= 2;
  large.compute.backward *= 2;
  large.compute.last_backward *= 2;
  add("a batch of twice the tokens", forecast(large, layout, e.setting).seconds, 2);
  if (m.workers > 1) {
    // Alone a worker computes all shares, and nobody waits.
    const double alone = (m.compute.forward + m.compute.backward) * m.workers + m.compute.optimizer;
    add("one worker of these", alone, 1);
  }
  const int more = 2 * m.workers;
  if (m.workers > 1) {
    const Measured twice = simulate(m, more, 0, 0, false);
    add(format("{} such workers, with --compress auto", more),
        forecast(twice, layout, choose(twice, layout)).seconds, 1);
  }
  std::sort(e.advice.begin(), e.advice.end(),
            [](const Advice& a, const Advice& b) { return a.gain > b.gain; });
}

void extrapolate(Examination& e, const ParameterLayout& layout, const SimulateSetting& s) {
  if (s.workers == 0) return;
  if (e.preflight.measured.workers < 2 && s.bandwidth == 0) {
    throw ConfigError(
        "one worker measures no link: give its rate as well, as --simulate workers=4,link=1gbit");
  }
  std::vector<int> counts;
  for (int64_t n = 1; n < s.workers; n *= 2) counts.push_back(static_cast<int>(n));
  counts.push_back(static_cast<int>(s.workers));
  for (int n : counts) {
    const Measured other = simulate(e.preflight.measured, n, s.bandwidth, s.latency, s.same_share);
    const bool automatic = e.setting.method == CompressMethod::kAuto;
    e.simulated_workers.push_back(n);
    e.simulated.push_back(forecast(other, layout, automatic ? choose(other, layout) : e.setting));
    const auto all = static_cast<uint64_t>(n);
    e.simulated_idle.push_back(!s.same_share && all > e.sentences ? all - e.sentences : 0);
  }
  if (e.simulated_idle.back() > 0) {
    e.warnings.push_back(
        format("simulated: a batch has {} sentences, so {} of {} workers would have nothing to do; "
               "take a larger batch, or one that grows with them (batch=grows)",
               with_commas(e.sentences), with_commas(e.simulated_idle.back()),
               with_commas(static_cast<uint64_t>(s.workers))));
  }
}

FewerCores measure_half(Crew& crew, const OpenedDevice& opened, Transformer& model,
                        const TrainOptions& options, std::span<const float> parameters,
                        const ReadyBatch& ready, double budget) {
  const int threads = opened.device.threads();
  double counts[] = {opened.device.kind() == DeviceKind::kCpu && threads > 1 ? 1.0 : 0.0};
  crew.sum(counts);
  if (counts[0] < crew.size()) return {};
  OpenedDevice half = opened;
  half.device = Device::cpu(threads / 2);
  const ComputeTimes times = measure_compute(half, model, options, parameters, ready, budget);
  Device::cpu(threads);  // threads are the process's, and its own again
  std::vector<double> seconds(static_cast<size_t>(crew.size()));
  seconds[static_cast<size_t>(crew.rank())] = times.forward + times.backward;
  crew.sum(seconds);
  return {threads / 2, threads, *std::max_element(seconds.begin(), seconds.end())};
}

// Of the steps until whatever ends the run first; 0 where nothing is known to.
double run_seconds(const Examination& e, const TrainOptions& options, double steps_in_epoch) {
  double steps = INFINITY;
  if (options.max_steps > 0) steps = static_cast<double>(options.max_steps);
  if (options.max_epochs > 0) steps = std::min(steps, options.max_epochs * steps_in_epoch);
  const double first = std::min(steps, static_cast<double>(e.warmup));
  double seconds = first * e.warmup_step.seconds + (steps - first) * e.forecasts[0].seconds;
  if (options.max_time > 0) seconds = std::min(seconds, options.max_time);
  return std::isfinite(seconds) ? seconds : 0;
}

ReadyBatch first_batch(const TrainOptions& options, const TrainingData& data,
                       const MemoryPlan& memory, const Crew& crew) {
  BatchSize size = {.target_tokens = static_cast<uint64_t>(options.batch.target_tokens)};
  if (options.batch.pairs > 0) size = {.pairs = static_cast<uint64_t>(options.batch.pairs)};
  Prefetcher input(data.train, BatchStream(data.train, static_cast<uint64_t>(options.seed), size),
                   {.micro_tokens = memory.micro_tokens,
                    .bos = data.vocabulary.bos(),
                    .depth = 1,
                    .rank = crew.rank(),
                    .workers = crew.size()});
  return input.next();
}

}  // namespace

Examination examine(const DoctorOptions& given, Crew& crew) {
  TrainOptions options = given.train;
  if (crew.first()) {
    if (options.data.empty()) throw ConfigError("--data is required (written by reigen prepare)");
    options = resolve(options);
  }
  options = shared_options(crew, options);
  OpenedDevice opened = open_device(options.device, static_cast<int>(options.threads));
  TrainingData data = open_data(options);
  check_same_data(crew, data.fingerprint, options.data);
  Transformer model(options.model, options.dropout, data.vocabulary.size());
  const TrainState state = first_state(model, static_cast<uint64_t>(options.seed));
  const MemoryPlan memory =
      plan_memory(options, model, data, 0, opened,
                  {.workers = crew.size(), .on_gpu = workers_on_gpu(crew, opened.device)});
  const ReadyBatch ready = first_batch(options, data, memory, crew);

  Examination e;
  WorkerFacts mine;
  mine.rank = crew.rank();
  mine.host = host_name();
  mine.cores = usable_cores();
  mine.threads = opened.device.threads();
  mine.memory = available_memory();
  mine.disk_rate = disk_rate(options.data, data.manifest);
  mine.device = describe(opened);
  if (!crew.alone()) {
    mine.interface = crew.team()->interface().name;
    mine.interface_note = crew.team()->interface_note();
    mine.speed = crew.team()->interface().speed;
  }
  for (const std::string& text : crew.gather(one_line(facts_json(mine)))) {
    e.workers.push_back(facts_from(Json::parse(text)));
  }
  const double budget = given.seconds;
  GpuTransport transport;
  if (crew.alone()) {
    Measured& m = e.preflight.measured;
    m.compute = measure_compute(opened, model, options, state.parameters, ready, budget / 2);
    m.compress = measure_compress_cost(host_device(opened.device, options.threads));
    e.preflight.compute_by_rank = {m.compute.all()};
  } else {
    Group& group = crew.team()->group();
    const auto pairs = pairs_to_measure(one_of_each_host(crew, crew.team()->control().members()));
    for (const auto& [a, b] : pairs) {
      for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        PairLink link;
        const double each = budget / 4 / static_cast<double>(2 * pairs.size());
        crew.check(measure_pair(group, from, to, std::min(1.0, each), link));
        e.links.push_back(link);
      }
    }
    std::vector<double> ahead;
    crew.check(measure_clocks(group, ahead));
    transport = choose_transport(crew, opened.device, options, {.method = CompressMethod::kAuto});
    e.preflight = measure_crew(crew, transport.direct.get(), opened, model, options,
                               state.parameters, ready, budget * 3 / 4);
    for (WorkerFacts& w : e.workers) w.clock_ahead = ahead[static_cast<size_t>(w.rank)];
  }
  e.half = measure_half(crew, opened, model, options, state.parameters, ready, budget / 4);
  if (!crew.first()) return e;
  for (WorkerFacts& w : e.workers) {
    w.compute = e.preflight.compute_by_rank[static_cast<size_t>(w.rank)];
  }
  const ParameterLayout& layout = model.layout();
  const Measured& m = e.preflight.measured;
  e.parameters = layout.parameters();
  e.tokens = static_cast<double>(ready.batch.target_tokens);
  e.setting = options.workers.compress;
  e.sentences = ready.batch.pairs.size();
  extrapolate(e, layout, given.simulate);
  if (e.setting.method == CompressMethod::kAuto) e.setting = choose(m, layout);
  keep_to(transport, e.setting);
  e.transport = transport.text;
  e.forecasts.push_back(forecast(m, layout, e.setting));
  if (m.workers > 1) {
    for (const CompressSetting& s : candidates()) {
      if (s != e.setting) e.forecasts.push_back(forecast(m, layout, s));
    }
  }
  if (m.workers > 1 && has_warmup(e.setting)) {
    e.warmup = warmup_steps(options);
    e.warmup_step = forecast_warmup(m, layout);
  }
  const auto pairs = static_cast<double>(e.sentences);
  if (given.open_end) options.max_time = 0;
  e.hours =
      run_seconds(e, options, static_cast<double>(data.manifest.train_pairs()) / pairs) / 3600;
  std::set<std::string> hosts;
  for (const WorkerFacts& w : e.workers) hosts.insert(w.host);
  e.cost = e.hours * given.price_per_hour * static_cast<double>(hosts.size());
  const StepForecast& f = e.forecasts[0];
  e.verdict = verdict(f, m.link_for(f.setting));
  name_straggler(e);
  const double each_pair =
      static_cast<double>(data.bytes) / static_cast<double>(data.manifest.train_pairs());
  warn_of_hosts(e, each_pair * pairs / m.workers / f.seconds);  // each reads its share
  advise(e, layout);
  return e;
}

}  // namespace reigen
