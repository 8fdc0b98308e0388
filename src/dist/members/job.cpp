#include "dist/members/job.h"

#include <algorithm>

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
  const CommStatus why = membership_->explain(status);
  if (const auto error = membership_->control().first_error()) {
    throw CommError(
        format("{} ended with an error: {}", rank_and_host(error->rank, error->host), error->text));
  }
  throw CommError(describe(why));
}

void Job::sum(std::span<double> values) {
  if (!alone()) check(membership_->group().sum(values).wait());
}

void Job::broadcast(std::span<float> values) {
  if (!alone()) check(membership_->group().broadcast(std::as_writable_bytes(values), 0).wait());
}

std::string Job::broadcast(std::string text) {
  if (alone()) return text;
  double length[1] = {first() ? static_cast<double>(text.size()) : 0};
  sum(length);
  text.resize(static_cast<size_t>(length[0]));
  check(membership_->group().broadcast(bytes_of(text), 0).wait());
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

void Job::scatter(const std::function<std::span<const float>(int rank)>& of,
                  std::span<float> mine) {
  if (!first()) return check(membership_->group().receive(std::as_writable_bytes(mine), 0).wait());
  std::ranges::copy(of(0), mine.begin());
  for (int r = 1; r < size(); ++r) check(membership_->group().send(std::as_bytes(of(r)), r).wait());
}

void Job::sum_and_agree(std::span<double> values) {
  std::vector<double> all(values.begin(), values.end());
  all.push_back(votes_.interrupted);
  all.push_back(votes_.time_over);
  sum(all);
  std::copy_n(all.begin(), values.size(), values.begin());
  agreed_ = {all[values.size()], all[values.size() + 1]};
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

}  // namespace reigen
