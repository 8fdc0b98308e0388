#include "config/worker_options.h"

#include "config/units.h"

namespace reigen {
namespace {

Option compress_option(CompressSetting& target) {
  return {.key = "compress",
          .value_name = "METHOD",
          .help =
              "how gradients travel between workers: none is fp32, bf16 and fp16 are halves, "
              "int8 and int4 integers that share a scale, powersgd:R sends factors of rank R, "
              "topk:F the largest fraction F, local:H "
              "exchanges weights every H steps; auto measures compute and link, and chooses",
          .default_text = text_of(target),
          .limits = "none, bf16, fp16, int8, int4, powersgd:R, topk:F, local:H or auto",
          .assign = [&target](const Json& v) { target = parse_compress(scalar(v)); },
          .current = [&target] { return Json(text_of(target)); }};
}

}  // namespace

void describe(Schema& s, WorkerOptions& o) {
  s.option("workers", o.workers,
           "processes on this host that train together; 0 for one, or as mpirun, srun or torchrun "
           "say",
           0, 1024);
  s.option("hosts", o.hosts, "LIST",
           "train on these hosts over ssh: vm1:2,vm2:2 is two workers on each of two; the first "
           "one's first worker keeps the run");
  s.option("ssh.user", o.ssh_user, "NAME", "user on the hosts; ssh's own choice when empty");
  s.option("ssh.port", o.ssh_port, "port of ssh on the hosts; 0 for ssh's own choice", 0, 65535);
  s.option("remote-binary", o.remote_binary, "PATH",
           "where reigen is on the hosts; the path it has here when empty");
  s.option("copy-binary", o.copy_binary,
           "copy this reigen to hosts that do not have the same version");
  s.option("interface", o.interface, "NAME",
           "network interface for data between workers; chosen by reachability when empty");
  s.choice(
      "transport", o.transport,
      "what carries gradients between GPUs: nccl needs a GPU for each worker, gloo goes through "
      "the host; auto is nccl where it can be",
      {{"auto", Transport::kAuto}, {"gloo", Transport::kGloo}, {"nccl", Transport::kNccl}});
  s.custom(compress_option(o.compress));
  s.option("compress-warmup", o.compress_warmup,
           "steps of a run before powersgd, topk and local begin, in which gradients travel as "
           "int4; -1 for a tenth of max-steps, 1,000 at most",
           -1, 1'000'000'000);
  s.custom(bytes_option("bucket", o.bucket,
                        "gradients leave in pieces of this size while backward still runs; 0 to "
                        "measure once and record it (rounded gradients have a size of their own)"));
  s.custom(seconds_option("start-within", o.start_within,
                          "give up when not all workers are there by then", 1));
  s.custom(seconds_option("silence", o.silence,
                          "a worker that is not heard of for this long is lost", 1));
  s.custom(seconds_option("stall", o.stall,
                          "give up when one exchange takes longer, though all workers are heard "
                          "of; 0 to wait for ever"));
  s.option(
      "shard-optimizer", o.shard_optimizer,
      "each worker keeps the optimizer's moments of its part of the parameters only: less memory, "
      "but the parameters travel after each step, uncompressed; on the CPU");
  s.option("send-data", o.send_data,
           "workers whose host does not have the data get it from the first one");
  s.option("detach", o.detach,
           "go on in the background, also after logout; `reigen attach RUN` shows it");
}

}  // namespace reigen
