#include "config/join_options.h"

#include "config/common_options.h"
#include "config/units.h"

namespace reigen {

void describe(Schema& s, JoinJobOptions& o) {
  s.option("address", o.address, "HOST:PORT",
           "address of a worker of the elastic job, as its log names it; REIGEN_TOKEN must be that "
           "of the job")
      .required()
      .positional();
  s.option("data", o.own.data, "DIR",
           "the dataset of the job on this host; by default at the same path as there");
  s.option("device", o.own.device.device, "NAME",
           "compute device: cpu, cuda, cuda:1 and so on, or auto for a GPU if there is one");
  describe_threads(s, o.own.threads, "; other workers may have a different number");
  s.custom(bytes_option("memory", o.own.memory,
                        "memory budget of this worker; 0 for half of the free memory, or nine "
                        "tenths on a GPU"));
  s.option("interface", o.own.workers.interface, "NAME",
           "network interface for the traffic between workers; by default the one with the route "
           "to the job");
  s.choice("encrypt", o.own.workers.encrypt,
           "encryption between workers, as in the job: auto encrypts between hosts",
           {{"auto", Encrypt::kAuto}, {"on", Encrypt::kOn}, {"off", Encrypt::kOff}});
  s.custom(seconds_option("start-within", o.own.workers.start_within,
                          "time limit for the first answer of the job"));
  s.option("eval.command", o.own.eval.command, "COMMAND",
           "shell command for any other metric, while this worker writes the run; not taken from "
           "the job");
  s.option("on-event", o.own.on_event, "COMMAND",
           "shell command for the events of the run, while this worker writes it; not taken from "
           "the job");
  s.option("checkpoint.copy-to", o.own.checkpoint.copy_to, "PLACE",
           "place of a second copy of the last checkpoint, while this worker writes the run; not "
           "taken from the job");
  describe_quiet(s, o.own.quiet);
  s.example("REIGEN_TOKEN=... reigen join vm1:40231 --data data/wmt");
}

TrainOptions options_of_joiner(const std::string& of_rank0, const TrainOptions& own) {
  TrainOptions options;
  Schema schema("train", "");
  describe(schema, options);
  schema.parse_yaml(of_rank0, "the options of the job");
  if (!own.data.empty()) options.data = own.data;
  options.device.device = own.device.device;
  options.threads = own.threads;
  options.memory = own.memory;
  options.quiet = own.quiet;
  options.eval.command = own.eval.command;
  options.on_event = own.on_event;
  options.checkpoint.copy_to = own.checkpoint.copy_to;
  options.workers.interface = own.workers.interface;
  options.workers.encrypt = own.workers.encrypt;
  options.workers.start_within = own.workers.start_within;
  options.workers.elastic = true;
  return options;
}

}  // namespace reigen
