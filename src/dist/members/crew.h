// The workers of a run as the trainer sees them: alone, or a team.
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

#include "dist/members/team.h"

namespace reigen {

class Crew {
 public:
  Crew() = default;  // alone
  explicit Crew(std::unique_ptr<Team> team) : team_(std::move(team)) {}

  int rank() const { return team_ ? team_->group().rank() : 0; }
  int size() const { return team_ ? team_->group().size() : 1; }
  bool first() const { return rank() == 0; }
  bool alone() const { return size() == 1; }
  Team* team() { return team_.get(); }

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

  // Whether to stop is agreed on with the sums of a step: a worker says what it wishes, and after
  // agree() all know whether anybody did.
  struct Wishes {
    double interrupted = 0;  // a signal
    double time_over = 0;
  };
  void wish(const Wishes& wishes) { wishes_ = wishes; }
  const Wishes& agreed() const { return agreed_; }
  // Sums `values` and the wishes.
  void sum_and_agree(std::span<double> values);

  // All ends in peace.
  void leave();
  // This worker cannot go on: the others hear why, and nothing that is under way uses its memory
  // any more.
  void give_up(const std::string& why);

 private:
  std::unique_ptr<Team> team_;
  Wishes wishes_;
  Wishes agreed_;
};

}  // namespace reigen
