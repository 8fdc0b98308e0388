// One worker's view of the job: all workers that train a run together, or this one alone.
//
// Decisions that all workers must share are made by rank 0 and broadcast, or summed over all ranks.
// Every method is a collective operation unless its comment says otherwise: all ranks call the same
// ones in the same order. A lost worker ends the run on all ranks with a CommError that names it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "dist/members/membership.h"

namespace reigen {

// A collective operation of an elastic job failed: a worker was lost, and the others form the next
// membership (Membership::form_next).
struct WorkerLost : CommError {
  explicit WorkerLost(const CommStatus& why) : CommError(describe(why)), status(why) {}
  CommStatus status;
};

class Job {
 public:
  Job() = default;  // a single worker
  explicit Job(std::unique_ptr<Membership> membership) : membership_(std::move(membership)) {}

  // Local, not collective.
  int rank() const { return membership_ ? membership_->group().rank() : 0; }
  int size() const { return membership_ ? membership_->group().size() : 1; }
  bool first() const { return rank() == 0; }
  bool alone() const { return size() == 1; }
  Membership* membership() { return membership_.get(); }
  bool elastic() const { return membership_ && membership_->elastic(); }
  // Ranks on this worker's machine, itself included, in rising order.
  std::vector<int> ranks_here() const;
  bool first_here() const { return ranks_here().front() == rank(); }

  // Each value becomes the sum over all ranks.
  void sum(std::span<double> values);
  // Whether `mine` is true on any rank.
  bool any(bool mine);
  // Returns when all ranks have called it.
  void barrier();
  // Rank 0's value on all ranks.
  uint64_t broadcast(uint64_t value);
  std::string broadcast(std::string text);
  void broadcast(std::span<float> values);
  void broadcast(std::span<std::byte> bytes);
  // All ranks' texts by rank, at rank 0; an empty vector elsewhere.
  std::vector<std::string> gather(const std::string& text);
  // The same for numbers; all ranks pass equally many.
  std::vector<std::vector<float>> gather(std::span<const float> values);
  // `mine` becomes values_for(this rank), which is called on rank 0 only.
  void scatter(const std::function<std::span<const float>(int rank)>& values_for,
               std::span<float> mine);

  // Throws CommError when the status is not ok: WorkerLost at once in an elastic job. Not
  // collective.
  void check(const CommStatus& status);
  // The error of the worker that ended first, or the loss that all heard of; waits until the
  // membership must have noticed it. Not collective.
  CommError cause_of(const CommStatus& status) const;

  // Requests travel with the sums of a step, so that all ranks stop, or save, after the same step:
  // each rank votes before the step, and agreed() holds the number of votes after it.
  struct StopVotes {
    double interrupted = 0;  // a signal
    double time_over = 0;    // --max-time
    double decay_steps = 0;  // --decay-now: the length of a final decay; voted for by rank 0 only
    double save = 0;         // --checkpoint.minutes; voted for by rank 0 only
    double joining = 0;      // workers wait to be added; voted for by rank 0 only
    double leaving = 0;      // this worker is to end, and the others are to continue
    double part = 0;         // those that leave go after this step; voted for by rank 0 only
  };
  void vote(const StopVotes& votes) { votes_ = votes; }
  const StopVotes& agreed() const { return agreed_; }
  // Those of a step that was committed by other ranks, in place of this rank's last agreement.
  void adopt(const StopVotes& votes) { agreed_ = votes; }
  // Sums `values` and the votes in one operation.
  void sum_and_agree(std::span<double> values);

  // The orderly end of a job.
  void leave();
  // An error ends this worker: the other ranks receive `why`, and no operation under way uses this
  // worker's memory when this returns. Not collective.
  void give_up(const std::string& why);

 private:
  std::unique_ptr<Membership> membership_;
  StopVotes votes_;
  StopVotes agreed_;
};

// Ranks on the machine of `rank`, rising. Machines differ by Member::machine(), because two
// containers may have the same host name.
std::vector<int> ranks_on_machine_of(int rank, std::span<const Member> members);
// The lowest rank of each machine, rising.
std::vector<int> first_rank_of_each_machine(std::span<const Member> members);

}  // namespace reigen
