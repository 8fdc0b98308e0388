#include "dist/net/comm_status.h"

#include "base/format.h"

namespace reigen {

CommStatus CommStatus::lost(int rank, std::string host, std::string detail) {
  return {.state = CommState::kLostPeer,
          .rank = rank,
          .host = std::move(host),
          .detail = std::move(detail)};
}

CommStatus CommStatus::closed(std::string detail) {
  return {.state = CommState::kClosed, .detail = std::move(detail)};
}

CommStatus CommStatus::timeout(int rank, std::string host, std::string detail) {
  return {.state = CommState::kTimeout,
          .rank = rank,
          .host = std::move(host),
          .detail = std::move(detail)};
}

CommStatus CommStatus::unreachable(int rank, std::string host, std::string detail) {
  return {.state = CommState::kUnreachable,
          .rank = rank,
          .host = std::move(host),
          .detail = std::move(detail)};
}

std::string rank_and_host(int rank, const std::string& host) {
  if (rank < 0) return "a worker";
  return host.empty() ? format("rank {}", rank) : format("rank {} ({})", rank, host);
}

std::string describe(const CommStatus& status) {
  const std::string detail = status.detail.empty() ? "" : ": " + status.detail;
  switch (status.state) {
    case CommState::kOk:
      return "ok";
    case CommState::kLostPeer:
      return "lost " + rank_and_host(status.rank, status.host) + detail;
    case CommState::kClosed:
      return "closed" + detail;
    case CommState::kTimeout:
      return "timed out waiting for " + rank_and_host(status.rank, status.host) + detail;
    case CommState::kUnreachable:
      return "cannot reach " + rank_and_host(status.rank, status.host) + detail;
  }
  return "";
}

}  // namespace reigen
