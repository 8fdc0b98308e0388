#include "train/gpu_transport.h"

#include <cstdlib>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "dist/nccl_group.h"
#include "ops/gpu_ops.h"

namespace reigen {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) text += format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// Why NCCL cannot be, by what every worker said of itself; empty when it can.
std::string obstacle(const std::vector<std::string>& workers, const std::string& compress) {
  const CompressMethod method = parse_compress(compress).method;
  if (method != CompressMethod::kNone && method != CompressMethod::kBf16 &&
      method != CompressMethod::kFp16) {
    return format("compression {} is computed on the host", compress);
  }
  std::set<std::string> gpus;
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    const Json worker = Json::parse(workers[rank]);
    const auto gpu = worker.at("gpu").get<std::string>();
    const auto why = worker.at("why").get<std::string>();
    if (gpu.empty()) return format("rank {} computes on the CPU", rank);
    if (!why.empty()) return format("rank {}: {}", rank, why);
    if (!gpus.insert(gpu).second) return format("rank {} shares its GPU with another", rank);
  }
  return "";
}

// NCCL's own connections between machines go where ours do.
void use_interface(const std::string& name) {
  if (name != "lo") setenv("NCCL_SOCKET_IFNAME", ("=" + name).c_str(), 0);
}

}  // namespace

GpuTransport choose_transport(Crew& crew, const Device& device, const TrainOptions& options,
                              const std::string& compress) {
  if (crew.alone()) return {};
  const GpuOps* gpu = device.gpu();
  const Transport wanted = options.workers.transport;
  Json mine = {{"gpu", gpu != nullptr ? gpu->facts().uuid : ""}, {"why", ""}};
  std::string why;
  const std::string version = nccl_version(&why);
  if (version.empty()) mine["why"] = why;
  const std::vector<std::string> workers = crew.gather(one_line(mine));

  Json decision = {{"id", ""}, {"why", ""}};
  if (crew.first()) {
    if (wanted == Transport::kGloo) {
      decision["why"] = "as asked";
    } else {
      decision["why"] = obstacle(workers, compress);
    }
    if (decision["why"].get<std::string>().empty()) decision["id"] = hex(new_nccl_id());
  }
  decision = Json::parse(crew.broadcast(one_line(decision)));
  const auto reason = decision.at("why").get<std::string>();
  if (!reason.empty()) {
    if (wanted == Transport::kNccl) {
      throw ConfigError(format("--transport nccl cannot be: {}; use --transport auto", reason));
    }
    if (gpu == nullptr) return {};
    return {nullptr, format("gradients through the host ({})", reason)};
  }
  Team& team = *crew.team();
  use_interface(team.interface().name);
  NcclOptions nccl;
  nccl.rank = crew.rank();
  nccl.size = crew.size();
  nccl.gpu = gpu->facts().index;
  nccl.id = from_hex(decision.at("id").get<std::string>());
  nccl.outside = [&team] { return team.group().status(); };
  nccl.start_within =
      std::chrono::milliseconds(static_cast<int64_t>(1000 * options.workers.start_within));
  for (const Member& member : team.control().members()) nccl.hosts.push_back(member.host);
  return {make_nccl_group(nccl, team.group().epoch()), format("gradients by NCCL {}", version)};
}

}  // namespace reigen
