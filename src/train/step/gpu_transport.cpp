#include "train/step/gpu_transport.h"

#include <cstdlib>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "base/hash.h"
#include "base/json/json.h"
#include "base/terminal.h"
#include "device/gpu.h"
#include "dist/compress/compressor.h"
#include "dist/group/nccl_group.h"

namespace reigen {
namespace {

std::string on_host(const CompressSetting& compress) {
  return format("compression {} is computed on the host", text_of(compress));
}

std::string through_host(const std::string& why) {
  return format("gradients through host memory ({})", why);
}

// A GPU's identity to NCCL: two processes may share a GPU when their NCCL_HOSTID differs.
std::string identity(const Gpu& gpu) {
  const char* machine = std::getenv("NCCL_HOSTID");
  return gpu.facts().uuid + (machine != nullptr ? format(" of {}", machine) : "");
}

// Null when the group cannot be formed, with the reason in `failed`.
std::unique_ptr<Group> form(Job& job, const Gpu& gpu, const TrainOptions& options,
                            const std::string& id, std::string& failed) {
  Membership& membership = *job.membership();
  const auto milliseconds = [](double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(1000 * seconds));
  };
  NcclOptions nccl;
  nccl.rank = job.rank();
  nccl.size = job.size();
  nccl.gpu = gpu.facts().index;
  nccl.id = id;
  // On a thread of its own, which is no sign of this one.
  nccl.outside = [group = &membership.group()] { return group->status(); };
  nccl.start_within = milliseconds(options.workers.start_within);
  nccl.timeout = milliseconds(options.workers.stall);
  for (const Member& member : membership.control().members())
    nccl.machines.push_back(member.machine());
  try {
    return make_nccl_group(nccl, membership.group().epoch());
  } catch (const Error& e) {
    failed = e.what();
    return nullptr;
  }
}

// The failure of the lowest rank that has one, on all ranks; empty when none has.
std::string first_failure(Job& job, const std::string& mine) {
  std::string first;
  int rank = 0;
  for (const std::string& failure : job.gather(mine)) {
    const Member& member = job.membership()->control().members()[static_cast<size_t>(rank++)];
    if (first.empty() && !failure.empty()) {
      first = format("{}: {}", rank_and_host(member.rank, member.host), failure);
    }
  }
  return job.broadcast(first);
}

}  // namespace

std::string why_not_nccl(const NcclQuestion& q) {
  if (q.wanted == Transport::kTcp) return "--transport tcp";
  if (q.encrypt == Encrypt::kOn && q.machines > 1) {
    return "--encrypt on, and NCCL does not encrypt its connections between hosts";
  }
  if (q.compress.method != CompressMethod::kAuto && computed_on_host(q.compress)) {
    return on_host(q.compress);
  }
  std::set<std::string> gpus;
  for (size_t rank = 0; rank < q.workers.size(); ++rank) {
    const auto& [gpu, unusable] = q.workers[rank];
    if (gpu.empty()) return format("rank {} computes on the CPU", rank);
    if (!unusable.empty()) return format("rank {}: {}", rank, unusable);
    if (!gpus.insert(gpu).second) return format("rank {} shares its GPU with a lower rank", rank);
  }
  return "";
}

void check_transport(const Device& device, const TrainOptions& options) {
  if (options.workers.transport != Transport::kNccl || device.gpu() != nullptr) return;
  throw ConfigError(
      "--transport nccl connects GPUs, but this worker computes on the CPU; use --transport auto");
}

GpuTransport choose_transport(Job& job, const Device& device, const TrainOptions& options,
                              const CompressSetting& compress) {
  if (job.alone()) return {};
  const Gpu* gpu = device.gpu();
  const Transport wanted = options.workers.transport;
  Json mine = {{"gpu", gpu != nullptr ? identity(*gpu) : ""}, {"why", ""}};
  std::string why;
  const std::string version = nccl_version(&why);
  if (version.empty()) mine["why"] = why;
  const std::vector<std::string> all = job.gather(one_line(mine));

  Json decision = {{"id", ""}, {"why", ""}};
  if (job.first()) {
    NcclQuestion question;
    question.wanted = wanted;
    question.encrypt = options.workers.encrypt;
    question.compress = compress;
    question.machines = first_rank_of_each_machine(job.membership()->control().members()).size();
    question.workers.reserve(all.size());
    for (const std::string& text : all) {
      const Json worker = Json::parse(text);
      question.workers.push_back(
          {worker.at("gpu").get<std::string>(), worker.at("why").get<std::string>()});
    }
    decision["why"] = why_not_nccl(question);
    try {
      if (decision["why"].get<std::string>().empty()) decision["id"] = hex_encode(new_nccl_id());
    } catch (const CommError& e) {
      decision["why"] = e.what();
    }
  }
  decision = Json::parse(job.broadcast(one_line(decision)));
  const auto reason = decision.at("why").get<std::string>();
  if (!reason.empty()) {
    if (wanted == Transport::kNccl) {
      throw ConfigError(
          format("--transport nccl is not available: {}; use --transport auto", reason));
    }
    if (gpu == nullptr) return {};
    return {nullptr, through_host(reason)};
  }
  std::string failed;
  const std::string id = hex_decode(decision.at("id").get<std::string>()).value_or("");
  std::unique_ptr<Group> group = form(job, *gpu, options, id, failed);
  failed = first_failure(job, failed);
  if (failed.empty()) return {std::move(group), format("gradients over NCCL {}", version)};
  if (wanted == Transport::kNccl) {
    throw CommError(format("{}; --transport tcp goes through host memory instead", failed));
  }
  if (job.first()) log_warning(format("{}: gradients go through host memory", failed));
  return {nullptr, through_host("NCCL cannot connect the GPUs")};
}

void drop_nccl_if_unused(GpuTransport& transport, const CompressSetting& compress) {
  if (!transport.direct || !computed_on_host(compress)) return;
  transport = {nullptr, through_host(on_host(compress))};
}

}  // namespace reigen
