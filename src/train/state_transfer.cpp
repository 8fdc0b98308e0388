#include "train/state_transfer.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include "base/clock.h"
#include "base/format.h"
#include "base/terminal.h"

namespace reigen {
namespace {

using Buffers = std::vector<std::span<float>>;

constexpr size_t kElementsAtOnce = size_t{4} << 20;

size_t bytes_of(const Buffers& buffers) {
  size_t bytes = 0;
  for (const std::span<float>& buffer : buffers) bytes += buffer.size_bytes();
  return bytes;
}

Buffers state_of(TrainState& state) {
  Buffers buffers = {state.parameters, state.first_moment, state.second_moment};
  if (!state.average.empty()) buffers.emplace_back(state.average);
  return buffers;
}

// Rank 0 sends, `to` receives. Not collective: the other ranks do nothing.
class StateTransfer {
 public:
  StateTransfer(Job& job, int to) : job_(job), to_(to) {}

  void run(const Buffers& buffers) {
    const size_t bytes = bytes_of(buffers);
    for (std::span<float> rest : buffers) {
      while (!rest.empty()) {
        const std::span<float> piece = rest.first(std::min(rest.size(), kElementsAtOnce));
        move(piece);
        rest = rest.subspan(piece.size());
        done_ += piece.size_bytes();
        if (job_.first() && done_ == piece.size_bytes()) announce(bytes);
      }
    }
  }

 private:
  void move(std::span<float> piece) {
    Group& group = job_.membership()->group();
    job_.check(job_.first() ? group.send(std::as_bytes(piece), to_).wait()
                            : group.receive(std::as_writable_bytes(piece), 0).wait());
  }

  void announce(size_t bytes) const {
    const Member& member = job_.membership()->members()[static_cast<size_t>(to_)];
    const double seconds =
        watch_.seconds() * static_cast<double>(bytes) / static_cast<double>(done_);
    log_note(
        format("training pauses for about {} while worker {} ({}) receives the training state, "
               "{}",
               human_seconds(seconds), member.id.number, member.host, human_bytes(bytes)));
  }

  Job& job_;
  int to_;
  size_t done_ = 0;  // bytes
  Stopwatch watch_;
};

void receive_state(AttemptParts& parts) {
  TrainState& state = parts.state;
  const size_t elements = parts.model.layout().elements();
  for (auto* buffer : {&state.parameters, &state.first_moment, &state.second_moment}) {
    buffer->resize(elements);
  }
  state.average.resize(parts.options.ema_decay > 0 ? elements : 0);
  StateTransfer transfer(parts.job, parts.job.rank());
  transfer.run(state_of(state));
  state.worker_states.clear();
  parts.input.reset();
  parts.stepper.reset();  // its memory is needed
  parts.stepper = make_stepper(parts.opened.device, parts.opened.type, parts.model, parts.options,
                               state, parts.job, parts.transport.direct.get());
  transfer.run(parts.stepper->shared_compressor_state());
  parts.job.membership()->received_state();
}

}  // namespace

void send_state(AttemptParts& parts, const std::vector<int>& to) {
  if (!parts.job.membership()->has_state()) return receive_state(parts);
  if (!parts.job.first()) return;
  parts.stepper->fetch_state();
  for (const int rank : to) {
    StateTransfer transfer(parts.job, rank);
    transfer.run(state_of(parts.state));
    transfer.run(parts.stepper->shared_compressor_state());
  }
}

}  // namespace reigen
