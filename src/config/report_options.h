// The options of the commands that show a run: `reigen report`, `top` and `dashboard`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/schema.h"

namespace reigen {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string output;
  double price_per_hour = 0;  // of one host
  std::string doctor;
  bool json = false;
};

struct TopOptions {
  std::string run;
  double every = 1;  // seconds
  bool once = false;
};

// The address of the live page, served by `dashboard` or by `train --dashboard`.
struct PageOptions {
  std::string address = "127.0.0.1";
  int64_t port = 0;  // 0 for 6810, or a free port when that is in use
  std::string token;
  std::string token_file;
  bool operator==(const PageOptions&) const = default;
};

struct DashboardOptions {
  std::string run;
  PageOptions page;
};

void describe(Schema& schema, ReportOptions& options);
void describe(Schema& schema, TopOptions& options);
void describe(Schema& schema, DashboardOptions& options);
// Option names begin with `prefix`.
void describe(Schema& schema, PageOptions& options, const std::string& prefix);

}  // namespace reigen
