#include "dist/members/job.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/format.h"

namespace reigen {
namespace {

std::span<std::byte> bytes_of(std::string& text) {
  return std::as_writable_bytes(std::span(text.data(), text.size()));
}

}  // namespace

void Job::check(const CommStatus& status) {
  if (status.ok()) return;
  if (elastic()) throw WorkerLost(status);
  throw cause_of(status);
}

CommError Job::cause_of(const CommStatus& status) const {
  const CommStatus why = membership_->explain(status);
  if (const auto error = membership_->control().first_error()) {
    return CommError(
        format("{} ended with an error: {}", rank_and_host(error->rank, error->host), error->text));
  }
  return CommError(describe(why));
}

std::vector<int> Job::ranks_here() const {
  if (!membership_) return {0};
  return ranks_on_machine_of(rank(), membership_->control().members());
}

void Job::sum(std::span<double> values) {
  if (!alone()) check(membership_->group().sum(values).wait());
}

bool Job::any(bool mine) {
  double votes[] = {mine ? 1.0 : 0.0};
  sum(votes);
  return votes[0] > 0;
}

void Job::barrier() {
  if (!alone()) check(membership_->group().barrier().wait());
}

uint64_t Job::broadcast(uint64_t value) {
  broadcast(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

void Job::broadcast(std::span<std::byte> bytes) {
  if (!alone()) check(membership_->group().broadcast(bytes, 0).wait());
}

void Job::broadcast(std::span<float> values) { broadcast(std::as_writable_bytes(values)); }

std::string Job::broadcast(std::string text) {
  if (alone()) return text;
  text.resize(broadcast(uint64_t{text.size()}));
  broadcast(bytes_of(text));
  return text;
}

std::vector<std::string> Job::gather(const std::string& text) {
  if (alone()) return {text};
  std::vector<double> lengths(static_cast<size_t>(size()));
  lengths[static_cast<size_t>(rank())] = static_cast<double>(text.size());
  sum(lengths);
  Group& group = membership_->group();
  if (!first()) {
    std::string copy = text;
    if (!copy.empty()) check(group.send(bytes_of(copy), 0).wait());
    return {};
  }
  std::vector<std::string> all = {text};
  for (int r = 1; r < size(); ++r) {
    std::string other(static_cast<size_t>(lengths[static_cast<size_t>(r)]), '\0');
    if (!other.empty()) check(group.receive(bytes_of(other), r).wait());
    all.push_back(std::move(other));
  }
  return all;
}

std::vector<std::vector<float>> Job::gather(std::span<const float> values) {
  std::vector<std::vector<float>> all;
  if (!first()) {
    check(membership_->group().send(std::as_bytes(values), 0).wait());
    return all;
  }
  all.emplace_back(values.begin(), values.end());
  for (int r = 1; r < size(); ++r) {
    std::vector<float> other(values.size());
    check(membership_->group().receive(std::as_writable_bytes(std::span(other)), r).wait());
    all.push_back(std::move(other));
  }
  return all;
}

void Job::scatter(const std::function<std::span<const float>(int rank)>& values_for,
                  std::span<float> mine) {
  if (!first()) return check(membership_->group().receive(std::as_writable_bytes(mine), 0).wait());
  std::ranges::copy(values_for(0), mine.begin());
  for (int r = 1; r < size(); ++r) {
    check(membership_->group().send(std::as_bytes(values_for(r)), r).wait());
  }
}

void Job::sum_and_agree(std::span<double> values) {
  std::vector<double> all(values.begin(), values.end());
  all.push_back(votes_.interrupted);
  all.push_back(votes_.time_over);
  all.push_back(votes_.decay_steps);
  all.push_back(votes_.save);
  all.push_back(votes_.joining);
  all.push_back(votes_.leaving);
  all.push_back(votes_.part);
  sum(all);
  std::copy_n(all.begin(), values.size(), values.begin());
  const double* votes = all.data() + values.size();
  agreed_ = {votes[0], votes[1], votes[2], votes[3], votes[4], votes[5], votes[6]};
}

void Job::leave() {
  if (membership_) check(membership_->leave());
}

void Job::give_up(const std::string& why) {
  if (!membership_) return;
  Group& group = membership_->group();
  if (group.status().ok()) membership_->control().report_error(why);
  group.close();
  group.drain();
}

std::vector<int> ranks_on_machine_of(int rank, std::span<const Member> members) {
  const std::string here = members[static_cast<size_t>(rank)].machine();
  std::vector<int> ranks;
  for (size_t r = 0; r < members.size(); ++r) {
    if (members[r].machine() == here) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

std::vector<int> first_rank_of_each_machine(std::span<const Member> members) {
  std::vector<int> ranks;
  std::set<std::string> seen;
  for (size_t r = 0; r < members.size(); ++r) {
    if (seen.insert(members[r].machine()).second) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

}  // namespace reigen
