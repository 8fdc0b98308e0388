// A worker ends at every moment of a step; the others settle the step and continue. Every rank is a
// thread of this process with a membership, a state and a stepper of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <optional>
#include <thread>

#include "dist/group/group_fixture.h"
#include "train/settlement.h"
#include "train/small_run.h"
#include "train/step/stepper.h"

namespace reigen {
namespace {

constexpr uint64_t kSteps = 4;
constexpr uint64_t kBrokenStep = 2;
constexpr int kWorkers = 3;
constexpr size_t kBuckets = 3;
// Of a step: the losses, the buckets, the agreement; then the losses of the next step.
constexpr uint64_t kOperations = 1 + kBuckets + 1 + 1;

// The end of a worker: of its group, as soon as that has carried out so many operations of a step.
struct Fault {
  int rank = -1;  // none
  uint64_t operations = 0;
};

// One rank's run.
struct Outcome {
  TrainState state;
  std::vector<double> losses;             // by step
  std::vector<std::vector<float>> after;  // parameters, by step
  std::optional<Settlement> settlement;   // of a survivor
  uint64_t committed = 0;                 // by the worker that ended
};

class ElasticStep : public testing::Test {
 protected:
  ElasticStep() { small.options.threads = 1; }

  static std::unique_ptr<Membership> member(int rank, int size, const Endpoint& at,
                                            Socket& listener) {
    MembershipOptions options;
    options.rank = rank;
    options.size = size;
    options.rendezvous = {at};
    if (rank == 0) options.listener = std::move(listener);
    options.token = "token";
    options.host = "host";
    options.start_within = std::chrono::milliseconds(30'000);
    options.elastic = true;
    return std::make_unique<Membership>(std::move(options));
  }

  std::unique_ptr<Prefetcher> input(const TrainState& state, const Job& job) const {
    BatchStream stream(small.data.train, static_cast<uint64_t>(small.options.seed),
                       {.target_tokens = 400});
    stream.seek(state.counters.cursor);
    return std::make_unique<Prefetcher>(small.data.train, std::move(stream),
                                        PrefetchOptions{.micro_tokens = 100,
                                                        .bos = small.data.vocabulary.bos(),
                                                        .rank = job.rank(),
                                                        .workers = job.size()});
  }

  // All ranks; survivors form a new group and continue to the last step.
  std::vector<Outcome> run(const std::string& compress, Fault fault);

  void check(const std::string& compress, Fault fault, const Outcome& reference);

  SmallRun small;
};

std::vector<Outcome> ElasticStep::run(const std::string& compress, Fault fault) {
  std::vector<Outcome> outcomes(kWorkers);
  Socket first = listen_on("127.0.0.1", 0);
  Socket second = listen_on("127.0.0.1", 0);
  const Endpoint first_at{"127.0.0.1", port_of(first)};
  const Endpoint second_at{"127.0.0.1", port_of(second)};
  std::vector<Position> positions(kWorkers - 1);
  std::barrier all_known(kWorkers - 1);
  const auto rank_main = [&](int rank) {
    Outcome& out = outcomes[static_cast<size_t>(rank)];
    const Device device = Device::cpu(1);
    Transformer model(small.options.model, small.options.dropout, small.data.vocabulary.size());
    TrainState& state = out.state;
    state = first_state(model, 3);
    state.choices.compress = compress;
    state.choices.compress_warmup = 1;
    state.choices.bucket = model.layout().elements() / kBuckets;
    Job job(member(rank, kWorkers, first_at, first));
    const std::unique_ptr<Stepper> stepper =
        make_stepper(device, DType::kF32, model, small.options, state, job);
    std::unique_ptr<Prefetcher> batches = input(state, job);
    const auto finished = [&] {
      out.losses.push_back(stepper->finish().loss);
      out.after.push_back(state.parameters);
    };
    const auto step = [&] {
      stepper->start(batches->next());
      finished();
    };
    std::optional<BreakAfter> end;
    try {
      while (state.counters.step < kSteps) {
        if (rank == fault.rank && state.counters.step + 1 == kBrokenStep) {
          end.emplace(job.membership()->group(), fault.operations);
        }
        step();
      }
      if (fault.rank < 0) job.leave();
    } catch (const WorkerLost&) {
    }
    if (fault.rank < 0) return;
    out.committed = state.counters.step;
    if (rank == fault.rank) return;
    const int now = rank < fault.rank ? rank : rank - 1;
    const StepPosition at = stepper->position();
    positions[static_cast<size_t>(now)] = {
        .committed = at.committed, .began = at.began, .reduced = at.reduced, .forming = "first"};
    all_known.arrive_and_wait();
    out.settlement = settle(positions);
    if (at.committed < out.settlement->step) {
      stepper->roll_forward();
      finished();
    } else {
      stepper->abandon();
    }
    EXPECT_EQ(state.counters.step, out.settlement->step);
    EXPECT_EQ(stepper->under_way(), 0u);
    job = Job(member(now, kWorkers - 1, second_at, second));
    stepper->rejoin(nullptr);
    batches = input(state, job);
    while (state.counters.step < kSteps) step();
    job.leave();
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kWorkers; ++rank) threads.emplace_back(rank_main, rank);
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void ElasticStep::check(const std::string& compress, Fault fault, const Outcome& reference) {
  SCOPED_TRACE(compress + ", rank " + std::to_string(fault.rank) + " ends after " +
               std::to_string(fault.operations) + " operations");
  const std::vector<Outcome> outcomes = run(compress, fault);
  const Outcome& one = outcomes[fault.rank == 0 ? 1 : 0];
  const Outcome& other = outcomes[fault.rank == 2 ? 1 : 2];
  ASSERT_TRUE(one.settlement);
  const uint64_t settled = one.settlement->step;
  EXPECT_GE(settled, outcomes[static_cast<size_t>(fault.rank)].committed);  // nothing is lost
  ASSERT_EQ(one.losses.size(), kSteps);
  EXPECT_EQ(one.losses, other.losses);
  EXPECT_EQ(one.after, other.after);
  EXPECT_EQ(one.state.first_moment, other.state.first_moment);
  EXPECT_EQ(one.state.second_moment, other.state.second_moment);
  EXPECT_EQ(one.state.counters.updates, reference.state.counters.updates);
  EXPECT_EQ(one.state.counters.target_tokens, reference.state.counters.target_tokens);
  for (uint64_t step = 0; step < settled; ++step) {
    EXPECT_EQ(one.losses[step], reference.losses[step]) << step;
    EXPECT_EQ(one.after[step], reference.after[step]) << step;
  }
  for (uint64_t step = settled; step < kSteps; ++step) {
    const double tolerance = compress == "none" ? 1e-5 : 0.05;
    EXPECT_NEAR(one.losses[step], reference.losses[step], tolerance * reference.losses[step])
        << step;
  }
}

TEST_F(ElasticStep, AWorkerEndsAfterAnyOperation) {
  const Outcome reference = run("none", {})[0];
  ASSERT_EQ(reference.losses.size(), kSteps);
  for (const int rank : {0, 1, 2}) {
    for (uint64_t operations = 0; operations <= kOperations; ++operations) {
      check("none", {rank, operations}, reference);
    }
  }
}

// The warm-up of PowerSGD and top-k ends before the step that breaks.
TEST_F(ElasticStep, CompressorsContinueFromTheStepThatIsSettled) {
  for (const std::string compress : {"int4", "powersgd:2", "topk:0.1"}) {
    const Outcome reference = run(compress, {})[0];
    for (const uint64_t operations : {uint64_t{0}, uint64_t{2}, kOperations - 2, kOperations - 1}) {
      check(compress, {2, operations}, reference);
    }
  }
}

// Without --elastic a step gives the same bits.
TEST_F(ElasticStep, TheOrderOfTheLossChangesNoBits) {
  const Outcome elastic = run("none", {})[0];
  Socket listener = listen_on("127.0.0.1", 0);
  const Endpoint at{"127.0.0.1", port_of(listener)};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kWorkers; ++rank) {
    threads.emplace_back([&, rank] {
      MembershipOptions options;
      options.rank = rank;
      options.size = kWorkers;
      options.rendezvous = {at};
      if (rank == 0) options.listener = std::move(listener);
      options.token = "token";
      options.host = "host";
      Job job(std::make_unique<Membership>(std::move(options)));
      const Device device = Device::cpu(1);
      Transformer model(small.options.model, small.options.dropout, small.data.vocabulary.size());
      TrainState state = first_state(model, 3);
      state.choices.bucket = model.layout().elements() / kBuckets;
      const auto stepper = make_stepper(device, DType::kF32, model, small.options, state, job);
      const auto batches = input(state, job);
      for (uint64_t step = 0; step < kSteps; ++step) {
        stepper->start(batches->next());
        EXPECT_EQ(stepper->finish().loss, elastic.losses[step]);
        EXPECT_EQ(state.parameters, elastic.after[step]);
      }
      job.leave();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace reigen
