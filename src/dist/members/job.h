// The workers of a run as the trainer sees them: alone, or a membership.
//
// What all must agree on is decided by rank 0 and sent, or summed over all. A worker that was lost
// ends the run for everybody with a CommError that names it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dist/members/membership.h"

namespace reigen {

class Job {
 public:
  Job() = default;  // alone
  explicit Job(std::unique_ptr<Membership> membership) : membership_(std::move(membership)) {}

  int rank() const { return membership_ ? membership_->group().rank() : 0; }
  int size() const { return membership_ ? membership_->group().size() : 1; }
  bool first() const { return rank() == 0; }
  bool alone() const { return size() == 1; }
  Membership* membership() { return membership_.get(); }

  // Each value becomes the sum over all workers.
  void sum(std::span<double> values);
  // Everybody has what rank 0 had.
  void broadcast(std::span<float> values);
  std::string broadcast(std::string text);
  // Everybody's text, by rank, at rank 0; nothing elsewhere.
  std::vector<std::string> gather(const std::string& text);

  // The same for numbers, as many of each worker.
  std::vector<std::vector<float>> gather(std::span<const float> values);
  // Each gets what rank 0 has for it; only rank 0 is asked.
  void scatter(const std::function<std::span<const float>(int rank)>& of, std::span<float> mine);

  // Throws CommError when the status is not ok.
  void check(const CommStatus& status);

  // Whether to stop is agreed on with the sums of a step: a worker says what it votes, and after
  // agree() all know whether anybody did.
  struct StopVotes {
    double interrupted = 0;  // a signal
    double time_over = 0;
  };
  void vote(const StopVotes& votes) { votes_ = votes; }
  const StopVotes& agreed() const { return agreed_; }
  // Sums `values` and the votes.
  void sum_and_agree(std::span<double> values);

  // All ends in peace.
  void leave();
  // This worker cannot go on: the others hear why, and nothing that is under way uses its memory
  // any more.
  void give_up(const std::string& why);

 private:
  std::unique_ptr<Membership> membership_;
  StopVotes votes_;
  StopVotes agreed_;
};

}  // namespace reigen
