#include "config/worker_options.h"

#include "config/units.h"

namespace reigen {
namespace {

Option compress_option(CompressSetting& target) {
  return {.key = "compress",
          .value_name = "METHOD",
          .help =
              "compression of gradients between workers: none sends fp32; bf16 and fp16 halve the "
              "bytes; int8 and int4 send integers with a scale per block; powersgd:R sends factors "
              "of rank R; topk:F sends the largest fraction F; local:H averages weights every H "
              "steps; auto measures compute and network, and chooses",
          .default_text = text_of(target),
          .limits = "none, bf16, fp16, int8, int4, powersgd:R, topk:F, local:H or auto",
          .assign = [&target](const Json& v) { target = parse_compress(scalar(v)); },
          .current = [&target] { return Json(text_of(target)); }};
}

// Options that start the workers and connect them; they change no result.
void describe_launch(Schema& s, WorkerOptions& o) {
  s.option("workers", o.workers,
           "number of worker processes on this host; 0 for one, or as started by mpirun, srun or "
           "torchrun",
           0, 1024)
      .hyperparameter()
      .free_on_resume()
      .for_launch();
  s.option("hosts", o.hosts, "LIST",
           "hosts to train on over ssh, each with its number of workers, such as vm1:2,vm2:2; the "
           "first worker of the first host is rank 0 and writes the run directory")
      .free_on_resume()
      .for_launch();
  s.option(
       "hosts-file", o.hosts_file, "FILE",
       "in place of --hosts, a file with one of its entries on each line; with --elastic the "
       "launcher reads it again while the job runs: workers of a host that is added join, those "
       "of a host that is removed leave")
      .free_on_resume()
      .for_launch();
  s.option("ssh.user", o.ssh_user, "NAME", "user name for ssh; ssh's default when empty")
      .free_on_resume()
      .for_launch();
  s.option("ssh.port", o.ssh_port, "port of ssh on the hosts; 0 for ssh's default", 0, 65535)
      .free_on_resume()
      .for_launch();
  s.option("remote-binary", o.remote_binary, "PATH",
           "path of the reigen program on the hosts; the same path as here when empty; not taken "
           "from files")
      .free_on_resume()
      .for_launch()
      .command_line_only();
  s.option("copy-binary", o.copy_binary,
           "copy this program to hosts that do not have the same version of it")
      .free_on_resume()
      .for_launch();
  s.option("interface", o.interface, "NAME",
           "network interface for traffic between workers; chosen by reachability when empty")
      .free_on_resume()
      .per_worker();
}

void describe_exchange(Schema& s, WorkerOptions& o) {
  s.choice("transport", o.transport,
           "transport of gradients between GPUs: nccl needs one GPU per worker, tcp copies through "
           "host memory (gloo is its old name); auto is nccl where it is available",
           {{"auto", Transport::kAuto},
            {"tcp", Transport::kTcp},
            {"nccl", Transport::kNccl},
            {"gloo", Transport::kTcp}})
      .free_on_resume()
      .for_launch();
  s.custom(compress_option(o.compress)).hyperparameter().free_on_resume().for_launch();
  s.option("compress-warmup", o.compress_warmup,
           "number of warm-up steps with int4 before powersgd, topk or local begins; -1 for a "
           "tenth of max-steps, at most 1,000",
           -1, 1'000'000'000)
      .free_on_resume()
      .for_launch();
  s.custom(bytes_option(
               "bucket", o.bucket,
               "size of the gradient buckets that are reduced during backward; 0 to "
               "measure the best size once and record it; compressed gradients use a fixed size"))
      .free_on_resume()
      .for_launch();
  s.option("shard-optimizer", o.shard_optimizer,
           "store only a share of the optimizer's moments on each worker: saves memory, but the "
           "parameters are sent uncompressed after each step (CPU only)")
      .free_on_resume()
      .for_launch();
  s.choice("shares", o.shares,
           "each worker's share of a batch: equal, or measured, which gives more to workers that "
           "are measured to be faster during training; a change of shares changes rounding, and is "
           "recorded",
           {{"equal", Shares::kEqual}, {"measured", Shares::kMeasured}})
      .free_on_resume()
      .for_launch();
  s.option("shares-of", o.shares_of, "RUN",
           "run directory whose recorded changes of shares are repeated after the same steps, for "
           "bit-identical results")
      .free_on_resume()
      .from_rank0()
      .unrecorded();
  s.option(
       "replay", o.replay, "RUN",
       "with --elastic: run directory whose workers were lost or joined: those of this job leave "
       "after the same steps, batches are shared alike, and where a worker had joined the job "
       "waits for `reigen join`; for bit-identical results with the same --bucket, --compress and "
       "--threads, without lossy compression")
      .free_on_resume()
      .from_rank0()
      .unrecorded();
}

void describe_security(Schema& s, WorkerOptions& o) {
  s.choice("encrypt", o.encrypt,
           "encryption (TLS 1.3) of the connections between workers: auto encrypts between hosts; "
           "on encrypts within a host, too, and refuses NCCL between hosts, which cannot be "
           "encrypted",
           {{"auto", Encrypt::kAuto}, {"on", Encrypt::kOn}, {"off", Encrypt::kOff}})
      .free_on_resume()
      .for_launch();
  s.option("token-file", o.token_file, "FILE",
           "file with the job's secret, readable by its owner alone (mode 0600), for workers on "
           "several hosts under torchrun or srun; REIGEN_TOKEN may hold the secret instead")
      .free_on_resume()
      .per_worker();
  s.option("insecure", o.insecure,
           "run on several hosts without a secret: anyone who reaches the job's port can join it")
      .free_on_resume()
      .for_launch();
}

void describe_limits(Schema& s, WorkerOptions& o) {
  s.custom(seconds_option("start-within", o.start_within,
                          "time limit for all workers to connect at start", 1))
      .free_on_resume()
      .for_launch();
  s.custom(
       seconds_option("preflight", o.preflight,
                      "time for the measurement of compute and network before the first step of "
                      "several workers; a shorter measurement predicts the step time less "
                      "accurately",
                      0.1))
      .free_on_resume()
      .for_launch();
  s.custom(seconds_option("silence", o.silence,
                          "time without a heartbeat after which a worker counts as lost", 1))
      .free_on_resume()
      .for_launch();
  s.custom(seconds_option("stall", o.stall,
                          "time limit of one exchange while all workers send heartbeats; 0 for no "
                          "limit"))
      .free_on_resume()
      .for_launch();
}

void describe_elastic(Schema& s, WorkerOptions& o) {
  s.option("elastic", o.elastic,
           "continue without lost workers, from the memory of the others and with the same loss "
           "curve; without this option a lost worker ends the attempt")
      .free_on_resume()
      .for_launch();
  s.custom(seconds_option("pause", o.pause,
                          "with --elastic: time limit of a pause, while too few workers of the job "
                          "reach each other to continue; 0 for no limit"))
      .free_on_resume()
      .for_launch();
  s.custom(seconds_option("join-every", o.join_every,
                          "with --elastic: longest time for which workers that wait to join are "
                          "not added after others were; training pauses until they have its state, "
                          "and goes on for ten times as long as it paused before the next pause"))
      .free_on_resume()
      .for_launch();
}

}  // namespace

void describe(Schema& s, WorkerOptions& o) {
  describe_launch(s, o);
  describe_exchange(s, o);
  describe_security(s, o);
  describe_limits(s, o);
  s.option(
       "restarts", o.restarts,
       "maximum number of times that a job of --workers or --hosts starts again by itself, "
       "from its last checkpoint, after the loss of a worker or a host; hosts that do not "
       "answer are left out until they do; with --elastic also of lost workers that are started "
       "again to join the others; 0 for never",
       0, 1'000'000)
      .free_on_resume()
      .for_launch();
  describe_elastic(s, o);
  s.option("send-data", o.send_data, "copy the dataset from rank 0 to hosts that do not have it")
      .free_on_resume()
      .for_launch();
  s.option("detach", o.detach,
           "train in the background, even after logout; `reigen attach RUN` shows the run")
      .free_on_resume()
      .for_launch();
}

}  // namespace reigen
